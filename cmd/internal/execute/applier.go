package execute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/deltas"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Applier applies the webhook events of a source to one pipeline. Each call of Apply takes the pipeline's lock and
// releases it at the end, so that a manual sync can take the lock between two calls. An applier and a run of the same
// process share the lock. The source and destinations stay open until Close. An Applier is not safe for concurrent use.
type Applier struct {
	executor *Executor
	conf     *config.Config
	pipeline config.Pipeline
	inbox    state.Inbox
	applied  func(ctx context.Context, through int64) error

	run    *open.Run
	deltas *deltas.Deltas
}

// NewApplier returns an applier for the events of a pipeline's source. When all events up to a number are in every
// destination, the applier calls applied() with this number. The function applied may be nil.
func (x *Executor) NewApplier(c *config.Config, p config.Pipeline, inbox state.Inbox, applied func(ctx context.Context, through int64) error) *Applier {
	return &Applier{executor: x, conf: c, pipeline: p, inbox: inbox, applied: applied}
}

const (
	// lockedAgain is the delay before the next try while another process has the pipeline's lock.
	lockedAgain = 5 * time.Second
	// appliedAgain is the delay before the next try after applied() has returned an error.
	appliedAgain = 30 * time.Second
)

// Apply does what [Applier.ApplyOnce] does. If another process has the pipeline's lock, or another host owns a
// destination, the report says when to try again. If events cannot be applied now, the log says why.
func (a *Applier) Apply(ctx context.Context) (none deltas.Report, err error) {
	rep, err := a.ApplyOnce(ctx)
	if errors.Is(errors.Join(err, rep.Trouble), wire.ErrSignIn) {
		a.Close() // the next call opens the credential again, and so finds a later sign-in
	}
	switch {
	case errors.Is(err, state.ErrLocked), open.IsElsewhere(err):
		return deltas.Report{ApplyAfter: lockedAgain}, nil
	case err != nil:
		return none, err
	}
	if rep.Trouble != nil {
		a.executor.Open.Log.Warn("some webhook events cannot be applied yet", "pipeline", a.pipeline.Name, "error", rep.Trouble)
	}
	return rep, nil
}

// ApplyOnce takes the pipeline's lock and applies the events that are ready. Events that cannot be applied now stay in
// the inbox.
func (a *Applier) ApplyOnce(ctx context.Context) (none deltas.Report, err error) {
	o := a.executor.Open
	ctx, unlock, err := o.Locks.Take(load.ForRun(ctx), o.State(a.conf), a.pipeline.Key())
	if err != nil {
		return none, err
	}
	defer unlock()
	if err := (open.Owners{Opener: o, Conf: a.conf}).Claim(ctx, a.pipeline); err != nil {
		a.Close() // the open destinations may now belong to another host
		return none, err
	}
	if err := a.ready(ctx); err != nil {
		return none, err
	}
	rep, err := a.deltas.Apply(ctx)
	if err != nil {
		return none, fmt.Errorf("apply events to %s: %w", a.pipeline.Name, err)
	}
	if a.applied == nil {
		return rep, nil
	}
	if err := a.applied(ctx, rep.Through); err != nil {
		rep.Trouble = errors.Join(rep.Trouble, err)
		rep.ApplyAfter = min(cmp.Or(rep.ApplyAfter, appliedAgain), appliedAgain) // try again even if no event arrives
	}
	return rep, nil
}

// Refused reports that the given streams could not be read now. The streams come from [deltas.Report].Refresh.
func (a *Applier) Refused(streams []string) {
	if a.deltas != nil {
		a.deltas.Refused(streams)
	}
}

// watch opens the pipeline. From then on, each new pass of this process lets webhook deltas commit between its
// own commits.
func (a *Applier) watch(ctx context.Context) error {
	ctx, unlock, err := a.executor.Open.Locks.Take(load.ForRun(ctx), a.executor.Open.State(a.conf), a.pipeline.Key())
	if err != nil {
		return err
	}
	defer unlock()
	return a.ready(ctx)
}

// ready opens the pipeline unless it is already open.
func (a *Applier) ready(ctx context.Context) error {
	if a.deltas != nil {
		return nil
	}
	known, err := schemas.LoadEvents()
	if err != nil {
		return err
	}
	r, err := a.executor.Open.Pipeline(ctx, a.conf, a.pipeline, nil, false)
	if err != nil {
		return err
	}
	cfg := r.Config()
	cfg.Locks = a.executor.Open.Locks.StreamLocks(a.pipeline.Key())
	d, err := deltas.New(deltas.Config{
		Config:     cfg,
		Inbox:      extract.NewInbox(a.inbox, a.pipeline.From[0].Text, known, open.Plain(r.Streams)),
		Quarantine: a.inbox.Quarantine,
	})
	if err != nil {
		r.Close()
		return err
	}
	a.run, a.deltas = r, d
	return nil
}

// Close closes what the applier has opened. Committed data stays.
func (a *Applier) Close() {
	if a.run != nil {
		a.run.Close()
	}
	a.run, a.deltas = nil, nil
}
