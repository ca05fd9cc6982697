package serve

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// Pauses between two calls of apply(). Events that arrive during a pause are applied together.
const (
	applyPause = 500 * time.Millisecond
	applyRetry = 30 * time.Second // after an error
)

func (w *worker) applyEvents(ctx context.Context) {
	p, n := w.definition()
	defer func() { p.close() }()
	again := time.Duration(0) // apply at once: an earlier process may have left events in the inbox
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

func (p Pipeline) close() {
	if p.Close != nil {
		p.Close()
	}
}

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

// apply applies the events that have arrived. It returns how long to wait before the next call. A negative value
// means: wait for the next event.
func (w *worker) apply(ctx context.Context, p Pipeline) time.Duration {
	if p.Deltas == nil {
		return -1
	}
	if !p.Concurrent {
		select {
		case w.turn <- struct{}{}:
			defer func() { <-w.turn }()
		default:
			return -1 // a run is in progress, and its end wakes the worker
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
		w.d.Log.Warn("cannot apply webhook events; retrying soon", "pipeline", p.Name, "error", err)
		return applyRetry
	case got.ApplyAfter > 0:
		return got.ApplyAfter
	}
	return -1
}

func (w *worker) guardDeltas(ctx context.Context, p Pipeline) (got Deltas, err error) {
	defer func() {
		if v := recover(); v != nil {
			w.d.Log.Error("applying events panicked", "pipeline", p.Name, "stack", string(debug.Stack()))
			err = fmt.Errorf("apply events to %s: panic: %v", p.Name, v)
		}
	}()
	w.mu.Lock()
	refused := w.refused
	w.refused = nil
	w.mu.Unlock()
	return p.Deltas(ctx, refused)
}
