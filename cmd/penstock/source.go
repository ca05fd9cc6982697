package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/extract/wire/budget"
	"github.com/penstock-data/penstock/schemas"
)

// sourceClient is a configured source, ready for reading.
type sourceClient struct {
	client *extract.Client
	names  []string // keys of wires, in order of creation
	wires  map[string]*wire.Client

	governors map[*budget.Governor]*budget.Governor // from a governor of the configuration to the governor that this process shares
	leave     []func() error                        // releases the shared governors
}

// openSource creates the clients that the streams need. If adjust is not nil, it may change the options of each
// client.
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

// budgetDir is the folder, in the state folder, where requests are counted per credential.
const budgetDir = "budget"

// govern replaces a client's governor by the one that all sources of this process with the same account share.
// Processes with the same state share the governor's budget. If the budget cannot be shared, govern returns an
// error, because two processes would spend the budget twice. // Invariant 4
func (s *sourceClient) govern(ctx context.Context, a *app, c *config.Config, cl *config.Client) error {
	if g := s.governors[cl.Governor]; g != nil {
		cl.Governor = g
		return nil
	}
	shared := budget.Name(cl.Account.Reveal())
	g, leave, err := a.governors.Open(c.State.Dir+c.State.URL.Reveal()+" "+shared, cl.Governor, func(g *budget.Governor) error { return a.share(ctx, c, g, shared) })
	if err != nil {
		return fmt.Errorf("open source %s: %w", cl.Options.Name, err)
	}
	if s.governors == nil {
		s.governors = map[*budget.Governor]*budget.Governor{}
	}
	s.governors[cl.Governor], s.leave = g, append(s.leave, leave)
	cl.Governor = g
	return nil
}

// share shares the budget of a governor with other processes, through a ledger in the state database or a file
// in the state folder.
func (a *app) share(ctx context.Context, c *config.Config, g *budget.Governor, name string) error {
	if ledger, many := a.stateOf(c).(budget.Ledger); many {
		if err := g.ShareLedger(ctx, ledger, name); err != nil {
			return stateTrouble(err)
		}
		return nil
	}
	if err := g.ShareFile(filepath.Join(c.State.Dir, budgetDir), name); err != nil {
		return failure.Usage("let penstock write to the folder that `state:` in the configuration sets: all runs on this machine count their requests there", "%w", err)
	}
	return nil
}

// config assigns a client to each stream.
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

// plain returns the streams without the fields that only the configuration has.
func plain(streams []config.Stream) []schemas.Stream {
	all := make([]schemas.Stream, len(streams))
	for i, s := range streams {
		all[i] = s.Stream
	}
	return all
}

// limit returns the known rate limits as text.
func (s *sourceClient) limit() string {
	var parts []string
	for _, name := range s.names {
		if l := s.wires[name].Governor().Stats().Limit.String(); l != "" {
			parts = append(parts, name+" "+l)
		}
	}
	return strings.Join(parts, ", ")
}

// waiting returns which surfaces must wait before the next request, until when and why; "" if none must.
func (s *sourceClient) waiting() string {
	var parts []string
	for _, name := range s.names {
		g := s.wires[name].Governor().Stats()
		if g.WaitsFor != "" && time.Until(g.GateUntil) > time.Second {
			parts = append(parts, fmt.Sprintf("%s waits until %s: %s", name, g.GateUntil.Local().Format(time.TimeOnly), g.WaitsFor))
		}
	}
	return strings.Join(parts, ", ")
}

// close closes the connections and releases the governors.
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
