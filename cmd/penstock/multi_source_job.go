package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// ending is what became of one source.
type ending struct {
	source string
	report pipeline.Report
	err    error
	silent bool // it gave no answer, or none for so long that others went before it
}

// job is the run of one source among others. One that was put off tells nothing:
// it begins again, and goes on from what it has committed.
func (m *multiSource) job(s orderedSource, f syncFlags, shown *sourcesShown, ended chan<- ending) fleet.Job {
	silent := false // whether it was put off; its attempts come one after the other
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
		r, err := m.one(ctx, m.pipeline.Of(s.name), f)
		if errors.Is(errors.Join(err, r.Err), errCancelled) {
			m.cancel(errCancelled) // it is the run that was
		}
		if errors.Is(context.Cause(ctx), fleet.ErrPutOff) && (err != nil || r.Status != pipeline.StatusComplete) {
			silent = true
			return true
		}
		ended <- ending{s.name, r, err, silent || !answered.Load()}
		return false
	}}
}

// one is the run of one source; a panic of it ends it alone.
func (m *multiSource) one(ctx context.Context, p config.Pipeline, f syncFlags) (r pipeline.Report, err error) {
	defer func() {
		if v := recover(); v != nil {
			m.log.Error("run panicked", "pipeline", p.Name, "source", p.From[0].Text, "stack", string(debug.Stack()))
			err = fmt.Errorf("source %s: panic: %v", p.From[0].Text, v)
		}
	}()
	return m.sync(ctx, m.conf, p, f)
}
