package open

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/after"
	"github.com/penstock-data/penstock/cmd/internal/config"
)

// Command returns a command of `after`, ready to run in the folder of the configuration. It returns an error if another
// user could decide what runs, or if there is no such program.
func (o *Opener) Command(c config.Command) (after.Command, error) {
	cmd := after.Command{Words: c.Words, Env: map[string]string{}, Timeout: c.Timeout}
	file, err := filepath.Abs(o.File)
	if err != nil {
		return cmd, err
	}
	cmd.Dir = filepath.Dir(file)
	for name, text := range c.Env {
		cmd.Env[name] = text.Reveal()
	}
	program, err := cmd.Program()
	if err != nil {
		return cmd, err
	}
	if !strings.ContainsRune(filepath.ToSlash(c.Words[0]), '/') {
		program = c.Words[0] // from PATH
	}
	return cmd, o.mayRun(program)
}

// Lend lets other programs open the files of the pipeline's destinations that only one process can open at a time. This
// process does not open them until back() is called. The caller must call back(), even after an error.
func (o *Opener) Lend(ctx context.Context, c *config.Config, p config.Pipeline) (back func(), err error) {
	var all []func()
	back = func() {
		for _, one := range all {
			one()
		}
	}
	for _, to := range p.To {
		d, _ := c.Destination(to.Text)
		kind, err := o.Kind(c, d)
		if err != nil {
			return back, err
		}
		if kind.Lend == nil {
			continue
		}
		parts := p.From
		if !d.PerSource() {
			parts = parts[:min(1, len(parts))]
		}
		for _, source := range parts {
			one, err := kind.Lend(ctx, d.For(source.Text))
			if err != nil {
				return back, fmt.Errorf("destination %s: %w", d.Name, err)
			}
			all = append(all, one)
		}
	}
	return back, nil
}
