package open

import (
	"context"
	"errors"
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

// loaded calls use() for each destination of a pipeline, or, if a destination has a part for each source, for each part.
// It stops at the first error.
func (o *Opener) loaded(c *config.Config, p config.Pipeline, use func(Kind, config.Destination) error) error {
	for _, to := range p.To {
		d, _ := c.Destination(to.Text)
		kind, err := o.Kind(c, d)
		if err != nil {
			return err
		}
		parts := p.From
		if !d.PerSource() {
			parts = parts[:min(1, len(parts))]
		}
		for _, source := range parts {
			if err := use(kind, d.For(source.Text)); err != nil {
				return fmt.Errorf("destination %s: %w", d.Name, err)
			}
		}
	}
	return nil
}

// CheckHosts returns an error if another host owns a path of the pipeline's destinations. Unlike [Opener.Claim], it
// makes no host the owner. // Invariant 13
func (o *Opener) CheckHosts(ctx context.Context, c *config.Config, p config.Pipeline) error {
	return o.loaded(c, p, func(_ Kind, d config.Destination) error { return o.checkHost(ctx, c, d) })
}

// Lend lets other programs open the files of the pipeline's destinations that only one process can open at a time. This
// process does not open them until back() is called. The caller must call back(), even after an error.
func (o *Opener) Lend(ctx context.Context, c *config.Config, p config.Pipeline) (back func(), err error) {
	files := map[string][]config.Destination{} // by scheme
	err = o.loaded(c, p, func(kind Kind, d config.Destination) error {
		files[kind.Scheme] = append(files[kind.Scheme], d)
		return nil
	})
	var all []func()
	back = func() {
		for _, one := range all {
			one()
		}
	}
	for _, kind := range o.Kinds { // in the same order in all callers, so that no two of them wait for each other
		if err != nil || kind.Lend == nil {
			continue
		}
		var one func()
		if one, err = kind.Lend(ctx, files[kind.Scheme]); err == nil {
			all = append(all, one)
		}
	}
	return back, err
}

// PublishAgain copies what the commands of `after` have made, for each destination with `publish:` in the configuration.
func (o *Opener) PublishAgain(ctx context.Context, c *config.Config, p config.Pipeline) error {
	return o.loaded(c, p, func(kind Kind, d config.Destination) error {
		if d.Publish == "" {
			return nil
		}
		dest, err := o.Destination(ctx, c, d)
		if err != nil {
			return err
		}
		return errors.Join(kind.Publish(ctx, d, Whole(dest)), dest.Close())
	})
}
