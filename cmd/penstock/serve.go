package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/daemon"
	"github.com/penstock-data/penstock/cmd/internal/execute"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/signal"
	"github.com/penstock-data/penstock/extract/wire"
)

// defaultSlots is how many sources a process reads at once by default.
const defaultSlots = 8

func serveCmd(a *app) *cobra.Command {
	slots := defaultSlots
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "run pipelines on schedule, receive webhooks, and serve the dashboard, metrics and health checks",
		Long: `Runs each pipeline on its schedule, receives webhooks, and serves the dashboard,
until it is stopped.

SIGHUP reads the configuration again. Runs under way finish with the old configuration.
But if a source was removed before a worker began to read it, it is not read. If the new
configuration has an error, the old one stays in use. Changes that need a restart (listen,
tls, otlp, openlineage, state) are logged. Changed certificate files are
read again automatically. SIGINT and SIGTERM stop serve within ten seconds; the next start
resumes interrupted runs.

With state: postgres://… any number of instances may run, on several hosts. Each due time
of a schedule is run once, and all instances and workers share the work of that run: see
penstock worker.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runServe(cmd.Context(), a, slots) },
	}
	cmd.Flags().IntVar(&slots, "slots", slots, "if the state is in a database: `number` of sources that this process reads at once; 0 leaves all sources to workers")
	return cmd
}

// runServe runs the daemon until it is stopped.
func runServe(ctx context.Context, a *app, slots int) error {
	if slots < 0 {
		return failure.Usage("", "--slots cannot be negative")
	}
	a.open.Connections = open.ConnectionsFor(slots)
	c, err := a.open.Load()
	if err != nil {
		return err
	}
	a.redactor = wire.NewRedactor(c.Secrets...)
	a.setLog(signal.Redacted(a.log.Handler(), a.redactor.Redact))
	a.open.Pool = open.NewDestinationPool()
	hangup, unhang := hangups()
	defer unhang()
	if err := open.AwaitState(ctx, a.open.State(c), a.open.Life); err != nil {
		return err
	}
	p, pipelines, err := a.openParts(ctx, c, slots)
	defer p.close()
	if err != nil {
		return err
	}
	l, err := daemon.Listen(c, "serve", c.Serve.Listen, a.log)
	if err != nil {
		return err
	}
	d := serve.New(serve.Config{
		Observers:  p.observers(),
		Listener:   l,
		Hosts:      c.Serve.Hosts,
		Pipelines:  pipelines,
		Journal:    p.journal,
		Encode:     func(r pipeline.Report) json.RawMessage { return encodeReport(r, a.open.File) },
		Problems:   func(r pipeline.Report) []serve.Problem { return problemsOf(r, a.open.File) },
		Log:        a.log,
		Now:        a.open.State(c).Now,
		Supervisor: supervisor(),
		Hangup:     hangup,
		Reload:     p.reload,
		Pending:    p.waiting,
		Redact:     a.redactor.Redact,
	})
	if err := p.mount(ctx, d, c); err != nil {
		return errors.Join(err, l.Close())
	}
	defer p.run(ctx)()
	if err := d.Run(ctx); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return stoppedBy(ctx)
}

// stoppedBy returns the outcome of a command that runs until it is stopped: an error with the exit code of the signal,
// or nil.
func stoppedBy(ctx context.Context) error {
	if s, ok := errors.AsType[*failure.Stopped](context.Cause(ctx)); ok {
		return failure.Exit(failure.SignalCode(s.Signal))
	}
	return nil
}

// encodeReport encodes a report as `sync --json` prints it.
func encodeReport(r pipeline.Report, file string) json.RawMessage {
	text, err := json.Marshal(render.ReportJSON(r, file))
	if err != nil {
		return nil
	}
	return text
}

// problemsOf returns why the streams of a run are not complete, in words for the log.
func problemsOf(r pipeline.Report, file string) (all []serve.Problem) {
	for _, p := range render.Problems(r, file) {
		all = append(all, serve.Problem(p))
	}
	return all
}

// supervisor returns the supervisor of this process, such as systemd, as the environment variables describe it.
func supervisor() serve.Supervisor {
	s := serve.Supervisor{Socket: os.Getenv("NOTIFY_SOCKET")}
	if us, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64); err == nil {
		s.Watchdog = time.Duration(us) * time.Microsecond
	}
	return s
}

// served() returns the pipelines of a configuration in the form that package serve needs.
func (a *app) served(c *config.Config, w *execute.Worker) ([]serve.Pipeline, error) {
	var all []serve.Pipeline
	for _, p := range c.Pipelines {
		streams, err := c.Select(p, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, a.servedPipeline(c, p, streams, w))
	}
	return all, daemon.CheckHints(c)
}

func planOf(s *config.Schedule) serve.Plan {
	if s == nil {
		return serve.Plan{}
	}
	return serve.Plan{Schedule: s.Slots, CatchUp: serve.CatchUp(s.CatchUp), Jitter: s.Jitter, Deadline: s.Deadline}
}

func (a *app) servedPipeline(c *config.Config, p config.Pipeline, streams []config.Stream, w *execute.Worker) serve.Pipeline {
	sp := serve.Pipeline{Name: p.Name, Plan: planOf(p.Schedule), Planned: w != nil}
	for _, from := range p.From {
		sp.Sources = append(sp.Sources, from.Text)
	}
	for _, to := range p.To {
		sp.Destinations = append(sp.Destinations, to.Text)
	}
	for _, s := range streams {
		sp.Streams = append(sp.Streams, s.Name)
	}
	if w != nil {
		sp.Await = w.Await
	}
	x := a.executor(c)
	sp.Run = func(ctx context.Context, o serve.RunRequest) (pipeline.Report, error) {
		r := execute.Run{Conf: c, Pipeline: p, Sources: p.From, Streams: o.Streams, Options: o.Options, ID: o.Run}
		if w != nil && o.Options == (pipeline.Options{}) { // workers execute units, and a unit cannot have options
			return dispatch(ctx, w, r)
		}
		r.Show = func(opened *open.Run) (func(pipeline.Event), func()) {
			if !p.MultiSource {
				o.Rates(func() []serve.Rate { return ratesOf(opened.Source) })
			}
			return o.Progress, func() {}
		}
		if p.MultiSource {
			a.listAgain(&r)
		}
		result, err := x.Run(ctx, r)
		return result.Report, err
	}
	return sp
}

// dispatch lets workers make a run. It cancels the run if the run's deadline passes.
func dispatch(ctx context.Context, w *execute.Worker, r execute.Run) (pipeline.Report, error) {
	report, err := w.Dispatch(ctx, r)
	if err == nil && serve.Overdue(ctx) {
		err = w.Cancel(ctx, r.ID)
	}
	return report, err
}

// listAgain reads the list of a run's sources again if the list is outside the configuration file. If the list cannot
// be read, the run uses the previous list.
func (a *app) listAgain(r *execute.Run) {
	if r.Conf.Listing == nil {
		return
	}
	c, err := a.open.Load()
	if err != nil {
		a.log.Warn("cannot read the list of sources; using the previous list", "pipeline", r.Pipeline.Name, "error", err)
		return
	}
	if p, ok := c.Pipeline(r.Pipeline.Name); ok && p.MultiSource {
		r.Conf, r.Pipeline, r.Sources = c, p, p.From
		a.redactor.Add(c.Secrets...) // Invariant 5
	}
}

// ratesOf returns the current rate limits and usage.
func ratesOf(s *open.Source) []serve.Rate {
	all := make([]serve.Rate, 0, len(s.Names))
	for _, name := range s.Names {
		g := s.Wires[name].Governor().Stats()
		all = append(all, serve.Rate{
			Surface: name, Limit: g.Limit.String(), Allowed: g.Allowed, Used: g.Used, Sent: g.Sent, Refused: g.Refused,
			InFlight: g.InFlight, WaitsFor: g.WaitsFor, Until: g.GateUntil,
		})
	}
	return all
}
