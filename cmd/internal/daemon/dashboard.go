// Package daemon has the parts of a daemon that a configuration describes: the listener, the receiver of webhooks, the
// dashboard, and metrics and alerts.
package daemon

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/assistant"
	"github.com/penstock-data/penstock/cmd/internal/browse"
	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/access"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	boardfacts "github.com/penstock-data/penstock/cmd/internal/serve/facts"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// Dashboard serves the daemon's pages and API, and collects their data.
type Dashboard struct {
	opener  *open.Opener
	board   *board.Board
	Facts   *boardfacts.Facts
	conf    atomic.Pointer[config.Config] // the current configuration
	scheme  func(config.Source) string
	guard   *access.Guard // checks access at every route that accepts a token
	version string        // version of penstock

	closed bool                     // the daemon started with tokens
	wrong  chan serve.AccessRefused // uses of wrong tokens, to be written to the audit log
}

// DashboardConfig has what a dashboard shows.
type DashboardConfig struct {
	Opener  *open.Opener
	Only    open.Selection // the destination whose data pages show; the zero value means all
	Journal state.Journal
	Inbox   state.Inbox
	Scheme  func(config.Source) string // returns the signature scheme of a source's webhooks; "" if it is not known yet
	Queue   http.Handler               // the pages of the workers' queue; nil for none
	Observe func(serve.AccessRefused)  // called for each use of a wrong token
	Version string
}

// OpenDashboard returns the dashboard of a configuration.
func OpenDashboard(c *config.Config, o DashboardConfig) (*Dashboard, error) {
	d := &Dashboard{opener: o.Opener, scheme: o.Scheme, version: o.Version, closed: len(c.Serve.Tokens) > 0, wrong: make(chan serve.AccessRefused, 256)}
	d.guard = access.New(access.Options{Log: o.Opener.Log, Observe: func(n serve.AccessRefused) {
		o.Observe(n)
		if !n.Limited { // after too many wrong tokens, refusals are not recorded, so that the audit log stays small
			select {
			case d.wrong <- n:
			default: // the channel is full; the refusal is still in the program's log
			}
		}
	}})
	d.Configure(c)
	feed := &board.Feed{}
	d.Facts = boardfacts.New(boardfacts.Config{Destinations: d.places, Webhooks: d.receivers, Workspaces: boardfacts.Workspaces{Names: d.sources, State: o.Opener.State(c)}, Journal: o.Journal, Inbox: o.Inbox, Log: o.Opener.Log, Clock: o.Opener.State(c).Now}, feed)
	var err error
	d.board, err = board.New(board.Config{
		Facts: d.Facts, Control: d.Facts, Data: &browse.Browser{Opener: o.Opener, Only: o.Only}, Feed: feed, Access: d.guard, Record: d.Facts.Record, Queue: o.Queue, Version: o.Version, Log: o.Opener.Log, Clock: o.Opener.State(c).Now,
	})
	return d, err
}

// Configure switches to another configuration. New tokens are valid at once. If the new configuration has no tokens,
// but the daemon started with tokens, the old tokens stay valid.
func (d *Dashboard) Configure(c *config.Config) {
	d.conf.Store(c)
	define(d.guard, c, d.closed)
}

// define passes the tokens of a configuration to a guard. The argument `closed` is true if the process started with
// tokens.
func define(guard *access.Guard, c *config.Config, closed bool) {
	if len(c.Serve.Tokens) == 0 && closed {
		return // keep the old tokens: without any, everyone who can reach the address would have access
	}
	var tokens []access.Token
	for _, t := range c.Serve.Tokens {
		tokens = append(tokens, access.Token{Name: t.Name, Secret: t.Secret, Role: access.Role(t.Role)})
	}
	guard.Define(tokens)
}

// Mount adds the dashboard to the daemon.
func (d *Dashboard) Mount(to *serve.Daemon) {
	d.Facts.Attach(to)
	to.Handlers.Board, to.Handlers.API, to.Handlers.Events = d.board, d.board, d.board
	to.Handlers.Assistant = assistant.New(assistant.Options{Browser: browse.Browser{Opener: d.opener}, Version: d.version}).Handler(d.guard)
	to.Handlers.Metrics = d.guard.Require(access.Metrics, to.Handlers.Metrics)
}

