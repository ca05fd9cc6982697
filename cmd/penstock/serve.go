package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/receive"
	"github.com/penstock-data/penstock/cmd/internal/serve/signal"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state"
)

func (a *app) serveCmd() *cobra.Command {
	slots := defaultSlots
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "the schedules, the webhook receiver, the dashboard, metrics, health",
		Long: `Runs each pipeline at its schedule, receives webhooks, and serves the dashboard,
until it is stopped.

SIGHUP reads the configuration again: runs under way end as they began, and with
an error the configuration before is still used; what takes a restart (listen, tls,
otlp, openlineage, state) it says. Files of certificates are read again when they change. SIGINT and SIGTERM end it within
ten seconds; a run that was under way is resumed at the next start.

With state: postgres://… any number of them may run, on several hosts. Each slot is
run once, and its work is shared out among all of them and the workers: see
penstock worker.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), slots) },
	}
	cmd.Flags().IntVar(&slots, "slots", slots, "with state in a database, sources that this process itself works on at once; 0 leaves all to workers")
	return cmd
}

// serve is the daemon, from its configuration to its end.
func (a *app) serve(ctx context.Context, slots int) error {
	c, err := a.load()
	if err != nil {
		return err
	}
	a.redactor = wire.NewRedactor(c.Secrets...)
	a.log = slog.New(signal.Redacted(a.log.Handler(), a.redactor.Redact))
	a.holds, a.lends = newHolds(), newLends()
	p, pipelines, err := a.openParts(ctx, c, slots)
	defer p.close()
	if err != nil {
		return err
	}
	l, err := a.listen(c)
	if err != nil {
		return err
	}
	hangup, unhang := hangups()
	defer unhang()
	d := serve.New(serve.Config{
		Observers:  p.observers(),
		Listener:   l,
		Hosts:      c.Serve.Hosts,
		Pipelines:  pipelines,
		Journal:    p.journal,
		Encode:     encodeReport,
		Log:        a.log,
		Now:        a.stateOf(c).Now,
		Supervisor: supervisor(),
		Hangup:     hangup,
		Reload:     p.reload,
		Pending:    p.waiting,
		Redact:     a.redactor.Redact,
	})
	if err := p.mount(ctx, d, c); err != nil {
		return errors.Join(err, l.Close())
	}
	defer p.run(ctx, d)()
	if err := d.Run(ctx); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return stoppedBy(ctx)
}

// Connections that the daemon has at most: of one address, which may be a proxy in
// front of many senders and of readers of the dashboard, and of all.
const (
	connectionsEach = 1024
	connectionsAll  = 4096
)

// ownDescriptors is how many descriptors connections leave to the daemon at least, for its state, its log, an
// engine and what runs write.
const ownDescriptors = 48

// connections returns the bounds for a process with this limit of descriptors; 0 means no limit. A quarter of
// them, and at least ownDescriptors, stay free for runs and files. One address gets two thirds of the rest, so
// that the daemon still hears other senders of webhooks.
func connections(descriptors int) receive.Connections {
	c := receive.Connections{PerAddress: connectionsEach, Total: connectionsAll}
	if descriptors > 0 {
		c.Total = max(1, min(c.Total, descriptors-max(ownDescriptors, descriptors/4)))
		c.PerAddress = max(1, min(c.PerAddress, c.Total*2/3))
	}
	return c
}

// stoppedBy is the outcome of a verb that goes on until it is stopped.
func stoppedBy(ctx context.Context) error {
	if s, ok := errors.AsType[*stopped](context.Cause(ctx)); ok {
		return exit(signalCode(s.signal))
	}
	return nil
}

// openJournal opens the journal of the state folder, which one daemon has at a
// time.
func (a *app) openJournal(ctx context.Context, c *config.Config) (state.Journal, error) {
	j, err := a.stateOf(c).OpenJournal(ctx)
	switch {
	case err == nil, errors.Is(err, state.ErrLocked), errors.Is(err, syscall.ENOSPC):
		return j, err
	}
	return nil, stateTrouble(err)
}

// encodeReport is a report as `sync --json` prints it.
func encodeReport(r pipeline.Report) json.RawMessage {
	text, err := json.Marshal(jsonOf(r))
	if err != nil {
		return nil
	}
	return text
}

// supervisor is who has started this process, as the environment tells.
func supervisor() serve.Supervisor {
	s := serve.Supervisor{Socket: os.Getenv("NOTIFY_SOCKET")}
	if us, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64); err == nil {
		s.Watchdog = time.Duration(us) * time.Microsecond
	}
	return s
}

// served are the pipelines of a configuration as the daemon takes them.
func (a *app) served(c *config.Config, h *unitWorker) ([]serve.Pipeline, error) {
	var all []serve.Pipeline
	for _, p := range c.Pipelines {
		streams, err := c.Select(p, nil)
		if err != nil {
			return nil, err
		}
		sp := a.servedPipeline(c, p, streams)
		if h != nil {
			h.planned(c, p, &sp)
		}
		all = append(all, sp)
	}
	return all, checkHints(c)
}

func planOf(s *config.Schedule) serve.Plan {
	if s == nil {
		return serve.Plan{}
	}
	return serve.Plan{Schedule: s.Slots, CatchUp: serve.CatchUp(s.CatchUp), Jitter: s.Jitter, Deadline: s.Deadline}
}

func (a *app) servedPipeline(c *config.Config, p config.Pipeline, streams []config.Stream) serve.Pipeline {
	sp := serve.Pipeline{Name: p.Name, Plan: planOf(p.Schedule)}
	for _, from := range p.From {
		sp.Sources = append(sp.Sources, from.Text)
	}
	for _, to := range p.To {
		sp.Destinations = append(sp.Destinations, to.Text)
	}
	for _, s := range streams {
		sp.Streams = append(sp.Streams, s.Name)
	}
	if p.Many {
		sp.Run = func(ctx context.Context, o serve.Order) (pipeline.Report, error) { return a.serveMany(ctx, c, p, o) }
		return sp
	}
	sp.Run = func(ctx context.Context, o serve.Order) (pipeline.Report, error) {
		return a.sync(ctx, c, p, syncFlags{
			streams: o.Streams, options: o.Options, run: o.Run, follow: o.Progress,
			opened: func(s *sourceClient) { o.Rates(s.rates) },
		})
	}
	return sp
}

// rates are the budgets of requests as they are now.
func (s *sourceClient) rates() []serve.Rate {
	all := make([]serve.Rate, 0, len(s.names))
	for _, name := range s.names {
		g := s.wires[name].Governor().Stats()
		all = append(all, serve.Rate{
			Surface: name, Limit: g.Limit.String(), Allowed: g.Allowed, Used: g.Used, Sent: g.Sent, Refused: g.Refused,
			InFlight: g.InFlight, Waiting: g.Waiting, Until: g.GateUntil,
		})
	}
	return all
}
