package main

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// lockWait is how long a process waits for the lock of a pipeline: a daemon that
// applies webhook events has it for moments, many times a minute.
const lockWait = 3 * time.Second

// lockPipeline keeps a second process of this machine from making the same run
// until unlock; the destination's own fence keeps those of others.
// // Invariant 13
func lockPipeline(ctx context.Context, s config.State, name string) (unlock func(), err error) {
	l, err := state.Acquire(ctx, filepath.Join(s.Dir, name+".lock"), lockWait)
	switch {
	case err == nil:
		return func() { _ = l.Release() }, nil
	case errors.Is(err, state.ErrLocked), ctx.Err() != nil:
		return nil, err
	}
	return nil, usage("`state:` in the configuration names the folder; let penstock write to it", "%w", err)
}

// holds are the locks of the pipelines that a daemon works on. A run and the
// webhook events of one pipeline are under way together and share its lock; what
// keeps them apart, stream by stream, are its turns.
//
// It is safe for concurrent use; a nil *holds shares nothing.
type holds struct {
	mu    sync.Mutex
	locks map[string]*heldLock
	turns map[string]*pipeline.Turns
}

// heldLock is a lock and how many share it. Whoever has busy takes or gives it up.
type heldLock struct {
	busy   chan struct{}
	n      int
	unlock func()
}

func newHolds() *holds {
	return &holds{locks: map[string]*heldLock{}, turns: map[string]*pipeline.Turns{}}
}

// take is lockPipeline for one more of those that share.
func (h *holds) take(ctx context.Context, s config.State, name string) (release func(), err error) {
	if h == nil {
		return lockPipeline(ctx, s, name)
	}
	l := h.of(name)
	select {
	case l.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-l.busy }()
	if l.n == 0 {
		if l.unlock, err = lockPipeline(ctx, s, name); err != nil {
			return nil, err
		}
	}
	l.n++
	return func() {
		l.busy <- struct{}{}
		defer func() { <-l.busy }()
		if l.n--; l.n == 0 {
			l.unlock()
		}
	}, nil
}

func (h *holds) of(name string) *heldLock {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.locks[name] == nil {
		h.locks[name] = &heldLock{busy: make(chan struct{}, 1)}
	}
	return h.locks[name]
}

// turnsOf keep a run and the webhook events of a pipeline apart; nil where there
// is nobody to be kept apart from.
func (h *holds) turnsOf(name string) *pipeline.Turns {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.turns[name] == nil {
		h.turns[name] = &pipeline.Turns{}
	}
	return h.turns[name]
}
