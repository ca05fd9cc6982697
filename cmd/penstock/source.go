package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// sourceClient is a configured source, ready to be read.
type sourceClient struct {
	client *extract.Client
	names  []string // of wires, in the order they were made
	wires  map[string]*wire.Client

	governors map[*wire.Governor]*wire.Governor // the process's for those that the configuration made
	leave     []func() error                    // gives each of them back
}

// openSource makes the clients that the streams need. adjust, if not nil, has
// the last word on their options.
func (a *app) openSource(c *config.Config, p config.Pipeline, streams []config.Stream, adjust func(*wire.Options)) (*sourceClient, error) {
	if _, err := a.signIns(c, p.From[0].Text); err != nil {
		return nil, err
	}
	clients, err := c.Clients(p.From[0].Text, streams, a.stateOf(c).Vault())
	if err != nil {
		return nil, err
	}
	s := &sourceClient{wires: map[string]*wire.Client{}}
	redactor := wire.NewRedactor(c.Secrets...)
	for _, cl := range clients {
		cl.Redactor, cl.UserAgent = redactor, "penstock/"+versionNow().Version
		if tell := a.attempted; tell != nil {
			cl.Attempted = func(t wire.Attempt) { tell(p.From[0].Text, cl.Name, t.Status, t.Elapsed) }
		}
		if adjust != nil {
			adjust(&cl.Options)
		}
		if err := s.govern(context.Background(), a, c, &cl); err != nil {
			return nil, errors.Join(err, s.close())
		}
		w, err := wire.New(cl.Options)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.wires[cl.Name] = w
		s.names = append(s.names, cl.Name)
	}
	cfg := s.config(c, streams)
	cfg.Now = a.stateOf(c).Now
	if s.client, err = extract.New(cfg); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// budgetDir is where, in the state folder, the requests of each credential are
// counted.
const budgetDir = "budget"

// govern has a client ask the governor that all sources of this process with its
// account share, whose budget is one with those of all processes that have the
// same state. Without that there is no lawful request: two processes would spend
// it twice. // Invariant 4
func (s *sourceClient) govern(ctx context.Context, a *app, c *config.Config, cl *config.Client) error {
	if g := s.governors[cl.Governor]; g != nil {
		cl.Governor = g
		return nil
	}
	name := c.State.Dir + c.State.URL.Reveal() + " " + wire.BookName(cl.Account)
	g, leave, err := a.governors.Open(name, cl.Governor, func(g *wire.Governor) error { return a.share(ctx, c, g, cl.Account) })
	if err != nil {
		return fmt.Errorf("open source %s: %w", cl.Options.Name, err)
	}
	if s.governors == nil {
		s.governors = map[*wire.Governor]*wire.Governor{}
	}
	s.governors[cl.Governor], s.leave = g, append(s.leave, leave)
	cl.Governor = g
	return nil
}

// share makes a governor one with those of other processes, by a ledger in the
// database of the state or by a file in its folder.
func (a *app) share(ctx context.Context, c *config.Config, g *wire.Governor, account wire.Secret) error {
	if ledger, many := a.stateOf(c).(wire.Ledger); many {
		if err := g.ShareIn(ctx, ledger, account); err != nil {
			return stateTrouble(err)
		}
		return nil
	}
	if err := g.Share(filepath.Join(c.State.Dir, budgetDir), account); err != nil {
		return usage("`state:` in the configuration names the folder, in which all runs on this machine count their requests; let penstock write to it", "%w", err)
	}
	return nil
}

// config says which client a stream goes through.
func (s *sourceClient) config(c *config.Config, streams []config.Stream) extract.Config {
	cfg := extract.Config{
		Streams:  map[string]*wire.Client{},
		Selected: plain(streams),
		Find: func(name string) (schemas.Stream, bool) {
			st, ok := c.Stream(name)
			return st.Stream, ok
		},
	}
	for name, w := range s.wires {
		switch name {
		case string(schemas.SurfaceV2):
			cfg.V2 = w
		case string(schemas.SurfaceApp):
			cfg.App = w
		default:
			cfg.Streams[name] = w
		}
	}
	return cfg
}

// plain are the streams without what only the configuration knows.
func plain(streams []config.Stream) []schemas.Stream {
	all := make([]schemas.Stream, len(streams))
	for i, s := range streams {
		all[i] = s.Stream
	}
	return all
}

// limit is what the requests a second are held against, as far as it is known.
func (s *sourceClient) limit() string {
	var parts []string
	for _, name := range s.names {
		if l := s.wires[name].Governor().Stats().Limit.String(); l != "" {
			parts = append(parts, name+" "+l)
		}
	}
	return strings.Join(parts, ", ")
}

// waiting says which surface no request may go to for a while, until when and
// why; "" while they go.
func (s *sourceClient) waiting() string {
	var parts []string
	for _, name := range s.names {
		g := s.wires[name].Governor().Stats()
		if g.Waiting != "" && time.Until(g.GateUntil) > time.Second {
			parts = append(parts, fmt.Sprintf("%s waits until %s: %s", name, g.GateUntil.Local().Format(time.TimeOnly), g.Waiting))
		}
	}
	return strings.Join(parts, ", ")
}

// close drops the connections.
func (s *sourceClient) close() error {
	var errs []error
	if s.client != nil {
		errs = append(errs, s.client.Close())
	}
	for _, w := range s.wires {
		errs = append(errs, w.Close())
	}
	for _, leave := range s.leave {
		errs = append(errs, leave())
	}
	return errors.Join(errs...)
}
