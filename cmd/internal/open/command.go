package open

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/penstock-data/penstock/state"
)

// secretTime limits how long the command of a ${cmd:…} reference may take.
const secretTime = 30 * time.Second

// outputTime is how long the output of a command is used again. Each page of the dashboard and each call of an assistant
// reads the configuration. If each ran the commands, a secret manager would have to answer as often. The time is limited,
// because a secret manager may give out passwords that expire.
const outputTime = 5 * time.Minute

// outputs keeps the outputs of commands, by program and arguments. It is safe for concurrent use.
type outputs struct{ byCommand sync.Map } // of *output

type output struct {
	mu   sync.Mutex // locked while the command runs
	text string
	at   time.Time // when the command printed the text; zero: never
}

func (o *outputs) of(argv []string) *output {
	kept, _ := o.byCommand.LoadOrStore(strings.Join(argv, "\x00"), &output{})
	return kept.(*output)
}

// printed runs the command of a ${cmd:…} reference and returns its output.
func (o *Opener) printed(argv []string) (string, error) {
	kept := o.outputs.of(argv)
	kept.mu.Lock()
	defer kept.mu.Unlock()
	return o.run(argv, kept)
}

// recalled is like printed, but does not run a command again that has succeeded in the last minutes.
func (o *Opener) recalled(argv []string) (string, error) {
	kept := o.outputs.of(argv)
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if since := time.Since(kept.at); !kept.at.IsZero() && since >= 0 && since < outputTime {
		return kept.text, nil
	}
	return o.run(argv, kept)
}

// run runs a command and keeps its output.
func (o *Opener) run(argv []string, kept *output) (string, error) {
	if err := o.mayRun(argv[0]); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(o.processContext(), secretTime)
	defer cancel()
	out, err := runProgram(ctx, argv, maxSecret)
	if err == nil && len(out) > 0 {
		kept.text, kept.at = string(out), time.Now()
	}
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
