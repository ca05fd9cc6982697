package main

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// ending is the outcome of one source.
type ending struct {
	source string
	report pipeline.Report
	err    error
	silent bool // the source did not answer, in this attempt or in one that was put off
}

// job returns the run of one source among others, as a job. If an attempt is put off because the source
// does not answer, it reports nothing, and another attempt continues later from the last commit.
func (m *multiSource) job(s orderedSource, f syncFlags, shown *sourcesShown, ended chan<- ending) fleet.Job {
	silent := false // an attempt was put off; attempts do not overlap, so this needs no lock
	return fleet.Job{Source: s.name, Silent: s.silent, Run: func(ctx context.Context, beat func()) bool {
		var answered atomic.Bool
		f.follow = func(e pipeline.Event) {
			e.Source = s.name
			if e.Kind != pipeline.EventStart {
				answered.Store(true)
				beat()
			}
			shown.event(e)
		}
		r, err := m.syncSource(ctx, m.conf, m.pipeline.ForSource(s.name), f)
		if errors.Is(errors.Join(err, r.Err), errCancelled) {
			m.cancel(errCancelled) // the whole run was cancelled
		}
		if errors.Is(context.Cause(ctx), fleet.ErrPutOff) && (err != nil || r.Status != pipeline.StatusComplete) {
			silent = true
			return true
		}
		ended <- ending{s.name, r, err, silent || !answered.Load()}
		return false
	}}
}
