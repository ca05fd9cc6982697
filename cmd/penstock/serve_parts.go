package main

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/daemon"
	"github.com/penstock-data/penstock/cmd/internal/execute"
	"github.com/penstock-data/penstock/cmd/internal/fleet/queue"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/signal"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/postgres"
)

// parts has all parts of a daemon except its pipelines.
type parts struct {
	a         *app
	daemon    *serve.Daemon // set once the daemon exists
	begun     config.Config // the configuration with which the daemon started
	pending   atomic.Pointer[[]string]
	journal   state.Journal
	units     *execute.Worker // nil if the state is a folder
	webhooks  *daemon.Webhooks
	signals   *daemon.Signals
	dashboard *daemon.Dashboard
}

// openParts opens the parts of a daemon, and returns the parts and the pipelines. The caller must call p.close(), even
// after an error.
func (a *app) openParts(ctx context.Context, c *config.Config, slots int) (p *parts, all []serve.Pipeline, err error) {
	p = &parts{a: a, begun: *c}
	if p.journal, err = a.open.Journal(ctx, c); err != nil {
		return p, nil, err
	}
	if p.units, err = a.executor(c).OpenWorker(ctx, c, slots); err != nil {
		return p, nil, err
	}
	if p.webhooks, err = daemon.OpenWebhooks(ctx, a.executor(c), c); err != nil {
		return p, nil, err
	}
	if all, err = p.pipelines(c); err != nil {
		return p, nil, err
	}
	v := versionNow()
	if p.signals, err = daemon.OpenSignals(ctx, &a.open, c, all, signal.Build{Version: v.Version, Commit: v.Commit, Go: v.Go}, a.redactor); err != nil {
		return p, nil, err
	}
	jobs, err := queuePages(ctx, a, c)
	if err != nil {
		return p, nil, err
	}
	p.dashboard, err = daemon.OpenDashboard(c, daemon.DashboardConfig{
		Opener: &a.open, Journal: p.journal, Inbox: p.webhooks.Inbox, Queue: jobs, Version: v.Version,
		Scheme:  func(s config.Source) string { return p.webhooks.Receiver.Scheme(s) },
		Observe: func(n serve.AccessRefused) { p.daemon.Observe(n) },
	})
	return p, all, err
}

// queuePath is where the dashboard shows the pages of the queue.
const queuePath = "/queue"

// queuePages returns the dashboard's pages about the workers' queue. If the state is a folder, it returns nil.
func queuePages(ctx context.Context, a *app, c *config.Config) (http.Handler, error) {
	db, ok := a.open.State(c).(*postgres.Store)
	if !ok {
		return nil, nil
	}
	pool, schema, err := db.Queue(ctx)
	if err != nil {
		return nil, open.StateTrouble(err)
	}
	return queue.UI(ctx, pool, schema, queuePath)
}

// pipelines returns the pipelines of a configuration in the form that package serve needs.
func (p *parts) pipelines(c *config.Config) ([]serve.Pipeline, error) {
	all, err := p.a.served(c, p.units)
	if err == nil {
		p.webhooks.Applies(c, all)
	}
	return all, err
}

func (p *parts) observers() []serve.Observer { return append(p.signals.Observers(), p.dashboard.Facts) }

// mount adds the parts to the daemon.
func (p *parts) mount(ctx context.Context, d *serve.Daemon, c *config.Config) error {
	p.daemon = d
	p.signals.Mount(d, c, p.journal, p.webhooks.Inbox, p.units)
	p.dashboard.Mount(d)
	return p.webhooks.Mount(ctx, d, c)
}

// run starts the background work of the parts. This work ends when the context ends. The returned function waits until
// the work has ended.
func (p *parts) run(ctx context.Context) (wait func()) {
	waits := []func(){p.signals.Run(ctx), p.dashboard.Run(ctx), p.webhooks.Run(ctx), p.units.Start(ctx)}
	return func() {
		for _, wait := range waits {
			wait()
		}
	}
}

// reload reads the configuration again. If it returns an error, nothing has changed.
func (p *parts) reload(ctx context.Context) ([]serve.Pipeline, error) {
	c, err := p.a.open.Load()
	if err != nil {
		return nil, err
	}
	all, err := p.pipelines(c)
	if err == nil {
		err = p.webhooks.Receiver.Reconfigure(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	p.signals.Configure(c, all)
	p.dashboard.Configure(c)
	p.units.Configure(c)
	p.daemon.SetHosts(c.Serve.Hosts)
	pending := daemon.ChangedAtStart(p.begun, *c)
	p.pending.Store(&pending)
	return all, nil
}

// waiting() returns the keys of the configuration that have new values and need a restart.
func (p *parts) waiting() []string {
	if all := p.pending.Load(); all != nil {
		return *all
	}
	return nil
}

func (p *parts) close() error {
	var errs []error
	if p.webhooks != nil {
		errs = append(errs, p.webhooks.Close())
	}
	if p.journal != nil {
		errs = append(errs, p.journal.Close())
	}
	return errors.Join(errs...)
}
