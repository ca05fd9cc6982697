package fleet

import (
	"context"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// Begin plans the units of one source in a run into a ledger, for the one process
// that can work on the source, unless worker has begun with them before. What other
// processes have left of it is cancelled: they are gone, in the middle of this run or
// of others.
func Begin(ctx context.Context, l state.Units, worker string, units []state.Unit) error {
	if len(units) == 0 {
		return nil
	}
	u := units[0]
	begun, err := l.Units(ctx, state.UnitFilter{Run: u.Run, Source: &u.Source})
	if err != nil || slices.ContainsFunc(begun, func(b state.Unit) bool { return b.Worker == worker }) {
		return err
	}
	if _, err := l.CancelUnits(ctx, state.UnitFilter{Pipeline: u.Pipeline, Source: &u.Source}); err != nil {
		return err
	}
	_, err = l.AddUnits(ctx, units)
	return err
}

// Last are units after an attempt that is the last which their run makes at them:
// what would be tried again has ended, and the next run goes on from what was
// committed. Where the source was put off, what was not read to its end still waits.
func Last(units []state.Unit, putOff bool) []state.Unit {
	last := make([]state.Unit, len(units))
	for i, u := range units {
		stopped := ReportOf(u).Status == pipeline.StatusStopped
		switch {
		case u.State.Ended(), stopped && putOff:
		case stopped:
			u.State = state.UnitCancelled
		case u.State == state.UnitParked:
			u.State = state.UnitDone
		default:
			u.State = state.UnitFailed
		}
		last[i] = u
	}
	return last
}

// WithBefore is the report of a run's last attempt at a source, together with what
// the worker's attempts before it have brought to an end: of units, its own that are
// not among the last. // Invariant 14
func WithBefore(r pipeline.Report, worker string, units, last []state.Unit) pipeline.Report {
	for _, u := range units {
		if !u.State.Ended() || u.Worker != worker || slices.ContainsFunc(last, func(l state.Unit) bool { return l.ID == u.ID }) {
			continue
		}
		rep := ReportOf(u)
		r.Streams, r.Requests = append(r.Streams, rep.streams()...), r.Requests+rep.Requests
		if r.Status == pipeline.StatusComplete && rep.Status != pipeline.StatusComplete {
			r.Status = pipeline.StatusPartial
		}
		r.Started = earlier(r.Started, rep.Started)
	}
	return r
}
