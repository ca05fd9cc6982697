package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// lockWait is how long a process waits for the lock of a pipeline: a daemon that
// applies webhook events has it for moments, many times a minute.
const lockWait = 3 * time.Second

// lockPipeline keeps a second process of this machine from making the same run
// until unlock; the destination's own fence keeps those of others. The key is
// that of a pipeline, or of one of its sources: see [config.Pipeline.Key].
// Invariant 13
func lockPipeline(ctx context.Context, s state.Store, key string) (lease state.Lease, err error) {
	name, source, _ := strings.Cut(key, "@")
	l, err := s.Lease(ctx, name, source, lockWait)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, state.ErrLocked), ctx.Err() != nil:
		return nil, err
	}
	return nil, stateTrouble(err)
}

// errLeaseLost is the cause of the end of whatever went on without its lease.
var errLeaseLost = errors.New("the lease of the pipeline was lost: another process may have it")

// leased is ctx until the lease is lost.
func leased(ctx context.Context, l state.Lease) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if lost := l.Lost(); lost != nil {
		go func() {
			select {
			case <-lost:
				cancel(errLeaseLost)
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(context.Canceled) }
}

// pipelineLocks are the locks of the pipelines that a daemon works on. A run and the
// webhook events of one pipeline are under way together and share its lock; what
// keeps them apart, stream by stream, are its turns.
//
// It is safe for concurrent use; a nil *holds shares nothing.
type pipelineLocks struct {
	mu    sync.Mutex
	locks map[string]*heldLock
	turns map[string]*pipeline.StreamLocks
}

// heldLock is a lock and how many share it. Whoever has busy takes or gives it up.
type heldLock struct {
	busy  chan struct{}
	n     int
	lease state.Lease
}

func newHolds() *pipelineLocks {
	return &pipelineLocks{locks: map[string]*heldLock{}, turns: map[string]*pipeline.StreamLocks{}}
}

// take is lockPipeline for one more of those that share. What is done with the
// lock is done with the context that take returns: it ends once the lock is lost.
func (h *pipelineLocks) take(ctx context.Context, s state.Store, name string) (held context.Context, release func(), err error) {
	if h == nil {
		l, err := lockPipeline(ctx, s, name)
		if err != nil {
			return nil, nil, err
		}
		held, cancel := leased(ctx, l)
		return held, func() { cancel(); _ = l.Release() }, nil
	}
	l := h.of(name)
	select {
	case l.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	defer func() { <-l.busy }()
	if l.n == 0 {
		if l.lease, err = lockPipeline(ctx, s, name); err != nil {
			return nil, nil, err
		}
	}
	l.n++
	held, cancel := leased(ctx, l.lease)
	return held, func() {
		cancel()
		l.busy <- struct{}{}
		defer func() { <-l.busy }()
		if l.n--; l.n == 0 {
			_ = l.lease.Release()
		}
	}, nil
}

func (h *pipelineLocks) of(name string) *heldLock {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.locks[name] == nil {
		h.locks[name] = &heldLock{busy: make(chan struct{}, 1)}
	}
	return h.locks[name]
}

// turnsOf keep a run and the webhook events of a pipeline apart; nil where there
// is nobody to be kept apart from.
func (h *pipelineLocks) turnsOf(name string) *pipeline.StreamLocks {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.turns[name] == nil {
		h.turns[name] = &pipeline.StreamLocks{}
	}
	return h.turns[name]
}
