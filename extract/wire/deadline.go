package wire

import (
	"context"
	"errors"
	"io"
	"time"
)

// The deadlines a try can miss; all of them are transient faults.
var (
	errTotal = errors.New("answer took too long")
	errIdle  = errors.New("answer stalled")
	errSlow  = errors.New("answer came too slowly")
)

// watch bounds one try in time: the whole of it, the silence between two
// reads of the body, and how slowly the body may trickle. // Invariant 15
type watch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	end    context.CancelFunc
	t      Timeouts
	idle   *time.Timer
	since  time.Time // beginning of the stretch that must bring MinBytes
	got    int64     // in this stretch
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

// explain returns the deadline that was missed in place of the bare
// cancellation which it causes.
func (w *watch) explain(err error) error {
	if missed := context.Cause(w.ctx); missed != nil {
		return missed
	}
	return err
}

// body returns r under the watch's eye.
func (w *watch) body(r io.Reader) io.Reader {
	w.idle = time.AfterFunc(w.t.Idle, func() { w.cancel(errIdle) })
	w.since = time.Now()
	return watchedBody{w, r}
}

type watchedBody struct {
	w *watch
	r io.Reader
}

// Read reads from the body and tells the watch how much came.
func (b watchedBody) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	w := b.w
	if err != nil {
		if err != io.EOF {
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
