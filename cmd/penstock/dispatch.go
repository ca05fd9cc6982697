package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/state"
)

// errUnderWay means that no unit can be added for a run, because each would repeat a unit of another run that has
// not ended.
var errUnderWay = fmt.Errorf("another run of the pipeline has not ended: %w", state.ErrLocked)

// endLook is how often dispatch checks whether units have ended.
const endLook = time.Second

// dispatch divides a run into units, which workers claim, and waits until the units have ended. If another process
// has already planned the run, dispatch only waits. // Invariant 18
func (h *unitWorker) dispatch(ctx context.Context, c *config.Config, p config.Pipeline, o serve.RunRequest) (r pipeline.Report, err error) {
	began := h.db.Now()
	if err := h.plan(ctx, c, p, o); err != nil {
		return r, err
	}
	if err := h.await(ctx, o.Run); err != nil {
		return pipeline.Report{Run: o.Run, Pipeline: p.Name, Status: pipeline.StatusStopped, Started: began, Ended: h.db.Now()}, h.abandon(ctx, o.Run)
	}
	units, err := h.unitsOf(ctx, o.Run)
	if err != nil {
		return r, err
	}
	return fleet.Joined(o.Run, p.Name, units), nil
}

// plan stores the units of a run and wakes the workers, in one transaction. It does nothing if the run
// already has units.
func (h *unitWorker) plan(ctx context.Context, c *config.Config, p config.Pipeline, o serve.RunRequest) error {
	before, err := h.claimer.Units.Units(ctx, state.UnitFilter{Run: o.Run, Limit: 1})
	if err != nil || len(before) > 0 {
		return err
	}
	streams, err := h.open.Choose(c, p, o.Streams)
	if err != nil {
		return err
	}
	var units []state.Unit
	if !p.MultiSource {
		units = fleet.Plan(o.Run, p.Name, "", open.Plain(streams))
	} else {
		turns, _, err := (&multiSource{app: h.app, conf: c, pipeline: p}).startOrder(ctx, p.From)
		if err != nil {
			return err
		}
		for _, s := range turns {
			units = append(units, fleet.Plan(o.Run, p.Name, s.name, open.Plain(streams))...)
		}
	}
	added, err := h.claimer.Units.AddUnits(ctx, units)
	if err == nil && len(added) == 0 && len(units) > 0 {
		err = errUnderWay
	}
	return err
}

// await waits until every unit of a run has ended. It returns an error only if ctx ends first.
func (h *unitWorker) await(ctx context.Context, run string) error {
	tick := time.NewTicker(endLook)
	defer tick.Stop()
	for {
		left, err := h.claimer.Units.Units(ctx, state.UnitFilter{Run: run, Active: true, Limit: 1})
		if err == nil && len(left) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// abandon ends the wait for a run. It cancels the run if its deadline has passed. Otherwise the daemon
// is stopping, and workers continue the run.
func (h *unitWorker) abandon(ctx context.Context, run string) error {
	if !serve.Overdue(ctx) {
		return nil
	}
	late, cancel := pipeline.WithGrace(ctx, time.Second)
	defer cancel()
	_, err := h.claimer.Units.CancelUnits(late, state.UnitFilter{Run: run})
	return err
}

// unitsOf returns all units of a run.
func (h *unitWorker) unitsOf(ctx context.Context, run string) ([]state.Unit, error) {
	return allUnits(ctx, h.claimer.Units, run)
}

// allUnits returns all units of a run, page by page.
func allUnits(ctx context.Context, from state.Units, run string) (all []state.Unit, err error) {
	f := state.UnitFilter{Run: run}
	for {
		some, err := from.Units(ctx, f)
		if err != nil || len(some) == 0 {
			return all, err
		}
		all = append(all, some...)
		f.After = some[len(some)-1].ID
	}
}

// planned changes sp.Run so that it plans runs for workers instead of executing them in this process.
func (h *unitWorker) planned(c *config.Config, p config.Pipeline, sp *serve.Pipeline) {
	here := sp.Run
	sp.Planned = true
	sp.Run = func(ctx context.Context, o serve.RunRequest) (pipeline.Report, error) {
		if o.Options != (pipeline.Options{}) {
			return here(ctx, o) // units cannot carry options, so this process executes the run
		}
		r, err := h.dispatch(ctx, c, p, o)
		if errors.Is(err, state.ErrTaken) {
			err = nil
		}
		return r, err
	}
}
