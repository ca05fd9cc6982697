package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/signal"
	"github.com/penstock-data/penstock/extract/wire"
)

// signals are what operators see of the daemon besides the dashboard.
type signals struct {
	redactor *wire.Redactor
	metrics  *signal.Metrics
	alerts   *signal.Alerts

	statuses func() []serve.Status // of the daemon, once there is one
}

// openSignals opens the signals of a configuration.
func (a *app) openSignals(c *config.Config, pipelines []serve.Pipeline) (*signals, error) {
	s := &signals{redactor: wire.NewRedactor(), statuses: func() []serve.Status { return nil }}
	v := versionNow()
	s.metrics = signal.NewMetrics(signal.Build{Version: v.Version, Commit: v.Commit, Go: v.Go}, s.read)
	var err error
	s.alerts, err = signal.OpenAlerts(signal.AlertOptions{
		Path: filepath.Join(c.State.Dir, "alerts.json"), Log: a.log, Redact: s.redactor.Redact, Count: s.metrics.Alert,
	})
	if err != nil {
		return nil, hinted(fmt.Errorf("open alerts: %w", err), "`state:` in the configuration names the folder; let penstock write to it")
	}
	s.configure(c, pipelines)
	a.attempted = s.metrics.Request
	return s, nil
}

// configure goes by another configuration from now on. Secrets that were known
// stay so.
func (s *signals) configure(c *config.Config, pipelines []serve.Pipeline) {
	s.redactor.Add(c.Secrets...)
	r := signal.Routing{Route: routeOf(c.Alerts), Digest: c.Alerts.Digest, Pipelines: map[string]signal.Carried{}}
	for _, src := range c.Sources {
		r.Sources = append(r.Sources, src.Name)
	}
	streams := map[string][]string{}
	for _, p := range pipelines {
		streams[p.Name] = p.Streams
		carried := signal.Carried{Streams: p.Streams}
		if own, ok := c.Pipeline(p.Name); ok && own.Alerts != nil {
			route := routeOf(*own.Alerts)
			carried.Route = &route
		}
		r.Pipelines[p.Name] = carried
	}
	s.metrics.Configure(r.Sources, streams)
	s.alerts.Route(r)
}

func routeOf(a config.Alerts) signal.Route {
	r := signal.Route{To: a.To}
	for _, k := range a.On {
		r.On = append(r.On, signal.Kind(k))
	}
	return r
}

func (s *signals) observers() []serve.Observer { return []serve.Observer{s.metrics, s.alerts} }

// mount puts the answers to operators' questions into d.
func (s *signals) mount(d *serve.Daemon, c *config.Config) {
	s.statuses = d.Hub().Statuses
	health := signal.NewHealth(d.Alive, s.redactor.Redact)
	health.Ready(
		signal.Check{Name: "configuration", Ask: func(context.Context) error { return nil }}, // else there is no daemon
		signal.Check{Name: "state", Ask: func(context.Context) error { return writable(c.State.Dir) }},
	)
	d.Handlers.Health = health
	d.Handlers.Metrics = s.metrics.Handler(d.Log)
}

// run sends what there is to send, until ctx ends.
func (s *signals) run(ctx context.Context) (wait func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { s.alerts.Run(ctx) })
	return func() { cancel(); all.Wait() }
}

// read is where the budgets of requests stand. Runs that share a credential share
// its budget, which is told once.
func (s *signals) read() signal.Reading {
	var r signal.Reading
	told := map[[2]string]bool{}
	for _, st := range s.statuses() {
		if st.Running == nil || len(st.Sources) == 0 {
			continue
		}
		for _, b := range st.Running.Rates {
			key := [2]string{st.Sources[0], b.Surface}
			if told[key] {
				continue
			}
			told[key] = true
			r.Rates = append(r.Rates, signal.Rate{
				Source: key[0], Surface: key[1], Limit: b.Allowed, Used: b.Used * b.Allowed,
				InFlight: b.InFlight, Waits: time.Until(b.Until),
			})
		}
	}
	return r
}

// writable reports why nothing can be written to a folder, a full disk included.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".ready-*")
	if err != nil {
		return errors.New("the state folder cannot be written to")
	}
	defer os.Remove(f.Name())
	_, err = f.Write(make([]byte, 4096))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write to the state folder: %w", err)
	}
	return nil
}

// checkAlerts looks at the form of every URL that alerts go to. It sends nothing.
func checkAlerts(c *config.Config) []finding {
	var all []finding
	seen := map[wire.Secret]bool{}
	look := func(a config.Alerts) {
		for i, u := range a.To {
			if seen[u] {
				continue
			}
			seen[u] = true
			f := finding{Part: fmt.Sprintf("alerts %d", len(seen)), OK: true, Detail: signal.Service(u)}
			if err := signal.CheckTarget(u); err != nil {
				f = failed(context.Background(), f.Part, c.Fault(a.ToAt[i], "alerts to: "+err.Error()), "the URLs are those of shoutrrr: https://shoutrrr.nickfedor.com")
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
