package pipeline

import (
	"context"
	"sync"
	"time"
)

// Turns keep the runs of a pipeline and its deltas apart in one process, stream
// by stream: while a pass is under way, what a page says of a record may be older
// than what asking for it has just brought. Who has the turn commits alone, and
// what a pass reads was asked for after everything that is committed by then.
// Invariant 8
//
// The zero value is ready; a nil *Turns keeps nobody waiting.
type Turns struct {
	mu      sync.Mutex
	streams map[string]chan struct{}
	ended   map[string]time.Time // when the last pass of this process was over, by stream
}

func (t *Turns) of(stream string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.streams == nil {
		t.streams = map[string]chan struct{}{}
	}
	c := t.streams[stream]
	if c == nil {
		c = make(chan struct{}, 1)
		t.streams[stream] = c
	}
	return c
}

// end notes that what passes over the stream have read was read before now.
func (t *Turns) end(stream string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		t.ended = map[string]time.Time{}
	}
	t.ended[stream] = time.Now()
}

// since is after whatever passes of this process have read of the stream.
func (t *Turns) since(stream string) time.Time {
	if t == nil {
		return time.Time{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended[stream]
}

// take waits for the stream's turn, for passes.
func (t *Turns) take(ctx context.Context, stream string) (release func(), err error) {
	if t == nil {
		return func() {}, nil
	}
	c := t.of(stream)
	select {
	case c <- struct{}{}:
		return func() { t.end(stream); <-c }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// try takes the stream's turn where it is free.
func (t *Turns) try(stream string) (release func(), ok bool) {
	if t == nil {
		return func() {}, true
	}
	c := t.of(stream)
	select {
	case c <- struct{}{}:
		return func() { <-c }, true
	default:
		return nil, false
	}
}
