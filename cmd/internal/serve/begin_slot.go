package serve

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/state"
)

// underWayPause is how long a slot waits before it is tried again, if another process has begun a run of the pipeline.
const underWayPause = time.Second

// beginSlot starts the run of a slot. It first records the run in the journal, so that no slot is run without a
// record. If another process has begun a run of the pipeline, beginSlot starts nothing, and returns when to try again.
// Invariant 18
func (w *worker) beginSlot(ctx context.Context, now time.Time) (again time.Time, err error) {
	r, over, rest := w.p.Plan.pick(w.waiting)
	for _, o := range over {
		if err := w.d.Journal.SetSlot(ctx, o); err != nil && !errors.Is(err, state.ErrTaken) {
			return again, err
		}
		if o.State == state.SlotSkipped {
			w.d.skipped(o)
		}
	}
	w.waiting = rest
	w.wait(r)
	o := RunRequest{Run: runid.New(now), Trigger: Trigger(r.Cause)}
	if w.p.Planned && o.Trigger == TriggerResume && r.Run != "" {
		o.Run = r.Run
	}
	r.State, r.Run, r.Started, r.Why = state.SlotRunning, o.Run, w.d.Now(), ""
	r.Attempts++
	x := w.prepare(o, r)
	err = w.d.Journal.SetSlot(ctx, r, x.record(state.RunRecord{Status: string(pipeline.StatusRunning)}))
	switch {
	case errors.Is(err, state.ErrUnderWay):
		w.slotRefused(r.Due, now, err)
		return now.Add(underWayPause), nil
	case err != nil && !errors.Is(err, state.ErrTaken):
		return again, err
	}
	w.waiting = rest
	if err != nil {
		return again, nil // another process has taken over the slot, because this process seemed to have ended // Invariant 18
	}
	w.begin(ctx, x)
	return again, nil
}

// slotRefused reports that a slot waits for a run that another process has begun. It reports each slot once.
func (w *worker) slotRefused(due, now time.Time, err error) {
	w.otherRun(err)
	other, ok := errors.AsType[*state.UnderWay](err)
	if !ok || other.Ended || w.late.Equal(due) {
		return
	}
	w.late = due
	w.d.Log.Warn("slot waits for another run", "pipeline", w.p.Name, "due", due, "run", other.Run)
	w.d.observe.Observe(RunLate{Pipeline: w.p.Name, Due: due, At: now, Why: state.OverlapReason(other.Run)})
}

// If err says that a run of another process is under way, otherRun passes that run to awaitOthers.
func (w *worker) otherRun(err error) {
	if other, ok := errors.AsType[*state.UnderWay](err); ok && !other.Ended {
		select {
		case w.others <- other.Run:
		default: // awaitOthers is busy; the next refusal tries again
		}
	}
}

// If a run of this process could not begin because of a run of another process, awaitOthers calls Await for that run.
// It returns when ctx ends. Await is needed if the other process was killed: its run may have units that no worker can
// execute, and these would block the pipeline for ever. // Invariant 15
func (w *worker) awaitOthers(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case run := <-w.others:
			if await := w.pipeline().Await; await != nil {
				await(ctx, run)
			}
		}
	}
}
