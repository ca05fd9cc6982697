package main

import (
	"context"
	"sync/atomic"

	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// errPaused is the outcome of units whose source was paused after they were planned.
const errPaused = "its source is paused; `penstock sources resume` includes it again"

// attempt makes one run over the streams of units, under the lease of the pipeline and source, as
// `sync` would. If the source is silent for too long, the attempt is put off, so that other
// sources are read. What it has committed stays. // Invariant 13
func (w *claimedWork) attempt(ctx context.Context, units []state.Unit, settle func(...state.Unit)) []state.Unit {
	h, c, p := w.unitWorker, w.conf, w.pipeline
	m := &multiSource{app: h.app, conf: c, pipeline: p}
	u := units[0]
	if m.paused(ctx, u.Source) {
		return fleet.EndUnread(units, errPaused)
	}
	h.log.Info("units begun", "run", u.Run, "pipeline", u.Pipeline, "source", u.Source, "units", len(units))
	var answered atomic.Bool
	round := fleet.Round(units)
	if u.Suspect() {
		round = fleet.LastRound
	}
	asking, end := w.slot.StartWait(ctx, round)
	stop := w.applyEvents(asking)
	try := fleet.NewAttempt(units, len(p.To), h.db.Now, h.redactor.Redact, settle)
	r, err := h.syncSource(asking, c, p, syncFlags{streams: fleet.StreamsOf(units), run: u.Run, budget: h.bytes, try: try, follow: func(e pipeline.Event) {
		if e.Kind != pipeline.EventStart {
			answered.Store(true)
			w.slot.RecordAnswer()
		}
	}})
	stop()
	late, off := end()
	if off = off && (err != nil || r.Status != pipeline.StatusComplete); off {
		r.Status, err = pipeline.StatusStopped, nil
	}
	if ctx.Err() != nil && len(r.Streams) == 0 {
		r.Status = pipeline.StatusStopped
	}
	h.log.Info("units ended", "run", u.Run, "pipeline", u.Pipeline, "source", u.Source, "status", r.Status, "requests", r.Requests, "written", r.Totals().Counts.Written)
	if o := fleet.NewOutcomes(u.Run, p.Name).Add(u.Source, r, err); u.Source != "" && o.Status != pipeline.StatusStopped {
		if err := h.keepSources(ctx, c, []state.SourceRecord{m.record(u.Run, o, round > 0 || !answered.Load())}); err != nil {
			h.log.Warn("outcome of a source is not recorded", "source", u.Source, "error", err)
		}
	}
	settled := try.Settle(r, err, h.final(ctx, err))
	if off {
		settled = fleet.PutOff(settled, late, h.db.Now())
	}
	return settled
}

// paused reports whether a source is paused. If that cannot be read, it returns false, because the
// planner of the run has checked it too.
func (m *multiSource) paused(ctx context.Context, source string) bool {
	if source == "" {
		return false
	}
	stored, err := m.readPauses(ctx, m.conf)
	if err != nil {
		m.log.Warn("cannot read which sources are paused", "error", err)
	}
	_, is := stored[source]
	return is
}
