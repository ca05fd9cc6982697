package open

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock-data/penstock/state"
)

// secretTime limits how long the command of a ${cmd:…} reference may take.
const secretTime = 30 * time.Second

// printed returns the output of the command in a ${cmd:…} reference.
func (o *Opener) printed(argv []string) (string, error) {
	if err := o.mayRun(argv[0]); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(o.processContext(), secretTime)
	defer cancel()
	out, err := runProgram(ctx, argv, maxSecret)
	return string(out), err
}

// mayRun returns an error if another user can write the configuration, its folder, or the program. In these
// cases that user could choose what runs, so the command of the configuration must not run. A program
// without a slash is looked up in PATH and is not checked.
func (o *Opener) mayRun(program string) error {
	paths := []string{o.File, filepath.Dir(o.File)}
	if real, err := filepath.EvalSymlinks(o.File); err == nil {
		paths = append(paths, filepath.Dir(real))
	}
	if strings.ContainsRune(program, filepath.Separator) {
		paths = append(paths, program)
	}
	for _, path := range paths {
		if err := state.OnlyOurs(path); errors.Is(err, state.ErrExposed) {
			return fmt.Errorf("command %s is not run, since another user could run programs as you: %w", program, err)
		} else if err != nil {
			return fmt.Errorf("command %s: %w", program, err)
		}
	}
	return nil
}
