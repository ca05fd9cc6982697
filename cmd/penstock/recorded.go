package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state"
)

// recorded makes a run as one attempt at its units, of the source whose lease this
// process has: others see how far it is and can cancel it, and what was put off goes
// on with what is left of it. The ledger is no authority on data: where it is not to
// be had the run is made without.
func (a *app) recorded(ctx context.Context, r *openedRun, f syncFlags) (report pipeline.Report, err error) {
	if f.run == "" {
		f.run = pipeline.NewRunID(r.now())
	}
	if f.worker == "" {
		f.worker = a.workerName()
	}
	ledger := f.ledger
	if ledger == nil {
		if ledger, err = a.stateOf(r.conf).OpenUnits(ctx); err != nil {
			a.unrecorded(ctx, r, err)
			return a.carryOut(ctx, r, f)
		}
		defer ledger.Close() // each write of it has been durable
	}
	units := fleet.Plan(f.run, r.pipeline.Name, r.unitSource(), plain(r.streams))
	if err := fleet.Begin(ctx, ledger, f.worker, units); err != nil {
		a.unrecorded(ctx, r, err)
		return a.carryOut(ctx, r, f)
	}
	source := r.unitSource()
	var last []state.Unit
	hand := fleet.Claimer{Units: ledger, Name: f.worker, Life: a.life, Alone: true}
	_, lerr := hand.Work(ctx, state.Claim{Run: f.run, Pipeline: r.pipeline.Name, Source: &source},
		func(ctx context.Context, units []state.Unit, settle func(...state.Unit)) []state.Unit {
			last = units
			report, units, err = a.attempt(ctx, r, f, units, settle)
			return units
		})
	if lerr != nil {
		a.unrecorded(ctx, r, lerr)
	}
	if last == nil {
		return a.carryOut(ctx, r, f)
	}
	if all, lerr := ledger.Units(ctx, state.UnitFilter{Run: f.run, Source: &source}); lerr == nil {
		report = fleet.WithBefore(report, f.worker, all, last)
	}
	return report, err
}

// errCancelled is why a run ended early whose units somebody has cancelled.
var errCancelled = &failure{err: errors.New("cancelled by `penstock runs cancel`"), hint: "what was committed stays; the next run goes on from there", code: exitPartial}

// attempt is the run's attempt at units, and what has become of them: nothing more
// becomes of any, unless the source was put off.
func (a *app) attempt(ctx context.Context, r *openedRun, f syncFlags, units []state.Unit, settle func(...state.Unit)) (pipeline.Report, []state.Unit, error) {
	f.try = fleet.NewAttempt(units, len(r.pipeline.To), r.now, wire.NewRedactor(r.conf.Secrets...).Redact, settle)
	names := fleet.StreamsOf(units)
	left := *r
	left.streams = slices.DeleteFunc(slices.Clone(r.streams), func(s config.Stream) bool { return !slices.Contains(names, s.Name) })
	report, err := a.carryOut(ctx, &left, f)
	cause := context.Cause(ctx)
	if ctx.Err() != nil && len(report.Streams) == 0 {
		report.Status = pipeline.StatusStopped
	}
	units = fleet.Last(f.try.Settle(report, err, false), errors.Is(cause, fleet.ErrPutOff))
	switch {
	case !errors.Is(cause, fleet.ErrUnitsLost) || report.Status == pipeline.StatusComplete:
	case len(report.Streams) == 0:
		err = errCancelled
	default:
		report.Status, report.Err, err = pipeline.StatusPartial, errCancelled, nil
	}
	return report, units, err
}

// unitSource is the source of the run's units.
func (r *openedRun) unitSource() string {
	if r.pipeline.Many {
		return r.pipeline.From[0].Text
	}
	return ""
}

// unrecorded says that others do not see how far a run is.
func (a *app) unrecorded(ctx context.Context, r *openedRun, err error) {
	if ctx.Err() != nil {
		return // neither will it go far
	}
	a.log.Warn("what becomes of a run's units is not recorded", "pipeline", r.pipeline.Name, "source", r.unitSource(), "error", err)
}

// workerName names what this process does, unlike anything else that works on units.
func (a *app) workerName() string {
	return fmt.Sprintf("%s/%d/%s", a.host().Name, os.Getpid(), rand.Text()[:8])
}
