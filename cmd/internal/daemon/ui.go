package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/access"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state"
)

// visitorToken is the name of the token of the visitor of a UI.
const visitorToken = "you"

// UI is a dashboard that reads destinations, for one person on this machine. It runs no pipeline.
type UI struct {
	daemon    *serve.Daemon
	dashboard *Dashboard
	address   string
}

// UIConfig has what a UI shows.
type UIConfig struct {
	Opener  *open.Opener
	Only    open.Selection // the destination to show; the zero value means all
	Journal state.Journal  // for the audit log of this session
	Version string
}

// OpenUI returns a dashboard that listens on a free port of this machine. Only the visitor who opens its [UI.Link] can
// see it.
func OpenUI(c *config.Config, o UIConfig) (*UI, error) {
	own := *c
	own.Serve = config.Serve{Listen: "127.0.0.1:0", Tokens: []config.ServeToken{{Name: visitorToken, Secret: wire.Secret(rand.Text()), Role: string(access.Query)}}}
	own.Sources = slices.Clone(c.Sources)
	for i := range own.Sources {
		own.Sources[i].Webhooks = nil // no delivery arrives here
	}
	l, err := Listen(&own, "serve", own.Serve.Listen, o.Opener.Log)
	if err != nil {
		return nil, err
	}
	u := &UI{address: "http://" + l.Addr().String()}
	u.dashboard, err = OpenDashboard(&own, DashboardConfig{
		Opener: o.Opener, Only: o.Only, Journal: o.Journal, Version: o.Version,
		Scheme:  func(config.Source) string { return "" },
		Observe: func(serve.AccessRefused) {},
	})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	u.daemon = newUIDaemon(&own, o, l, u.dashboard)
	return u, nil
}

// newUIDaemon returns a daemon without schedules.
func newUIDaemon(c *config.Config, o UIConfig, l net.Listener, to *Dashboard) *serve.Daemon {
	d := serve.New(serve.Config{
		Observers: []serve.Observer{to.Facts}, Listener: l, Journal: o.Journal, Log: o.Opener.Log, Now: o.Opener.State(c).Now,
		Redact:    wire.NewRedactor(c.Secrets...).Redact,
		Pipelines: shownPipelines(c),
	})
	d.Handlers.Metrics = http.NotFoundHandler()
	to.Mount(d)
	return d
}

// shownPipelines returns the pipelines of a configuration for pages that only show them.
func shownPipelines(c *config.Config) (all []serve.Pipeline) {
	for _, p := range c.Pipelines {
		shown := serve.Pipeline{Name: p.Name, Run: func(context.Context, serve.RunRequest) (pipeline.Report, error) {
			return pipeline.Report{}, errors.New("penstock ui runs no pipeline; use penstock sync or penstock serve")
		}}
		for _, from := range p.From {
			shown.Sources = append(shown.Sources, from.Text)
		}
		for _, to := range p.To {
			shown.Destinations = append(shown.Destinations, to.Text)
		}
		if streams, err := c.Select(p, nil); err == nil {
			for _, s := range streams {
				shown.Streams = append(shown.Streams, s.Name)
			}
		}
		all = append(all, shown)
	}
	return all
}

// Link returns the address to open in a browser. It works once.
func (u *UI) Link() string {
	who, _ := u.dashboard.guard.Named(visitorToken)
	return u.address + u.dashboard.board.Link(who, "/data")
}

// Run serves the dashboard until the context ends.
func (u *UI) Run(ctx context.Context) error {
	defer u.dashboard.Run(ctx)()
	if err := u.daemon.Run(ctx); err != nil {
		return fmt.Errorf("serve the dashboard: %w", err)
	}
	return nil
}
