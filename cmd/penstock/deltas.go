package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/daemon"
	"github.com/penstock-data/penstock/cmd/internal/deltas"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// applier applies the webhook events of a source to one pipeline. Each time, it takes the pipeline's lock and
// releases it afterwards, so that a manual sync can take the lock in between. An applier and a run of the same
// process share the lock. The source and destinations stay open until close. An applier is not safe for
// concurrent use.
type applier struct {
	*app
	conf     *config.Config
	pipeline config.Pipeline
	inbox    state.Inbox
	trimmer  *daemon.InboxTrimmer

	run    *open.Run
	deltas *deltas.Deltas
}

func (a *app) newApplier(c *config.Config, p config.Pipeline, inbox state.Inbox, t *daemon.InboxTrimmer) *applier {
	return &applier{app: a, conf: c, pipeline: p, inbox: inbox, trimmer: t}
}

// lockedAgain is the delay before the next try while another process has the pipeline's lock.
const lockedAgain = 5 * time.Second

// apply applies the events that are ready. Events that cannot be applied now stay in the inbox, and the log
// says why.
func (x *applier) apply(ctx context.Context) (serve.Deltas, error) {
	rep, err := x.once(ctx)
	if errors.Is(errors.Join(err, rep.Trouble), wire.ErrSignIn) {
		x.close() // the next call opens the credential again, and so finds a later sign-in
	}
	switch {
	case errors.Is(err, state.ErrLocked), open.IsElsewhere(err):
		return serve.Deltas{ApplyAfter: lockedAgain}, nil
	case err != nil:
		return serve.Deltas{}, err
	}
	if rep.Trouble != nil {
		x.log.Warn("some webhook events cannot be applied yet", "pipeline", x.pipeline.Name, "error", rep.Trouble)
	}
	return serve.Deltas{
		Applied: rep.Applied, Waiting: rep.Waiting, Oldest: rep.Oldest, Refresh: rep.Refresh,
		ApplyAfter: rep.ApplyAfter, Unmapped: rep.Unmapped, Dead: rep.Dead, Lags: rep.Lags,
	}, nil
}

// once takes the pipeline's lock and applies the events that are ready.
func (x *applier) once(ctx context.Context) (none deltas.Report, err error) {
	ctx, unlock, err := x.open.Locks.Take(ctx, x.open.State(x.conf), x.pipeline.Key())
	if err != nil {
		return none, err
	}
	defer unlock()
	if err := x.open.Claim(ctx, x.conf, x.pipeline); err != nil {
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
	if err := x.trimmer.Applied(ctx, x.inbox, x.source(), x.pipeline.Name, rep.Through); err != nil {
		rep.Trouble = errors.Join(rep.Trouble, err)
		rep.ApplyAfter = min(cmp.Or(rep.ApplyAfter, daemon.TrimAgain), daemon.TrimAgain) // try again even if no event arrives
	}
	return rep, nil
}

func (x *applier) source() string { return x.pipeline.From[0].Text }

// watch opens the pipeline. From then on, each new pass of this process lets webhook deltas commit between its
// own commits.
func (x *applier) watch(ctx context.Context) error {
	ctx, unlock, err := x.open.Locks.Take(ctx, x.open.State(x.conf), x.pipeline.Key())
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
	r, err := x.open.Pipeline(ctx, x.conf, x.pipeline, nil, false)
	if err != nil {
		return err
	}
	cfg := r.Config()
	cfg.Locks = x.open.Locks.StreamLocks(x.pipeline.Key())
	d, err := deltas.New(deltas.Config{
		Config:     cfg,
		Inbox:      extract.NewInbox(x.inbox, x.source(), known, open.Plain(r.Streams)),
		Quarantine: x.inbox.Quarantine,
	})
	if err != nil {
		r.Close()
		return err
	}
	x.run, x.deltas = r, d
	return nil
}

// close closes what ready has opened. Committed data stays.
func (x *applier) close() {
	if x.run != nil {
		x.run.Close()
	}
	x.run, x.deltas = nil, nil
}
