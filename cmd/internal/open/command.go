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

// failureTime is how long the failure of a command is used again. While a secret manager does not answer, each reading
// would otherwise wait until its own command is ended.
const failureTime = 5 * time.Second

// outputs keeps the outputs of commands, by program and arguments. It is safe for concurrent use.
type outputs struct{ byCommand sync.Map } // of *output

type output struct {
	reading sync.Mutex // locked while the command runs for a reader

	mu       sync.Mutex // guards the fields below; not locked while a command runs
	text     string
	at       time.Time // when the command printed the text; zero: never
	err      error     // nil if the failed command printed nothing
	failedAt time.Time // when the command failed for a reader; zero: not since it printed the text
}

// recent returns the text or the failure of the command, if it can be used again.
func (k *output) recent() (text string, failed error, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if since := time.Since(k.at); !k.at.IsZero() && since >= 0 && since < outputTime {
		return k.text, nil, true
	}
	since := time.Since(k.failedAt)
	return "", k.err, !k.failedAt.IsZero() && since >= 0 && since < failureTime
}

func (k *output) keep(text string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil && text != "" {
		k.text, k.at, k.err, k.failedAt = text, time.Now(), nil, time.Time{}
		return
	}
	k.err, k.failedAt = err, time.Now()
}

func (o *outputs) of(argv []string) *output {
	kept, _ := o.byCommand.LoadOrStore(strings.Join(argv, "\x00"), &output{})
	return kept.(*output)
}

// printed runs the command of a ${cmd:…} reference and returns its output. It does not wait for the command of a reader.
func (o *Opener) printed(argv []string) (string, error) {
	text, err := o.run(argv)
	if err == nil && text != "" { // a reader runs a command that failed here, and finds out for itself
		o.outputs.of(argv).keep(text, nil)
	}
	return text, err
}

// recalled is like printed, but does not run a command again that has succeeded in the last minutes, or that has failed
// for a reader in the last seconds. Readers that come while the command runs wait for its output.
func (o *Opener) recalled(argv []string) (string, error) {
	kept := o.outputs.of(argv)
	if text, err, ok := kept.recent(); ok {
		return text, err
	}
	kept.reading.Lock()
	defer kept.reading.Unlock()
	if text, err, ok := kept.recent(); ok {
		return text, err
	}
	text, err := o.run(argv)
	kept.keep(text, err)
	return text, err
}

// run runs a command and returns its output.
func (o *Opener) run(argv []string) (string, error) {
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
