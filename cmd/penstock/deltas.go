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

// applier applies the webhook events of a source to one pipeline. For each application it takes the
// pipeline's lock, as a run does, and releases it afterwards, so that a manual sync can take it. An
// applier and a run of the same process share the lock. The pipeline stays open for the next
// application. An applier is not safe for concurrent use.
type applier struct {
	*app
	conf     *config.Config
	pipeline config.Pipeline
	inbox    state.Inbox
	trimmer  *inboxTrimmer

	open   *openedRun
	deltas *pipeline.Deltas
}

func (a *app) newApplier(c *config.Config, p config.Pipeline, inbox state.Inbox, t *inboxTrimmer) *applier {
	return &applier{app: a, conf: c, pipeline: p, inbox: inbox, trimmer: t}
}

// lockedAgain is the delay before the next try while another process has the pipeline's lock.
const lockedAgain = 5 * time.Second

// apply applies the events that are ready. Events that cannot be applied now are logged and wait.
func (x *applier) apply(ctx context.Context) (serve.Deltas, error) {
	rep, err := x.once(ctx)
	if errors.Is(errors.Join(err, rep.Trouble), wire.ErrSignIn) {
		x.close() // if someone signs in later, the reopened credential finds it
	}
	switch {
	case errors.Is(err, state.ErrLocked), isElsewhere(err):
		return serve.Deltas{ApplyAfter: lockedAgain}, nil
	case err != nil:
		return serve.Deltas{}, err
	}
	if rep.Trouble != nil {
		x.log.Warn("some webhook events wait", "pipeline", x.pipeline.Name, "error", rep.Trouble)
	}
	return serve.Deltas{
		Applied: rep.Applied, Waiting: rep.Waiting, Oldest: rep.Oldest, Refresh: rep.Refresh,
		ApplyAfter: rep.ApplyAfter, Unmapped: rep.Unmapped, Dead: rep.Dead, Lags: rep.Lags,
	}, nil
}

// once makes one application, with the pipeline's lock.
func (x *applier) once(ctx context.Context) (none pipeline.DeltaReport, err error) {
	ctx, unlock, err := x.locks.take(ctx, x.stateOf(x.conf), x.pipeline.Key())
	if err != nil {
		return none, err
	}
	defer unlock()
	if err := x.claim(ctx, x.conf, x.pipeline); err != nil {
		x.close() // the open destinations may now belong to another host
		return none, err
	}
	if err := x.ready(ctx); err != nil {
		return none, err
	}
	rep, err := x.deltas.Apply(ctx)
	if err != nil {
		return none, fmt.Errorf("apply events to %s: %w", x.pipeline.Name, err)
	}
	if err := x.trimmer.applied(ctx, x.inbox, x.source(), x.pipeline.Name, rep.Through); err != nil {
		rep.Trouble = errors.Join(rep.Trouble, err)
		rep.ApplyAfter = min(cmp.Or(rep.ApplyAfter, trimAgain), trimAgain) // tries again even if no event arrives
	}
	return rep, nil
}

func (x *applier) source() string { return x.pipeline.From[0].Text }

// watch opens the pipeline. Passes of this process that begin afterwards let webhook deltas commit
// between the commits of the pass.
func (x *applier) watch(ctx context.Context) error {
	ctx, unlock, err := x.locks.take(ctx, x.stateOf(x.conf), x.pipeline.Key())
	if err != nil {
		return err
	}
	defer unlock()
	return x.ready(ctx)
}

// ready opens the pipeline unless it is open.
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
	cfg.Locks = x.locks.turnsOf(x.pipeline.Key())
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

// close closes what ready has opened. Committed data stays.
func (x *applier) close() {
	if x.open != nil {
		x.open.close(x.app)
	}
	x.open, x.deltas = nil, nil
}
