package main

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/access"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	boardfacts "github.com/penstock-data/penstock/cmd/internal/serve/facts"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// dashboard serves the daemon's pages and API, and collects their data.
type dashboard struct {
	a        *app
	board    *board.Board
	facts    *boardfacts.Facts
	conf     atomic.Pointer[config.Config] // the current configuration
	webhooks *webhookServer
	guard    *access.Guard // checks access at every route that accepts a token

	closed bool                     // there were tokens when the daemon started
	wrong  chan serve.AccessRefused // uses of wrong tokens, to be written to the audit log
}

// openDashboard returns the dashboard of a configuration. queue is the pages of the workers' queue; nil for none.
func openDashboard(a *app, c *config.Config, j state.Journal, h *webhookServer, queue http.Handler, observe func(serve.AccessRefused)) (*dashboard, error) {
	d := &dashboard{a: a, webhooks: h, closed: len(c.Serve.Tokens) > 0, wrong: make(chan serve.AccessRefused, 256)}
	d.guard = access.New(access.Options{Log: a.log, Observe: func(n serve.AccessRefused) {
		observe(n)
		if !n.Limited { // refusals over the limit are not recorded, so the audit log stays small
			select {
			case d.wrong <- n:
			default: // the channel is full; the program's log has the refusal
			}
		}
	}})
	d.configure(c)
	feed := &board.Feed{}
	d.facts = boardfacts.New(boardfacts.Config{Destinations: d.places, Webhooks: d.receivers, Workspaces: boardfacts.Workspaces{Names: d.sources, State: a.open.State(c)}, Journal: j, Inbox: h.inbox, Log: a.log, Clock: a.open.State(c).Now}, feed)
	var err error
	d.board, err = board.New(board.Config{
		Facts: d.facts, Control: d.facts, Feed: feed, Access: d.guard, Record: d.facts.Record, Queue: queue, Version: versionNow().Version, Log: a.log, Clock: a.open.State(c).Now,
	})
	return d, err
}

// configure switches to another configuration. New tokens are valid at once. If the daemon started with tokens
// and the new configuration has none, the old tokens stay valid.
func (d *dashboard) configure(c *config.Config) {
	d.conf.Store(c)
	if len(c.Serve.Tokens) == 0 && d.closed {
		return // without a token, every machine that reaches the address would have access
	}
	var tokens []access.Token
	for _, t := range c.Serve.Tokens {
		tokens = append(tokens, access.Token{Name: t.Name, Secret: t.Secret, Role: access.Role(t.Role)})
	}
	d.guard.Define(tokens)
}

// mount adds the dashboard to the daemon.
func (d *dashboard) mount(to *serve.Daemon) {
	d.facts.Attach(to)
	to.Handlers.Board, to.Handlers.API, to.Handlers.Events = d.board, d.board, d.board
	to.Handlers.Metrics = d.guard.Require(access.Metrics, to.Handlers.Metrics)
}

// run keeps the data up to date until ctx ends or the caller calls wait. wait also closes the board.
func (d *dashboard) run(ctx context.Context) (wait func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { d.facts.Refresh(ctx) })
	all.Go(func() { d.recordWrong(ctx) })
	return func() { cancel(); d.board.Close(); all.Wait() }
}

// recordWrong writes the uses of wrong tokens to the audit log until ctx ends.
func (d *dashboard) recordWrong(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-d.wrong:
			err := d.facts.Record(ctx, board.Audit{At: d.clock(), What: "token for " + n.Path, From: n.From, Outcome: n.Why, Refused: true})
			if err != nil && ctx.Err() == nil {
				d.a.log.Error("write audit log", "error", err)
			}
		}
	}
}

// clock returns the current time by the clock of the state, for the audit log.
func (d *dashboard) clock() time.Time { return d.a.open.State(d.conf.Load()).Now() }

// maxSeparate is the number of per-source parts of a destination up to which the dashboard shows all parts. If
// there are more, it shows only the part of the source that a visitor selects.
const maxSeparate = 20

// places returns the configured destinations. For a destination with up to maxSeparate per-source parts, it
// returns the parts.
func (d *dashboard) places() []boardfacts.DestinationPart {
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
	return all
}

// open opens the part of a source in a destination. If source is "", it opens the whole destination.
func (d *dashboard) open(ctx context.Context, c *config.Config, to config.Destination, source string) (load.Destination, error) {
	to = to.For(source)
	p, err := d.a.open.Kind(c, to)
	if err != nil {
		return nil, err
	}
	if p.Absent != nil && p.Absent(to) != nil {
		return nil, fmt.Errorf("open destination %s: %w", to.Name, fs.ErrNotExist) // the first run creates it
	}
	if source == "" {
		return d.a.open.Destination(ctx, c, to)
	}
	return d.a.open.Part(ctx, c, to, source)
}

// sources returns the names of the sources that multi-source pipelines read.
func (d *dashboard) sources() []string {
	c, seen := d.conf.Load(), map[string]bool{}
	for _, p := range c.Pipelines {
		for _, from := range p.From {
			seen[from.Text] = seen[from.Text] || p.MultiSource
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
func (d *dashboard) receivers() []boardfacts.Receiver {
	var all []boardfacts.Receiver
	for _, s := range d.conf.Load().Sources {
		if s.Webhooks == nil {
			continue
		}
		all = append(all, boardfacts.Receiver{Source: s.Name, Scheme: cmp.Or(d.webhooks.receiver.scheme(s), "learn")})
	}
	return all
}
