package main

import (
	"context"
	"sync/atomic"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// errPaused is what becomes of units whose source was paused after they were planned.
const errPaused = "its source is paused; `penstock sources resume` takes it up again"

// attempt is one run over the streams of units, under the lease of the pipeline and
// source: what a `sync` of them does. // Invariant 13
func (h *hands) attempt(ctx context.Context, c *config.Config, p config.Pipeline, units []state.Unit, settle func(...state.Unit)) []state.Unit {
	m := &many{app: h.app, conf: c, pipeline: p}
	u := units[0]
	if m.paused(ctx, u.Source) {
		return fleet.Left(units, errPaused)
	}
	h.log.Info("units begun", "run", u.Run, "pipeline", u.Pipeline, "source", u.Source, "units", len(units))
	var answered atomic.Bool
	try := fleet.NewAttempt(units, len(p.To), h.redactor.Redact, settle)
	r, err := m.one(ctx, p, syncFlags{streams: fleet.StreamsOf(units), run: u.Run, budget: h.bytes, try: try, follow: func(e pipeline.Event) {
		if e.Kind != pipeline.EventStart {
			answered.Store(true)
		}
	}})
	if ctx.Err() != nil && len(r.Streams) == 0 {
		r.Status = pipeline.StatusStopped
	}
	h.log.Info("units ended", "run", u.Run, "pipeline", u.Pipeline, "source", u.Source, "status", r.Status, "requests", r.Requests, "written", r.Totals().Counts.Written)
	if o := fleet.NewTally(u.Run, p.Name).Add(u.Source, r, err); u.Source != "" && o.Status != pipeline.StatusStopped {
		if err := h.keepSources(ctx, c, []state.SourceRecord{m.record(u.Run, o, !answered.Load())}); err != nil {
			h.log.Warn("what became of a source is not recorded", "source", u.Source, "error", err)
		}
	}
	return try.Settle(r, err, h.final(ctx, err))
}

// paused reports whether a source is paused. Where that cannot be told it is read:
// whoever plans runs has asked, too.
func (m *many) paused(ctx context.Context, source string) bool {
	if source == "" {
		return false
	}
	book, err := m.readPauses(ctx, m.conf)
	if err != nil {
		m.log.Warn("which sources are paused cannot be told", "error", err)
	}
	_, is := book[source]
	return is
}
