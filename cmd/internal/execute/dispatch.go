package execute

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// endLook is how often Dispatch checks whether units have ended.
const endLook = time.Second

// Dispatch divides a run into units, which workers claim, and waits until the units have ended. If another process has
// already planned the run, Dispatch only waits. If ctx ends first, workers continue the run, and the report has the
// status `stopped`. After a complete run, the commands of the pipeline run in this process. // Invariant 18
func (w *Worker) Dispatch(ctx context.Context, r Run) (report pipeline.Report, err error) {
	began := w.db.Now()
	if err = w.plan(ctx, r); err == nil {
		err = w.await(ctx, r.ID)
	}
	switch {
	case ctx.Err() != nil: // if ctx ended before the units were stored, no worker reads anything in this run
		return pipeline.Report{Run: r.ID, Pipeline: r.Pipeline.Name, Status: pipeline.StatusStopped, Started: began, Ended: w.db.Now()}, nil
	case err != nil:
		return report, err
	}
	units, err := fleet.UnitsOf(ctx, w.claimer.Units, state.UnitFilter{Run: r.ID})
	if err != nil {
		return report, err
	}
	report = fleet.Joined(r.ID, r.Pipeline.Name, units)
	report.Err = errors.Join(report.Err, removedError(units))
	w.executor.keepHistory(ctx, r.Conf, unitsWork(w.db.Now(), r, report, units)...)
	w.executor.after(ctx, r, !allPlanned(r.Pipeline, units), &report) // workers run no commands, because a run has only one process that dispatches it
	return report, nil
}

// allPlanned reports whether the units of a run read all sources of the pipeline. A paused source has no units.
func allPlanned(p config.Pipeline, units []state.Unit) bool {
	planned := map[string]bool{}
	for _, u := range units {
		planned[u.Source] = true
	}
	if !p.MultiSource {
		return len(units) > 0
	}
	return !slices.ContainsFunc(p.From, func(s config.Ref) bool { return !planned[s.Text] })
}

// unitsWork returns what a run did that was divided into units: in total, for each stream, and for each source. The
// argument `report` is the report of the whole run.
func unitsWork(at time.Time, r Run, report pipeline.Report, units []state.Unit) []state.Work {
	has := reach{streams: r.Streams == nil, unread: map[string]bool{}}
	all := len(units) > 0 && len(units) >= units[0].Planned // false: units were removed, so nothing is known to be complete
	var work []state.Work
	for s := range fleet.BySource(report.Run, r.Pipeline.Name, units) {
		for _, name := range s.Unread {
			has.unread[name] = true
		}
		source := s.Report.Source
		if !r.Pipeline.MultiSource {
			source = r.Pipeline.From[0].Text
		}
		work = append(work, sourceWork(at, r.Pipeline.Name, source, s.Report, all && has.streams))
	}
	has.sources = all && len(work) == len(r.Pipeline.From)
	return append(runWork(at, report, has), work...)
}

// plan stores the units of a run and wakes the workers, in one transaction. It does nothing if the run
// already has units.
func (w *Worker) plan(ctx context.Context, r Run) error {
	before, err := w.claimer.Units.Units(ctx, state.UnitFilter{Run: r.ID, Limit: 1})
	if err != nil || len(before) > 0 {
		return err
	}
	streams, err := w.executor.Open.Choose(r.Conf, r.Pipeline, r.Streams)
	if err != nil {
		return err
	}
	sources, _, err := w.executor.startOrder(ctx, r.Conf, r.Pipeline, r.Sources)
	if err != nil {
		return err
	}
	var units []state.Unit
	for _, s := range sources {
		if !r.Pipeline.MultiSource {
			s.name = "" // the units of a pipeline with one source do not name the source
		}
		units = append(units, fleet.Plan(r.ID, r.Pipeline.Name, s.name, open.Plain(streams))...)
	}
	for i := range units {
		units[i].Planned = len(units)
	}
	_, err = w.claimer.Units.AddUnits(ctx, units)
	return err
}

// await waits until every unit of a run has ended. It returns an error only if ctx ends first.
func (w *Worker) await(ctx context.Context, run string) error {
	tick := time.NewTicker(endLook)
	defer tick.Stop()
	up := upkeep{Worker: w, run: run, last: time.Now()}
	for {
		left, err := w.claimer.Units.Units(ctx, state.UnitFilter{Run: run, Active: true, Limit: 1})
		if err == nil && len(left) == 0 {
			return nil
		}
		up.keep(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Await waits until every unit of a run has ended, or ctx ends. It also ends units that no worker can execute any more.
// The process that began the run does this too, but may be gone. // Invariant 15
func (w *Worker) Await(ctx context.Context, run string) { _ = w.await(ctx, run) }

// Cancel cancels the units of a run that have not ended, even if ctx has ended.
func (w *Worker) Cancel(ctx context.Context, run string) error {
	late, cancel := pipeline.WithGrace(ctx, time.Second)
	defer cancel()
	_, err := w.claimer.Units.CancelUnits(late, state.UnitFilter{Run: run})
	return err
}
