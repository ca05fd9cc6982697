package serve

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// How often events are applied: together where many come, soon where one does.
const (
	applyPause = 500 * time.Millisecond
	applyRetry = 30 * time.Second // after an error
)

// applyEvents has webhook events applied as they come, until ctx ends or the
// pipeline is there no more.
func (w *worker) applyEvents(ctx context.Context) {
	p, n := w.definition()
	defer func() { p.close() }()
	again := time.Duration(0) // what an earlier process has left is looked for at once
	for {
		timer := time.NewTimer(again)
		if again < 0 {
			timer.Stop()
		}
		select {
		case <-timer.C:
		case <-w.events:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil || w.left() {
			return
		}
		if now, m := w.definition(); m != n {
			p.close()
			p, n = now, m
		}
		again = w.apply(ctx, p)
		if !pause(ctx, applyPause) {
			return
		}
		if again > 0 {
			again = max(0, again-applyPause)
		}
	}
}

// close ends what Deltas has open.
func (p Pipeline) close() {
	if p.Close != nil {
		p.Close()
	}
}

// pause waits, and reports whether ctx still goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// apply has events applied once and says when to do so again, below zero when
// something comes.
func (w *worker) apply(ctx context.Context, p Pipeline) time.Duration {
	if p.Deltas == nil {
		return -1
	}
	if !p.Beside {
		select {
		case w.turn <- struct{}{}:
			defer func() { <-w.turn }()
		default:
			return -1 // the end of the run wakes us
		}
	}
	started := time.Now()
	got, err := w.guardDeltas(ctx, p)
	if ctx.Err() != nil {
		return -1
	}
	err = w.d.clean(err) // Invariant 5
	n := DeltasApplied{Pipeline: p.Name, Deltas: got, Took: time.Since(started), Err: err}
	w.d.hub.update(p.Name, func(s *Status) { s.Deltas = &n })
	w.d.hub.Changed("webhooks")
	w.d.observe.Observe(n)
	if len(got.Refresh) > 0 {
		w.refresh(got.Refresh)
	}
	switch {
	case err != nil:
		w.d.Log.Warn("webhook events not applied; tried again soon", "pipeline", p.Name, "error", err)
		return applyRetry
	case got.Again > 0:
		return got.Again
	}
	return -1
}

// guardDeltas is one application of events; a panic of it ends it alone.
func (w *worker) guardDeltas(ctx context.Context, p Pipeline) (got Deltas, err error) {
	defer func() {
		if v := recover(); v != nil {
			w.d.Log.Error("applying events panicked", "pipeline", p.Name, "stack", string(debug.Stack()))
			err = fmt.Errorf("apply events to %s: panic: %v", p.Name, v)
		}
	}()
	return p.Deltas(ctx)
}
