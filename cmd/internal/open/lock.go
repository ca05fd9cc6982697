package open

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/overlay"
	"github.com/penstock-data/penstock/state"
)

// lockWait is how long a process waits for the lock of a pipeline. A daemon that applies webhook events keeps the lock
// for a shorter time.
const lockWait = 3 * time.Second

// LockPipeline takes the lease of a pipeline, or of one of its sources. The key comes from [config.Pipeline.Key]. Until
// the lease is released, no other process with the same state can run the pipeline. If another process has the lease,
// LockPipeline waits up to lockWait, and then returns state.ErrLocked. Processes with another state do not see the
// lease. For them, the destination refuses a commit if another process has committed in the meantime.
// Invariant 13
func LockPipeline(ctx context.Context, s state.Store, key string) (lease state.Lease, err error) {
	name, source, _ := strings.Cut(key, "@")
	l, err := s.Lease(ctx, name, source, lockWait)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, state.ErrLocked), ctx.Err() != nil:
		return nil, err
	}
	return nil, StateTrouble(err)
}

// errLeaseLost is the cause of a context that ends because its lease was lost.
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

// PipelineLocks has the locks of the pipelines that a process works on. A run of a pipeline and the application of its
// webhook events may be under way at the same time, so they share one lock. A lock per stream keeps them from
// committing to the same stream at the same time: see StreamLocks.
//
// It is safe for concurrent use. The zero value is ready to use.
type PipelineLocks struct {
	mu    sync.Mutex
	locks map[string]*heldLock
	turns map[string]*overlay.Locks
}

// heldLock is the lock of one pipeline, and the number of its users. Before you use the other fields, send to the
// channel `busy`. Afterwards receive from it.
type heldLock struct {
	busy  chan struct{} // has room for one value
	n     int           // number of users
	lease state.Lease   // if n > 0
}

// Take locks a pipeline. If other users in this process have its lock, Take shares the lock with them. The caller must
// use the returned context, which ends when the lock is lost, and must call release() at the end.
func (h *PipelineLocks) Take(ctx context.Context, s state.Store, name string) (held context.Context, release func(), err error) {
	l := h.of(name)
	select {
	case l.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	defer func() { <-l.busy }()
	if l.n == 0 {
		if l.lease, err = LockPipeline(ctx, s, name); err != nil {
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

func (h *PipelineLocks) of(name string) *heldLock {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.locks == nil {
		h.locks = map[string]*heldLock{}
	}
	if h.locks[name] == nil {
		h.locks[name] = &heldLock{busy: make(chan struct{}, 1)}
	}
	return h.locks[name]
}

// StreamLocks returns the locks of a pipeline's streams. With them, a run and the application of webhook events do not
// commit to a stream at the same time.
func (h *PipelineLocks) StreamLocks(name string) *overlay.Locks {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.turns == nil {
		h.turns = map[string]*overlay.Locks{}
	}
	if h.turns[name] == nil {
		h.turns[name] = &overlay.Locks{}
	}
	return h.turns[name]
}
