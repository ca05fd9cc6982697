package fleet

import (
	"context"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// AddSourceUnits adds the units of one source in a run to the store l, unless the worker already has units of that
// source in the run. Only one process can work on a source at a time. So if other processes have left unfinished units,
// those processes are gone, and their units are cancelled first.
func AddSourceUnits(ctx context.Context, l state.Units, worker string, units []state.Unit) error {
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

// EndLastAttempt ends units after the last attempt of their run. Units that would be retried end as failed, and stopped
// units as cancelled. Parked units, which wait for a time or a lock, end as done. The next run continues from the last
// commit. If putOff is true, stopped units do not end, but keep waiting.
func EndLastAttempt(units []state.Unit, putOff bool) []state.Unit {
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

// WithEarlierAttempts adds the worker's earlier attempts to r, the report of a run's last attempt at a source. It
// takes them from the worker's ended units, except the units of the last attempt. // Invariant 14
func WithEarlierAttempts(r pipeline.Report, worker string, units, last []state.Unit) pipeline.Report {
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
