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

// Targets are the destinations of a pipeline. They need not be open.
type Targets struct {
	opener   *Opener
	conf     *config.Config
	pipeline config.Pipeline
}

// TargetsOf returns the destinations of a pipeline.
func TargetsOf(o *Opener, c *config.Config, p config.Pipeline) Targets { return Targets{o, c, p} }

// each calls use() for each destination, or, if a destination has a part for each source, for each part. It stops at the
// first error.
func (t Targets) each(use func(Kind, config.Destination) error) error {
	for _, to := range t.pipeline.To {
		d, _ := t.conf.Destination(to.Text)
		kind, err := t.opener.Kinds.Of(t.conf, d)
		if err != nil {
			return err
		}
		parts := t.pipeline.From
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

// CheckHosts returns an error if another host owns a path of the destinations. Unlike [Opener.Claim], it makes no host
// the owner. // Invariant 13
func (t Targets) CheckHosts(ctx context.Context) error {
	return t.each(func(_ Kind, d config.Destination) error { return Owners{t.opener, t.conf}.check(ctx, d) })
}

// Lend lets other programs open the files of the destinations that only one process can open at a time. This process does
// not open them until back() is called. The caller must call back(), even after an error.
func (t Targets) Lend(ctx context.Context) (back func(), err error) {
	files := map[string][]config.Destination{} // by scheme
	err = t.each(func(kind Kind, d config.Destination) error {
		files[kind.Scheme] = append(files[kind.Scheme], d)
		return nil
	})
	var all []func()
	back = func() {
		for _, one := range all {
			one()
		}
	}
	for _, kind := range t.opener.Kinds { // in the same order in all callers, so that no two of them wait for each other
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
func (t Targets) PublishAgain(ctx context.Context) error {
	return t.each(func(kind Kind, d config.Destination) error {
		if d.Publish == "" {
			return nil
		}
		dest, err := t.opener.Destination(ctx, t.conf, d)
		if err != nil {
			return err
		}
		return errors.Join(kind.Publish(ctx, d, Whole(dest)), dest.Close())
	})
}
