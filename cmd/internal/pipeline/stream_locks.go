package pipeline

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// StreamLocks holds one lock per stream of a pipeline. The runs and the deltas in one process share it. Without a
// lock, a page that was requested earlier could replace a record that a delta has just committed. Only the holder of
// a stream's lock commits, and a pass requests its pages after every earlier commit. A pass that is committed in
// parts releases the lock between two commits: see [overlay]. Invariant 8
//
// The zero value is ready to use; a nil *StreamLocks never blocks.
type StreamLocks struct {
	mu      sync.Mutex
	streams map[string]*streamLock
}

// streamLock is the lock of one stream. A nil streamLock never blocks.
type streamLock struct {
	c             chan struct{} // contains one token while the lock is held
	watched       atomic.Bool   // deltas may want the lock
	deltasAllowed atomic.Bool   // a running pass releases the lock between its commits
	doubt         atomic.Bool   // a destination stores open records that the deltas have not queued yet

	mu       sync.Mutex
	overlays map[string]*overlay // by destination; only the lock's holder may use it
	ended    time.Time           // when the last pass of this process ended
}

func (t *StreamLocks) of(stream string) *streamLock {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.streams == nil {
		t.streams = map[string]*streamLock{}
	}
	u := t.streams[stream]
	if u == nil {
		u = &streamLock{c: make(chan struct{}, 1)}
		t.streams[stream] = u
	}
	return u
}

func (t *StreamLocks) watch(stream string) *streamLock {
	if t == nil {
		return nil
	}
	u := t.of(stream)
	u.watched.Store(true)
	return u
}

func (t *StreamLocks) take(ctx context.Context, stream string) (*streamLock, error) {
	if t == nil {
		return nil, nil
	}
	u := t.of(stream)
	return u, u.regain(ctx)
}

// isWatched reports whether deltas may want the lock.
func (u *streamLock) isWatched() bool { return u != nil && u.watched.Load() }

// duringPass reports whether a running pass allows deltas between its commits.
func (u *streamLock) duringPass() bool { return u.deltasAllowed.Load() }

// takeDoubt reports whether a pass has stored open records in a destination since the last call.
func (u *streamLock) takeDoubt() bool { return u.doubt.Swap(false) }

// since returns when the last pass of this process ended.
func (u *streamLock) since() time.Time {
	if u == nil {
		return time.Time{}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended
}

func (u *streamLock) regain(ctx context.Context) error {
	select {
	case u.c <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (u *streamLock) allowDeltas(overlays map[string]*overlay) {
	u.mu.Lock()
	u.overlays = overlays
	u.mu.Unlock()
	u.deltasAllowed.Store(true)
	u.release()
}

// leave ends a run's passes over the stream. locked says whether the run holds the lock.
func (u *streamLock) leave(locked bool, now time.Time) {
	if u == nil {
		return
	}
	u.mu.Lock()
	u.overlays, u.ended = nil, now
	u.mu.Unlock()
	u.deltasAllowed.Store(false)
	if locked {
		u.release()
	}
}

// try takes the lock for deltas if it is free. If a running pass releases the lock between its commits, try
// waits up to patience for the current commit to end. overlays is nil if no pass is running.
func (u *streamLock) try(ctx context.Context, patience time.Duration) (overlays map[string]*overlay, ok bool) {
	if u == nil {
		return nil, true
	}
	select {
	case u.c <- struct{}{}:
	default:
		if !u.deltasAllowed.Load() {
			return nil, false
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if u.regain(ctx) != nil {
			return nil, false
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.overlays, true
}

func (u *streamLock) release() {
	if u != nil {
		<-u.c
	}
}
