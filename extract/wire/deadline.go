package wire

import (
	"context"
	"errors"
	"io"
	"time"
)

// Deadlines of one try. A missed deadline is a transient fault.
var (
	errTotal = errors.New("answer took too long")
	errIdle  = errors.New("answer stalled")
	errSlow  = errors.New("answer came too slowly")
)

// watch limits one try: its total time, the pause between two reads of the body, and the slowest speed of the body.
// Invariant 15
type watch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	end    context.CancelFunc
	t      Timeouts
	idle   *time.Timer
	since  time.Time // start of the current period of length SlowAfter
	got    int64     // bytes in this period
}

func newWatch(parent context.Context, t Timeouts) *watch {
	ctx, end := context.WithTimeoutCause(parent, t.Total, errTotal)
	ctx, cancel := context.WithCancelCause(ctx)
	return &watch{ctx: ctx, cancel: cancel, end: end, t: t}
}

func (w *watch) stop() {
	if w.idle != nil {
		w.idle.Stop()
	}
	w.cancel(context.Canceled)
	w.end()
}

func (w *watch) explain(err error) error {
	if missed := context.Cause(w.ctx); missed != nil {
		return missed
	}
	return err
}

func (w *watch) body(r io.Reader) io.Reader {
	w.idle = time.AfterFunc(w.t.Idle, func() { w.cancel(errIdle) })
	w.since = time.Now()
	return watchedBody{w, r}
}

type watchedBody struct {
	w *watch
	r io.Reader
}

// Read reads from the body and checks the deadlines.
func (b watchedBody) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	w := b.w
	if err != nil {
		if !errors.Is(err, io.EOF) {
			err = w.explain(err)
		}
		return n, err
	}
	w.idle.Reset(w.t.Idle)
	w.got += int64(n)
	if now := time.Now(); now.Sub(w.since) >= w.t.SlowAfter {
		if w.got < w.t.MinBytes {
			return n, errSlow
		}
		w.since, w.got = now, 0
	}
	return n, nil
}
