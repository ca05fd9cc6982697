package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/state"
)

// lockPipeline keeps a second process of this machine from making the same run
// until unlock; the destination's own fence keeps those of others.
// // Invariant 13
func lockPipeline(ctx context.Context, s config.State, name string) (unlock func(), err error) {
	l, err := state.Acquire(ctx, filepath.Join(s.Dir, name+".lock"), 0)
	switch {
	case err == nil:
		return func() { _ = l.Release() }, nil
	case errors.Is(err, state.ErrLocked), ctx.Err() != nil:
		return nil, err
	}
	return nil, usage("`state:` in the configuration names the folder; let penstock write to it", "%w", err)
}
