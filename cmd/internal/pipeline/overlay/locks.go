package overlay

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Locks holds one lock per stream of a pipeline. The runs and the deltas in one process share these locks. Without a
// lock, a pass could request a page, a delta could then commit a newer record, and the page could replace that record.
// So only the holder of a stream's lock commits, and a pass takes the lock before it requests its first page. A pass
// that is committed in parts releases the lock between two commits: see [Overlay]. Invariant 8
//
// The zero value is ready to use; a nil *Locks never blocks.
type Locks struct {
	mu      sync.Mutex
	streams map[string]*Lock
}

// Lock is the lock of one stream. A nil Lock never blocks.
type Lock struct {
	c             chan struct{} // contains one token while the lock is held
	watched       atomic.Bool   // webhook events of the stream are applied, so deltas may want the lock
	deltasAllowed atomic.Bool   // a running pass releases the lock between its commits
	doubt         atomic.Bool   // a pass has stored records that must be requested again: see TakeDoubt()

	mu       sync.Mutex
	overlays map[string]*Overlay // by destination; only the lock's holder may use it
	ended    time.Time           // when the last pass of this process ended
}

func (t *Locks) of(stream string) *Lock {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.streams == nil {
		t.streams = map[string]*Lock{}
	}
	u := t.streams[stream]
	if u == nil {
		u = &Lock{c: make(chan struct{}, 1)}
		t.streams[stream] = u
	}
	return u
}

// Watch returns the lock of a stream whose webhook events are applied, and notes that deltas may want the lock.
func (t *Locks) Watch(stream string) *Lock {
	if t == nil {
		return nil
	}
	u := t.of(stream)
	u.watched.Store(true)
	return u
}

// Take waits for the lock of a stream, and takes it for a pass.
func (t *Locks) Take(ctx context.Context, stream string) (*Lock, error) {
	if t == nil {
		return nil, nil
	}
	u := t.of(stream)
	return u, u.Regain(ctx)
}

// Watched reports whether deltas may want the lock.
func (u *Lock) Watched() bool { return u != nil && u.watched.Load() }

// DuringPass reports whether a running pass allows deltas between its commits.
func (u *Lock) DuringPass() bool { return u.deltasAllowed.Load() }

// TakeDoubt reports whether a pass has found records that must be requested again. Only passes since the last call of
// TakeDoubt count. The records themselves are stored in the destinations.
func (u *Lock) TakeDoubt() bool { return u.doubt.Swap(false) }

// Since returns when the last pass of this process ended.
func (u *Lock) Since() time.Time {
	if u == nil {
		return time.Time{}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended
}

// Regain waits for the lock, and takes it.
func (u *Lock) Regain(ctx context.Context) error {
	select {
	case u.c <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// AllowDeltas releases the lock until the next commit of a running pass. Deltas then commit through the overlays.
func (u *Lock) AllowDeltas(overlays map[string]*Overlay) {
	u.mu.Lock()
	u.overlays = overlays
	u.mu.Unlock()
	u.deltasAllowed.Store(true)
	u.Release()
}

// Leave ends a run's passes over the stream. If the run holds the lock, Leave also releases it.
func (u *Lock) Leave(locked bool, now time.Time) {
	if u == nil {
		return
	}
	u.mu.Lock()
	u.overlays, u.ended = nil, now
	u.mu.Unlock()
	u.deltasAllowed.Store(false)
	if locked {
		u.Release()
	}
}

// Try takes the lock for deltas if it is free. If a running pass releases the lock between its commits, Try waits for
// the end of the current commit, but not longer than the given time. The returned map is nil if no pass is running.
func (u *Lock) Try(ctx context.Context, patience time.Duration) (overlays map[string]*Overlay, ok bool) {
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
		if u.Regain(ctx) != nil {
			return nil, false
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.overlays, true
}

// Release releases the lock.
func (u *Lock) Release() {
	if u != nil {
		<-u.c
	}
}
