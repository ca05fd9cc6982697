package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state"
)

// recorded makes a run, and stores its units in the state. Other processes use the units to show the run's
// progress and to cancel it. A run that was put off continues with the units that are left. Rows do not depend on
// units: if the units cannot be stored, the run is made without them. This process must hold the lease of the
// source.
func (a *app) recorded(ctx context.Context, r *open.Run, f syncFlags) (report pipeline.Report, err error) {
	if f.run == "" {
		f.run = runid.New(r.Now())
	}
	if f.worker == "" {
		f.worker = a.workerName()
	}
	ledger := f.ledger
	if ledger == nil {
		if ledger, err = a.open.State(r.Conf).OpenUnits(ctx); err != nil {
			a.unrecorded(ctx, r, err)
			return a.runPipeline(ctx, r, f)
		}
		defer ledger.Close() // its error loses nothing: every write was durable
	}
	units := fleet.Plan(f.run, r.Pipeline.Name, r.UnitSource(), open.Plain(r.Streams))
	if err := fleet.AddSourceUnits(ctx, ledger, f.worker, units); err != nil {
		a.unrecorded(ctx, r, err)
		return a.runPipeline(ctx, r, f)
	}
	source := r.UnitSource()
	var last []state.Unit
	hand := fleet.Claimer{Units: ledger, Name: f.worker, Life: a.open.Life, Alone: true}
	_, lerr := hand.Work(ctx, state.Claim{Run: f.run, Pipeline: r.Pipeline.Name, Source: &source},
		func(ctx context.Context, units []state.Unit, settle func(...state.Unit)) []state.Unit {
			last = units
			report, units, err = a.attempt(ctx, r, f, units, settle)
			return units
		})
	if lerr != nil {
		a.unrecorded(ctx, r, lerr)
	}
	if last == nil {
		return a.runPipeline(ctx, r, f)
	}
	if all, lerr := ledger.Units(ctx, state.UnitFilter{Run: f.run, Source: &source}); lerr == nil {
		report = fleet.WithEarlierAttempts(report, f.worker, all, last)
	}
	return report, err
}

// errCancelled is the cause that ends a run whose units were cancelled.
var errCancelled = &failure.Error{Err: errors.New("cancelled by `penstock runs cancel`"), Hint: "committed data is safe; the next run continues from there", Code: failure.ExitPartial}

// attempt makes one attempt at the units, and returns them with their outcome. If the source was put off, another
// attempt follows.
func (a *app) attempt(ctx context.Context, r *open.Run, f syncFlags, units []state.Unit, settle func(...state.Unit)) (pipeline.Report, []state.Unit, error) {
	f.try = fleet.NewAttempt(units, len(r.Pipeline.To), r.Now, wire.NewRedactor(r.Conf.Secrets...).Redact, settle)
	names := fleet.StreamsOf(units)
	left := *r
	left.Streams = slices.DeleteFunc(slices.Clone(r.Streams), func(s config.Stream) bool { return !slices.Contains(names, s.Name) })
	report, err := a.runPipeline(ctx, &left, f)
	cause := context.Cause(ctx)
	if ctx.Err() != nil && len(report.Streams) == 0 {
		report.Status = pipeline.StatusStopped
	}
	units = fleet.EndLastAttempt(f.try.Settle(report, err, false), errors.Is(cause, fleet.ErrPutOff))
	switch {
	case !errors.Is(cause, fleet.ErrUnitsLost) || report.Status == pipeline.StatusComplete:
	case len(report.Streams) == 0:
		err = errCancelled
	default:
		report.Status, report.Err, err = pipeline.StatusPartial, errCancelled, nil
	}
	return report, units, err
}

// unrecorded warns that other processes cannot see the progress of a run.
func (a *app) unrecorded(ctx context.Context, r *open.Run, err error) {
	if ctx.Err() != nil {
		return // the run ends anyway
	}
	a.log.Warn("units of the run are not recorded", "pipeline", r.Pipeline.Name, "source", r.UnitSource(), "error", err)
}

// workerName returns a name that no other worker has.
func (a *app) workerName() string {
	return fmt.Sprintf("%s/%d/%s", a.open.Host().Name, os.Getpid(), rand.Text()[:8])
}
