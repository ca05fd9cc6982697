package pipeline

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// StreamLocks keep the runs of a pipeline and its deltas apart in one process, stream
// by stream: what a page says of a record may be older than what asking for it
// has just brought. Who has the turn commits alone, and what a pass reads was
// asked for after everything that is committed by then. A pass that is committed
// in parts lends its turn between two commits: see [overlay]. // Invariant 8
//
// The zero value is ready; a nil *Turns keeps nobody waiting.
type StreamLocks struct {
	mu      sync.Mutex
	streams map[string]*streamLock
}

// streamLock is the lock of one stream. Taking a nil one never waits.
type streamLock struct {
	c       chan struct{} // has one token in it while somebody has the turn
	watched atomic.Bool   // deltas may want it
	lent    atomic.Bool   // by a pass that is under way
	doubt   atomic.Bool   // destinations have records as open of which the deltas do not know

	mu    sync.Mutex
	loans map[string]*overlay // by destination; they are whose the turn is
	ended time.Time           // when the last pass of this process was over
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

// watch says that deltas may want the turn of a stream; nil where there is none.
func (t *StreamLocks) watch(stream string) *streamLock {
	if t == nil {
		return nil
	}
	u := t.of(stream)
	u.watched.Store(true)
	return u
}

// take waits for the stream's turn, for passes.
func (t *StreamLocks) take(ctx context.Context, stream string) (*streamLock, error) {
	if t == nil {
		return nil, nil
	}
	u := t.of(stream)
	return u, u.regain(ctx)
}

// since is after whatever passes of this process have read of the stream.
func (u *streamLock) since() time.Time {
	if u == nil {
		return time.Time{}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended
}

// regain waits for the turn.
func (u *streamLock) regain(ctx context.Context) error {
	select {
	case u.c <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lend gives the turn away between two commits of a pass.
func (u *streamLock) lend(loans map[string]*overlay) {
	u.mu.Lock()
	u.loans = loans
	u.mu.Unlock()
	u.lent.Store(true)
	u.release()
}

// leave ends the passes of a run over the stream. What they have read was read
// before now, by the run's clock. The turn is given up if the run has it.
func (u *streamLock) leave(has bool, now time.Time) {
	if u == nil {
		return
	}
	u.mu.Lock()
	u.loans, u.ended = nil, now
	u.mu.Unlock()
	u.lent.Store(false)
	if has {
		u.release()
	}
}

// try takes the turn where it is free, for deltas. Where a pass lends it, it waits
// for so long, behind a commit and before the next. The loans, by destination, are
// nil where no pass is under way.
func (u *streamLock) try(ctx context.Context, patience time.Duration) (loans map[string]*overlay, ok bool) {
	if u == nil {
		return nil, true
	}
	select {
	case u.c <- struct{}{}:
	default:
		if !u.lent.Load() {
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
	return u.loans, true
}

// release gives the turn up.
func (u *streamLock) release() {
	if u != nil {
		<-u.c
	}
}