// Run keeps the data up to date until ctx ends or the caller calls the returned function, which also closes the board.
func (d *Dashboard) Run(ctx context.Context) (wait func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { d.Facts.Refresh(ctx) })
	all.Go(func() { d.recordWrong(ctx) })
	return func() { cancel(); d.board.Close(); all.Wait() }
}

// recordWrong writes the uses of wrong tokens to the audit log until ctx ends.
func (d *Dashboard) recordWrong(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-d.wrong:
			err := d.Facts.Record(ctx, board.Audit{At: d.clock(), What: "token for " + n.Path, From: n.From, Outcome: n.Why, Refused: true})
			if err != nil && ctx.Err() == nil {
				d.opener.Log.Error("write audit log", "error", err)
			}
		}
	}
}

// clock returns the current time by the clock of the state, for the audit log.
func (d *Dashboard) clock() time.Time { return d.opener.State(d.conf.Load()).Now() }

// maxSeparate limits how many per-source parts of a destination the dashboard shows. If a destination has more parts,
// the dashboard shows only the part of the source that a visitor selects.
const maxSeparate = 20

// places returns the configured destinations. If a destination has at most maxSeparate per-source parts, places returns
// these parts instead of the whole.
func (d *Dashboard) places() []boardfacts.DestinationPart {
	c := d.conf.Load()
	var all []boardfacts.DestinationPart
	for _, to := range c.Destinations {
		of := func(ctx context.Context, source string) (load.Destination, error) { return d.open(ctx, c, to, source) }
		whole := func(ctx context.Context) (load.Destination, error) { return of(ctx, "") }
		sources := c.SourcesOf(to)
		switch {
		case c.Shared(to):
			all = append(all, boardfacts.DestinationPart{Name: to.Name, Open: whole, OpenPart: of})
		case !to.PerSource():
			all = append(all, boardfacts.DestinationPart{Name: to.Name, Open: whole})
		case len(sources) > maxSeparate:
			all = append(all, boardfacts.DestinationPart{Name: to.Name, OpenPart: of})
		default:
			for _, source := range sources {
				all = append(all, boardfacts.DestinationPart{Name: to.Name, Source: source, Open: func(ctx context.Context) (load.Destination, error) { return of(ctx, source) }})
			}
		}
	}
	for i := range all {
		all[i].Configured = c.HasCheck
	}
	return all
}

// The method open() opens the part of a destination that belongs to a source. If source is "", it opens the whole
// destination.
func (d *Dashboard) open(ctx context.Context, c *config.Config, to config.Destination, source string) (load.Destination, error) {
	to = to.For(source)
	p, err := d.opener.Kinds.Of(c, to)
	if err != nil {
		return nil, err
	}
	if p.Absent != nil && p.Absent(to) != nil {
		return nil, fmt.Errorf("open destination %s: %w", to.Name, fs.ErrNotExist) // the first run creates it
	}
	if source == "" {
		return d.opener.Destination(ctx, c, to)
	}
	return d.opener.Part(ctx, c, to, source)
}

// sources returns the names of the sources that pipelines read.
func (d *Dashboard) sources() []string {
	c, seen := d.conf.Load(), map[string]bool{}
	for _, p := range c.Pipelines {
		for _, from := range p.From {
			seen[from.Text] = true
		}
	}
	var names []string
	for _, s := range c.Sources {
		if seen[s.Name] {
			names = append(names, s.Name)
		}
	}
	return names
}

// receivers returns the sources that have webhooks in the configuration.
func (d *Dashboard) receivers() []boardfacts.Receiver {
	var all []boardfacts.Receiver
	for _, s := range d.conf.Load().Sources {
		if s.Webhooks == nil {
			continue
		}
		all = append(all, boardfacts.Receiver{Source: s.Name, Scheme: cmp.Or(d.scheme(s), "learn")})
	}
	return all
}
