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

// lockWait is how long a process waits for the lock of a pipeline. A daemon that applies webhook
// events has the lock for moments, many times a minute.
const lockWait = 3 * time.Second

// lockPipeline prevents other processes with the same state from running the pipeline until the lease is
// released. If another process has the pipeline, lockPipeline waits up to lockWait and then returns
// state.ErrLocked. Against processes with another state, the destination itself refuses a second commit. The key
// is that of a pipeline, or of one of its sources: see [config.Pipeline.Key]. Invariant 13
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

// errLeaseLost is the cause that ends work whose lease was lost.
var errLeaseLost = errors.New("lost the lease of the pipeline: another process may have it")

// leased returns a context that ends when the lease is lost.
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

// pipelineLocks are the locks of the pipelines that a daemon works on. A run and the webhook events of
// a pipeline share its lock, because they are under way at the same time. Further locks, one per stream,
// keep the run and the events from committing to a stream at the same time: see turnsOf.
//
// It is safe for concurrent use. A nil *pipelineLocks shares nothing.
type pipelineLocks struct {
	mu    sync.Mutex
	locks map[string]*heldLock
	turns map[string]*pipeline.StreamLocks
}

// heldLock is a lock and the number of its users. The channel busy guards both: send on it before
// taking or releasing the lock.
type heldLock struct {
	busy  chan struct{}
	n     int
	lease state.Lease
}

func newPipelineLocks() *pipelineLocks {
	return &pipelineLocks{locks: map[string]*heldLock{}, turns: map[string]*pipeline.StreamLocks{}}
}

// take locks a pipeline, or joins the users in this process that already have its lock. Work under the
// lock must use the context held, which ends when the lock is lost, and must call release at its end.
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

// turnsOf returns the locks that keep a run and the webhook events of a pipeline from committing to a stream
// at the same time. It returns nil if h is nil, because then this process makes only one run.
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
