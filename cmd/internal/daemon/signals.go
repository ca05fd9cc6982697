package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/check"
	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/execute"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/signal"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state"
)

// Signals are metrics, alerts, lineage, traces and health. Operators use them in addition to the dashboard.
type Signals struct {
	redactor *wire.Redactor
	metrics  *signal.Metrics
	alerts   *signal.Alerts
	lineage  *signal.Lineage // nil if not configured
	traces   *signal.Traces  // nil if not configured

	statuses func() []serve.Status // statuses of the daemon's pipelines; empty before mount
	inbox    state.Inbox           // nil before mount
	units    *execute.Worker       // nil before mount, and if the state is a folder
	now      func() time.Time      // the clock of the inbox
	log      *slog.Logger

	conf     atomic.Pointer[config.Config]
	grantsOf func(context.Context, *config.Config) (serve.GrantsSeen, error)
}

// OpenSignals opens the signals of a configuration. The parameter `build` describes this program. The redactor also
// gets the secrets of each later configuration.
func OpenSignals(ctx context.Context, o *open.Opener, c *config.Config, pipelines []serve.Pipeline, build signal.Build, redactor *wire.Redactor) (*Signals, error) {
	s := &Signals{grantsOf: func(ctx context.Context, c *config.Config) (serve.GrantsSeen, error) { return grantsOf(ctx, o, c) }, log: o.Log, redactor: redactor, now: o.State(c).Now, statuses: func() []serve.Status { return nil }}
	s.metrics = signal.NewMetrics(build, s.read)
	var err error
	s.alerts, err = signal.OpenAlerts(ctx, signal.AlertOptions{
		Notes: o.State(c).Notes(), Log: o.Log, Redact: s.redactor.Redact, Count: s.metrics.Alert,
	})
	if err != nil {
		return nil, open.StateTrouble(fmt.Errorf("open alerts: %w", err))
	}
	if err := openCollectors(ctx, c, s, build.Version); err != nil {
		return nil, err
	}
	s.Configure(c, pipelines)
	o.Attempted = s.metrics.Request
	return s, nil
}

// openCollectors creates the sender of OpenLineage events and the sender of traces, if the configuration has a
// collector for them.
func openCollectors(ctx context.Context, c *config.Config, s *Signals, version string) (err error) {
	if to := c.Serve.OpenLineage; to != nil {
		s.lineage = signal.NewLineage(signal.LineageOptions{
			URL: to.URL, Token: to.Token, Producer: "https://github.com/penstock-data/penstock/tree/" + version, Log: s.log, Redact: s.redactor.Redact,
		})
	}
	to := c.Serve.OTLP
	if to == nil && (os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "") {
		to = &config.Collector{}
	}
	if to != nil {
		s.traces, err = signal.NewTraces(ctx, signal.TraceOptions{URL: to.URL, Token: to.Token, Version: version, Log: s.log, Redact: s.redactor.Redact})
	}
	return err
}

// Configure switches to another configuration. Secrets of earlier configurations stay redacted.
func (s *Signals) Configure(c *config.Config, pipelines []serve.Pipeline) {
	s.conf.Store(c)
	s.redactor.Add(c.Secrets...)
	r := signal.Routing{Route: routeOf(c.Alerts), Digest: c.Alerts.Digest, Pipelines: map[string]signal.PipelineRoute{}}
	for _, src := range c.Sources {
		r.Sources = append(r.Sources, src.Name)
	}
	streams := map[string][]string{}
	for _, p := range pipelines {
		streams[p.Name] = p.Streams
		carried := signal.PipelineRoute{Streams: p.Streams}
		if own, ok := c.Pipeline(p.Name); ok && own.Alerts != nil {
			route := routeOf(*own.Alerts)
			carried.Route = &route
		}
		r.Pipelines[p.Name] = carried
	}
	s.metrics.Configure(r.Sources, streams)
	s.alerts.Route(r)
	if s.lineage != nil {
		s.lineage.Configure(lineageOf(c))
	}
}

// lineageOf returns, for each pipeline, the OpenLineage names of its sources and destinations.
func lineageOf(c *config.Config) map[string]signal.LineagePipeline {
	all := map[string]signal.LineagePipeline{}
	for _, p := range c.Pipelines {
		l := signal.LineagePipeline{Destinations: map[string]signal.LineagePlace{}}
		if len(p.From) == 0 {
			continue
		}
		src, _ := c.Source(p.From[0].Text)
		for _, surface := range []*config.Surface{src.App, src.V2} {
			if surface != nil {
				l.Source = surface.BaseURL
			}
		}
		for _, to := range p.To {
			d, _ := c.Destination(to.Text)
			l.Destinations[d.Name] = lineagePlace(d)
		}
		all[p.Name] = l
	}
	return all
}

// lineagePlace returns the OpenLineage name of a destination. For a server, the name is scheme://host and a dotted
// path. For a file, it is the scheme and the path.
func lineagePlace(d config.Destination) signal.LineagePlace {
	u, err := url.Parse(d.Shown)
	if err != nil || u.Host == "" {
		_, path, _ := strings.Cut(d.Shown, ":")
		return signal.LineagePlace{Namespace: d.Scheme, Prefix: strings.TrimRight(path, "/") + "/"}
	}
	p := signal.LineagePlace{Namespace: u.Scheme + "://" + u.Host}
	for _, part := range []string{strings.Trim(u.Path, "/"), d.Schema} {
		if part != "" {
			p.Prefix += part + "."
		}
	}
	return p
}

