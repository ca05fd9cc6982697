package main

import (
	"context"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/fleet/queue"
	"github.com/penstock-data/penstock/state"
)

// How soon a call comes again that could not be answered.
const (
	unknownPause = time.Minute     // this process's configuration does not have the pipeline
	busyPause    = 2 * time.Second // another run of the source is under way here
	rereadPause  = 10 * time.Second
	ownerPause   = 3 * time.Second // it is for the host that has what it writes to
)

// answer does the units that a call is about, as far as they wait and may be done
// here. While their source is silent it may return before they are done.
func (h *unitWorker) answer(ctx context.Context, call queue.Wakeup) (did bool, pause time.Duration, err error) {
	c, p, ok := h.known(call)
	if !ok {
		h.log.Warn("a run of a pipeline or source that the configuration here does not have; left to other workers",
			"pipeline", call.Pipeline, "source", call.Source, "run", call.Run)
		return false, unknownPause, nil
	}
	if pause, err := h.elsewhere(ctx, c, p); pause > 0 || err != nil {
		return false, pause, err
	}
	if !h.begin(p.Key()) {
		return false, busyPause, nil
	}
	place := h.places[call.Queue].Take(ctx)
	if place == nil {
		h.end(p.Key())
		return false, busyPause, nil
	}
	w := &claimedWork{unitWorker: h, conf: c, pipeline: p, call: call, place: place, done: make(chan struct{})}
	go w.run(ctx)
	if !place.Wait(w.done) {
		return true, 0, nil
	}
	return w.did, w.pause, w.err
}

// drain waits until nothing is under way of what answer has begun.
func (h *unitWorker) drain(ctx context.Context) error {
	for _, ps := range h.places {
		if err := ps.Drain(ctx); err != nil {
			return err
		}
	}
	return nil
}

// claimedWork is what a call leads to: attempts at units of one source, in a place.
type claimedWork struct {
	*unitWorker
	conf     *config.Config
	pipeline config.Pipeline
	call     queue.Wakeup
	place    *fleet.Slot

	done  chan struct{} // closed once the following stand
	did   bool
	pause time.Duration
	err   error
}

func (w *claimedWork) run(ctx context.Context) {
	defer close(w.done)
	defer w.place.Leave()
	defer w.unitWorker.end(w.pipeline.Key())
	if !w.room.enter() {
		w.pause = busyPause
		return
	}
	w.did, w.err = w.beside(ctx)
	if w.err == nil && ctx.Err() == nil {
		var more bool
		more, w.err = w.apart(ctx)
		w.did = w.did || more
	}
	if w.err != nil && w.place.Aside() { // else the queue says so
		w.log.Warn("units cannot be claimed or settled; others take them over", "pipeline", w.call.Pipeline, "source", w.call.Source, "error", w.err)
	}
}

// beside does units that may be done together with others, and leaves its place.
func (w *claimedWork) beside(ctx context.Context) (did bool, err error) {
	defer w.room.leave()
	return w.take(ctx, false)
}

// apart does units that may be what ends their worker, one by one, while nothing
// else is under way here.
func (w *claimedWork) apart(ctx context.Context) (did bool, err error) {
	waits, err := w.suspects(ctx, w.call)
	if err != nil || !waits || !w.room.clear() {
		return false, err
	}
	defer w.room.open()
	return w.take(ctx, true)
}

// take makes attempts at what a call is about until nothing of it is left to begin.
func (w *claimedWork) take(ctx context.Context, suspect bool) (did bool, err error) {
	for ctx.Err() == nil {
		n, err := w.hand.Work(ctx, state.Claim{Run: w.call.Run, Pipeline: w.call.Pipeline, Source: &w.call.Source, Suspect: suspect},
			func(ctx context.Context, units []state.Unit, settle func(...state.Unit)) []state.Unit {
				return w.attempt(ctx, units, settle)
			})
		if err != nil || n == 0 {
			return did, err
		}
		did = true
	}
	return did, nil
}
