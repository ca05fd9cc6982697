package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// applier applies the webhook events of a source to one pipeline. It takes the
// pipeline's lock for each application, as a run does and together with one of
// the same process, so that a sync by hand gets its turn, and keeps what it has
// opened for the next. It belongs to one goroutine.
type applier struct {
	*app
	conf     *config.Config
	pipeline config.Pipeline
	inbox    state.Inbox
	trims    *inboxTrimmer

	open   *openedRun
	deltas *pipeline.Deltas
}

func (a *app) newApplier(c *config.Config, p config.Pipeline, inbox state.Inbox, t *inboxTrimmer) *applier {
	return &applier{app: a, conf: c, pipeline: p, inbox: inbox, trims: t}
}

// lockedAgain is when an application is tried again while another process has the
// pipeline.
const lockedAgain = 5 * time.Second

// apply applies what has come to rest. What cannot be applied for now is said in
// the log, and waits.
func (x *applier) apply(ctx context.Context) (serve.Deltas, error) {
	rep, err := x.once(ctx)
	if errors.Is(errors.Join(err, rep.Trouble), wire.ErrSignIn) {
		x.close() // whoever signs in meanwhile is found by a credential that is opened anew
	}
	switch {
	case errors.Is(err, state.ErrLocked), elsewhere(err):
		return serve.Deltas{Again: lockedAgain}, nil
	case err != nil:
		return serve.Deltas{}, err
	}
	if rep.Trouble != nil {
		x.log.Warn("some webhook events wait", "pipeline", x.pipeline.Name, "error", rep.Trouble)
	}
	return serve.Deltas{
		Applied: rep.Applied, Behind: rep.Behind, Oldest: rep.Oldest, Refresh: rep.Refresh,
		Again: rep.Again, Unmapped: rep.Unmapped, Dead: rep.Dead, Lags: rep.Lags,
	}, nil
}

// once is one application, with the pipeline's lock.
func (x *applier) once(ctx context.Context) (none pipeline.DeltaReport, err error) {
	ctx, unlock, err := x.holds.take(ctx, x.stateOf(x.conf), x.pipeline.Key())
	if err != nil {
		return none, err
	}
	defer unlock()
	if err := x.claim(ctx, x.conf, x.pipeline); err != nil {
		x.close() // what is open here is another's by now, or was never this host's
		return none, err
	}
	if err := x.ready(ctx); err != nil {
		return none, err
	}
	rep, err := x.deltas.Apply(ctx)
	if err != nil {
		return none, fmt.Errorf("apply events to %s: %w", x.pipeline.Name, err)
	}
	if err := x.trims.applied(ctx, x.inbox, x.source(), x.pipeline.Name, rep.Through); err != nil {
		rep.Trouble = errors.Join(rep.Trouble, err)
		rep.Again = min(cmp.Or(rep.Again, trimAgain), trimAgain) // though no event may come
	}
	return rep, nil
}

func (x *applier) source() string { return x.pipeline.From[0].Text }

// watch opens the pipeline, so that the passes of this process that begin from now on
// lend their streams to the events that come.
func (x *applier) watch(ctx context.Context) error {
	ctx, unlock, err := x.holds.take(ctx, x.stateOf(x.conf), x.pipeline.Key())
	if err != nil {
		return err
	}
	defer unlock()
	return x.ready(ctx)
}

// ready opens the pipeline.
func (x *applier) ready(ctx context.Context) error {
	if x.deltas != nil {
		return nil
	}
	known, err := schemas.LoadEvents()
	if err != nil {
		return err
	}
	r, err := x.openRun(ctx, x.conf, x.pipeline, nil, false)
	if err != nil {
		return err
	}
	cfg := r.config()
	cfg.Turns = x.holds.turnsOf(x.pipeline.Key())
	d, err := pipeline.NewDeltas(pipeline.DeltaConfig{
		Config:     cfg,
		Inbox:      extract.NewInbox(x.inbox, x.source(), known, plain(r.streams)),
		Quarantine: x.inbox.Quarantine,
	})
	if err != nil {
		r.close(x.app)
		return err
	}
	x.open, x.deltas = r, d
	return nil
}

// close gives up what is open; what was committed stays.
func (x *applier) close() {
	if x.open != nil {
		x.open.close(x.app)
	}
	x.open, x.deltas = nil, nil
}
