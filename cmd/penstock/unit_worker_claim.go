package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/fleet/queue"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// Pauses before a job is delivered again that could not be done, and rereadPause.
const (
	unknownPause = time.Minute      // the configuration of this process does not have the pipeline
	busyPause    = 2 * time.Second  // this process has no slot, or a unit in it must run alone
	heldPause    = 5 * time.Second  // the source is worked on, here or by another worker
	rereadPause  = 10 * time.Second // least time between two readings of the configuration
	ownerPause   = 3 * time.Second  // another host owns the destination
)

// do works on the units of a job, if this process can. While the source is silent, do may return before the units
// end. The job is then delivered again from time to time, until they have ended.
func (h *unitWorker) do(ctx context.Context, u queue.Unit, cancelled <-chan struct{}) (next time.Time, err error) {
	defer func() {
		if err != nil {
			err = errors.New(h.redactor.Redact(err.Error())) // the queue stores it // Invariant 5
		}
	}()
	after := func(pause time.Duration) time.Time { return h.db.Now().Add(pause) }
	c, p, ok := h.known(u)
	if !ok {
		if h.first(u.Pipeline + " " + u.Source) {
			h.log.Warn("pipeline or source of a run is not in the configuration here; left to other workers",
				"pipeline", u.Pipeline, "source", u.Source, "run", u.Run)
		}
		return after(unknownPause), nil
	}
	pause, err := h.otherHostPause(ctx, c, p)
	switch {
	case err != nil:
		return next, err
	case pause > 0:
		return after(pause), nil
	}
	if !h.begin(p.Key()) {
		return after(heldPause), nil
	}
	slot := h.slotsByQueue[u.Queue].Acquire(ctx)
	if slot == nil {
		h.end(p.Key())
		return after(busyPause), nil
	}
	w := &claimedWork{unitWorker: h, conf: c, pipeline: p, job: u, slot: slot, done: make(chan struct{})}
	go w.run(ctx, cancelled)
	if !slot.Wait(w.done) {
		return after(heldPause), nil
	}
	if w.err != nil {
		return next, w.err
	}
	return h.next(ctx, u)
}

// otherHostPause returns 0 if this host may execute units of the pipeline. It returns ownerPause if another
// host owns a destination of the pipeline; that host then executes the units. If the path has no owner yet,
// this host becomes its owner. // Invariant 13
func (h *unitWorker) otherHostPause(ctx context.Context, c *config.Config, p config.Pipeline) (time.Duration, error) {
	err := h.open.Claim(ctx, c, p)
	e, ok := errors.AsType[*open.ElsewhereError](err)
	if !ok {
		return 0, err
	}
	if h.first(p.Key() + " " + e.Owner.Name) {
		h.log.Info("runs left to another host", "pipeline", p.Name, "source", p.From[0].Text, "host", e.Owner.Name, "reason", e)
	}
	return ownerPause, nil
}

// first reports whether a message was not logged before.
func (h *unitWorker) first(message string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.logged[message]
	h.logged[message] = true
	return !was
}

// next returns when the units of a job can go on: the zero time if all of them have ended. If the next unit failed,
// err says why.
func (h *unitWorker) next(ctx context.Context, u queue.Unit) (next time.Time, err error) {
	f := unitsOf(u)
	f.Active = true
	left, err := h.claimer.Units.Units(ctx, f)
	if err != nil {
		return next, err
	}
	now := h.db.Now()
	for _, one := range left {
		at, reason := one.NotBefore, error(nil)
		switch rep := fleet.ReportOf(one); {
		case one.State == state.UnitRunning:
			at = now.Add(heldPause)
		case !at.After(now):
			at = now.Add(busyPause) // it could not start
		case rep.Status == pipeline.StatusFailed:
			reason = errors.New(cmp.Or(rep.Reason, "streams failed"))
		}
		if next.IsZero() || at.Before(next) {
			next, err = at, reason
		}
	}
	return next, err
}

// drain waits until the work that do has started ends.
func (h *unitWorker) drain(ctx context.Context) error {
	for _, ps := range h.slotsByQueue {
		if err := ps.Drain(ctx); err != nil {
			return err
		}
	}
	return nil
}

// claimedWork is the work on one job: attempts at units of one source, in a slot.
type claimedWork struct {
	*unitWorker
	conf     *config.Config
	pipeline config.Pipeline
	job      queue.Unit
	slot     *fleet.Slot

	done chan struct{} // closed once err is set
	err  error
}

// run works until ctx ends or cancelled is closed.
func (w *claimedWork) run(ctx context.Context, cancelled <-chan struct{}) {
	defer close(w.done)
	defer w.slot.Leave()
	defer w.unitWorker.end(w.pipeline.Key())
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-cancelled:
			cancel(fleet.ErrUnitsLost)
		case <-ctx.Done():
		}
	}()
	if !w.gate.enter() {
		return
	}
	if w.err = w.runShared(ctx); w.err == nil && ctx.Err() == nil {
		w.err = w.runSuspects(ctx)
	}
	if w.err != nil && w.slot.Aside() { // else the queue reports the error
		w.log.Warn("cannot claim or settle units; other workers take them over", "pipeline", w.job.Pipeline, "source", w.job.Source, "error", w.err)
	}
}

// runShared makes attempts at units that may run together with others, and leaves the gate.
func (w *claimedWork) runShared(ctx context.Context) error {
	defer w.gate.leave()
	return w.attemptAll(ctx, false)
}

// runSuspects makes attempts at units that may have crashed their worker, one at a time, while nothing else runs in
// this process.
func (w *claimedWork) runSuspects(ctx context.Context) error {
	waits, err := w.suspects(ctx)
	if err != nil || !waits || !w.gate.enterAlone() {
		return err
	}
	defer w.gate.leaveAlone()
	return w.attemptAll(ctx, true)
}

// suspects reports whether a waiting unit of the job may have crashed the worker that worked on it.
func (w *claimedWork) suspects(ctx context.Context) (bool, error) {
	f := unitsOf(w.job)
	f.Active = true
	units, err := w.claimer.Units.Units(ctx, f)
	return slices.ContainsFunc(units, func(u state.Unit) bool { return u.State != state.UnitRunning && u.Suspect() }), err
}

// attemptAll makes attempts at the units of the job until none is left to start.
func (w *claimedWork) attemptAll(ctx context.Context, suspect bool) error {
	claim := state.Claim{Run: w.job.Run, Pipeline: w.job.Pipeline, Source: &w.job.Source, Suspect: suspect}
	for ctx.Err() == nil {
		if n, err := w.claimer.Work(ctx, claim, w.attempt); err != nil || n == 0 {
			return err
		}
	}
	return nil
}
