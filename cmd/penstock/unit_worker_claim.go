package main

import (
	"context"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/fleet/queue"
	"github.com/penstock-data/penstock/state"
)

// Pauses before a call that could not be answered is tried again, and rereadPause.
const (
	unknownPause = time.Minute      // the configuration of this process does not have the pipeline
	busyPause    = 2 * time.Second  // in this process, another run of the source or a unit that runs alone is under way
	rereadPause  = 10 * time.Second // least time between two readings of the configuration
	ownerPause   = 3 * time.Second  // another host owns the destination
)

// answer executes the waiting units of a call, if this process can execute them. It may return before
// the units end, if their source is silent.
func (h *unitWorker) answer(ctx context.Context, call queue.Wakeup) (did bool, pause time.Duration, err error) {
	c, p, ok := h.known(call)
	if !ok {
		h.log.Warn("pipeline or source of a run is not in the configuration here; left to other workers",
			"pipeline", call.Pipeline, "source", call.Source, "run", call.Run)
		return false, unknownPause, nil
	}
	if pause, err := h.otherHostPause(ctx, c, p); pause > 0 || err != nil {
		return false, pause, err
	}
	if !h.begin(p.Key()) {
		return false, busyPause, nil
	}
	place := h.slotsByQueue[call.Queue].Acquire(ctx)
	if place == nil {
		h.end(p.Key())
		return false, busyPause, nil
	}
	w := &claimedWork{unitWorker: h, conf: c, pipeline: p, call: call, slot: place, done: make(chan struct{})}
	go w.run(ctx)
	if !place.Wait(w.done) {
		return true, 0, nil
	}
	return w.did, w.pause, w.err
}

// drain waits until the work that answer has started ends.
func (h *unitWorker) drain(ctx context.Context) error {
	for _, ps := range h.slotsByQueue {
		if err := ps.Drain(ctx); err != nil {
			return err
		}
	}
	return nil
}

// claimedWork is the work of one call: attempts at units of one source, in a slot.
type claimedWork struct {
	*unitWorker
	conf     *config.Config
	pipeline config.Pipeline
	call     queue.Wakeup
	slot     *fleet.Slot

	done  chan struct{} // closed once the fields below are set
	did   bool
	pause time.Duration
	err   error
}

func (w *claimedWork) run(ctx context.Context) {
	defer close(w.done)
	defer w.slot.Leave()
	defer w.unitWorker.end(w.pipeline.Key())
	if !w.gate.enter() {
		w.pause = busyPause
		return
	}
	w.did, w.err = w.runShared(ctx)
	if w.err == nil && ctx.Err() == nil {
		var more bool
		more, w.err = w.runSuspects(ctx)
		w.did = w.did || more
	}
	if w.err != nil && w.slot.Aside() { // else the queue reports the error
		w.log.Warn("cannot claim or settle units; other workers take them over", "pipeline", w.call.Pipeline, "source", w.call.Source, "error", w.err)
	}
}

// runShared executes units that may run together with others, and leaves the gate.
func (w *claimedWork) runShared(ctx context.Context) (did bool, err error) {
	defer w.gate.leave()
	return w.attemptAll(ctx, false)
}

// runSuspects executes units that may have crashed their worker, one at a time, while nothing else runs in this
// process.
func (w *claimedWork) runSuspects(ctx context.Context) (did bool, err error) {
	waits, err := w.suspects(ctx, w.call)
	if err != nil || !waits || !w.gate.enterAlone() {
		return false, err
	}
	defer w.gate.leaveAlone()
	return w.attemptAll(ctx, true)
}

// attemptAll makes attempts at the units of a call until none is left to start.
func (w *claimedWork) attemptAll(ctx context.Context, suspect bool) (did bool, err error) {
	for ctx.Err() == nil {
		n, err := w.claimer.Work(ctx, state.Claim{Run: w.call.Run, Pipeline: w.call.Pipeline, Source: &w.call.Source, Suspect: suspect},
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