func routeOf(a config.Alerts) signal.Route {
	r := signal.Route{To: a.To}
	for _, k := range a.On {
		r.On = append(r.On, signal.Kind(k))
	}
	return r
}

// Observers returns the signals that observe what the daemon does.
func (s *Signals) Observers() []serve.Observer {
	all := []serve.Observer{s.metrics, s.alerts}
	if s.lineage != nil {
		all = append(all, s.lineage)
	}
	if s.traces != nil {
		all = append(all, s.traces)
	}
	return all
}

// Mount adds health and metrics to d.
func (s *Signals) Mount(d *serve.Daemon, c *config.Config, j state.Journal, in state.Inbox, units *execute.Worker) {
	s.statuses, s.inbox, s.units, s.log = d.Hub().Statuses, in, units, d.Log
	health := signal.NewHealth(d.Alive, d.Log)
	checks := []signal.Check{
		{Name: "configuration", Ready: func(context.Context) error { return nil }}, // a daemon always has one
		{Name: "journal", Ready: func(ctx context.Context) error { _, err := j.Paused(ctx, ""); return err }},
		{Name: "inbox", Ready: func(ctx context.Context) error { _, err := in.Backlogs(ctx); return err }},
	}
	if c.State.Dir != "" {
		checks = append(checks, signal.Check{Name: "state", Ready: func(context.Context) error { return writable(c.State.Dir) }})
	}
	health.Ready(checks...)
	d.Handlers.Health = health
	d.Handlers.Metrics = s.metrics.Handler(d.Log)
}

// lastSignals is the time limit for sending the last spans when the daemon ends.
const lastSignals = 800 * time.Millisecond

// Run sends signals until the returned function is called. The daemon calls this function after its last run has ended.
// So signals about that run are sent too.
func (s *Signals) Run(ctx context.Context) (wait func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	all.Go(func() { s.alerts.Run(ctx) })
	all.Go(func() { s.watchGrants(ctx) })
	if s.lineage != nil {
		all.Go(func() { s.lineage.Run(ctx) })
	}
	return func() {
		cancel()
		if s.traces != nil {
			last, end := context.WithTimeout(context.WithoutCancel(ctx), lastSignals)
			defer end()
			_ = s.traces.Close(last) // spans that are not sent in time are lost
		}
		all.Wait()
	}
}

// read returns the current rate limits and the state of the inbox. Several runs may share a credential and its limit.
// Such a limit is returned only once.
func (s *Signals) read() signal.Reading {
	r := signal.Reading{Inbox: s.standings()}
	r.Units, r.Slots = unitsNow(s.units, s.log)
	reported := map[[2]string]bool{}
	for _, st := range s.statuses() {
		if st.Running == nil || len(st.Sources) == 0 {
			continue
		}
		for _, b := range st.Running.Rates {
			key := [2]string{st.Sources[0], b.Surface}
			if reported[key] {
				continue
			}
			reported[key] = true
			r.Rates = append(r.Rates, signal.Rate{
				Source: key[0], Surface: key[1], Limit: b.Allowed, Used: b.Used * b.Allowed,
				InFlight: b.InFlight, Waits: time.Until(b.Until),
			})
		}
	}
	return r
}

// standings returns the state of the inbox per source.
func (s *Signals) standings() []signal.Inbox {
	if s.inbox == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	standings, err := s.inbox.Backlogs(ctx)
	if err != nil {
		s.log.Warn("cannot read the inbox for metrics", "error", err)
	}
	var all []signal.Inbox
	for _, i := range standings {
		one := signal.Inbox{Source: i.Source, Bytes: i.Bytes, Dead: i.DeadLetters}
		if !i.Oldest.IsZero() {
			one.Age = max(0, s.now().Sub(i.Oldest))
		}
		all = append(all, one)
	}
	return all
}

// readTime limits how long a scrape of the metrics waits for the inbox.
const readTime = 2 * time.Second

// The function writable() returns an error if the folder cannot be written to, for instance because the disk is full.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".ready-*")
	if err != nil {
		return errors.New("cannot write to the state folder")
	}
	defer os.Remove(f.Name())
	_, err = f.Write(make([]byte, 4096))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write to the state folder: %w", err)
	}
	return nil
}

// CheckAlerts checks the form of every alert URL. It sends nothing.
func CheckAlerts(c *config.Config) []check.Finding {
	var all []check.Finding
	seen := map[wire.Secret]bool{}
	look := func(a config.Alerts) {
		for i, u := range a.To {
			if seen[u] {
				continue
			}
			seen[u] = true
			f := check.Finding{Part: fmt.Sprintf("alerts %d", len(seen)), OK: true, Detail: signal.Service(u)}
			if err := signal.CheckTarget(u); err != nil {
				// Cause: the URL of a notification is not valid
				f = check.Failed(context.Background(), f.Part, c.Fault(a.ToAt[i], "alerts to: "+err.Error()), "for the format of URLs see https://shoutrrr.nickfedor.com")
			}
			all = append(all, f)
		}
	}
	look(c.Alerts)
	for _, p := range c.Pipelines {
		if p.Alerts != nil {
			look(*p.Alerts)
		}
	}
	return all
}
