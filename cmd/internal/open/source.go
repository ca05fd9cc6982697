package open

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

// Source is a configured source, ready for reading.
type Source struct {
	Client *extract.Client
	Names  []string // keys of `wires`, in order of creation
	Wires  map[string]*wire.Client

	governors map[*budget.Governor]*budget.Governor // maps a governor of the configuration to the shared governor of the same account
	leave     []func() error                        // releases the shared governors
}

// Source creates the clients that the streams need. If adjust is not nil, it may change the options of each
// client.
func (o *Opener) Source(c *config.Config, p config.Pipeline, streams []config.Stream, adjust func(*wire.Options)) (*Source, error) {
	if _, err := o.SignIns(c, p.From[0].Text); err != nil {
		return nil, err
	}
	clients, err := c.Clients(p.From[0].Text, streams, o.State(c).Vault())
	if err != nil {
		return nil, err
	}
	s := &Source{Wires: map[string]*wire.Client{}}
	redactor := wire.NewRedactor(c.Secrets...)
	for _, cl := range clients {
		cl.Redactor, cl.UserAgent = redactor, o.UserAgent
		if tell := o.Attempted; tell != nil {
			cl.Attempted = func(t wire.Attempt) { tell(p.From[0].Text, cl.Name, t.Status, t.Elapsed) }
		}
		if adjust != nil {
			adjust(&cl.Options)
		}
		if err := s.govern(context.Background(), o, c, &cl); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		w, err := wire.New(cl.Options)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.Wires[cl.Name] = w
		s.Names = append(s.Names, cl.Name)
	}
	cfg := s.config(c, streams, o.MemoryFor(c, p).Ahead)
	cfg.Now = o.State(c).Now
	if s.Client, err = extract.New(cfg); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// budgetDir is the folder, in the state folder, where requests are counted per credential.
const budgetDir = "budget"

// govern replaces a client's governor by a shared governor. In this process, all sources with the same account share
// it. Processes with the same state share the governor's budget. If the budget cannot be shared, govern returns an
// error, because two processes could then send twice the allowed number of requests. // Invariant 4
func (s *Source) govern(ctx context.Context, o *Opener, c *config.Config, cl *config.Client) error {
	if g := s.governors[cl.Governor]; g != nil {
		cl.Governor = g
		return nil
	}
	shared := budget.Name(cl.Account.Reveal())
	g, leave, err := o.governors.Open(c.State.Dir+c.State.URL.Reveal()+" "+shared, cl.Governor, func(g *budget.Governor) error { return o.share(ctx, c, g, shared) })
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
func (o *Opener) share(ctx context.Context, c *config.Config, g *budget.Governor, name string) error {
	if ledger, many := o.State(c).(budget.Ledger); many {
		if err := g.ShareLedger(ctx, ledger, name); err != nil {
			return StateTrouble(err)
		}
		return nil
	}
	if err := g.ShareFile(filepath.Join(c.State.Dir, budgetDir), name); err != nil {
		// Cause: the file that counts requests cannot be written
		return failure.Usage("let penstock write to the folder that `state:` in the configuration sets: all runs on this machine count their requests there", "%w", err)
	}
	return nil
}

// config assigns a client to each stream. All clients together request at most the given number of bytes in advance; 0
// means the default.
func (s *Source) config(c *config.Config, streams []config.Stream, ahead int64) extract.Config {
	cfg := extract.Config{
		MaxBytes: ahead,
		Streams:  map[string]*wire.Client{},
		Selected: Plain(streams),
		Find: func(name string) (schemas.Stream, bool) {
			st, ok := c.Stream(name)
			return st.Stream, ok
		},
	}
	for name, w := range s.Wires {
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

// Plain returns the streams without the fields that only the configuration has.
func Plain(streams []config.Stream) []schemas.Stream {
	all := make([]schemas.Stream, len(streams))
	for i, s := range streams {
		all[i] = s.Stream
	}
	return all
}

// Limit returns the known rate limits as text.
func (s *Source) Limit() string {
	var parts []string
	for _, name := range s.Names {
		if l := s.Wires[name].Governor().Stats().Limit.String(); l != "" {
			parts = append(parts, name+" "+l)
		}
	}
	return strings.Join(parts, ", ")
}

// Waiting returns which surfaces must wait before the next request, until when and why; "" if none must.
func (s *Source) Waiting() string {
	var parts []string
	for _, name := range s.Names {
		g := s.Wires[name].Governor().Stats()
		if g.WaitsFor != "" && time.Until(g.GateUntil) > time.Second {
			parts = append(parts, fmt.Sprintf("%s waits until %s: %s", name, g.GateUntil.Local().Format(time.TimeOnly), g.WaitsFor))
		}
	}
	return strings.Join(parts, ", ")
}

// Close closes the connections and releases the governors.
func (s *Source) Close() error {
	var errs []error
	if s.Client != nil {
		errs = append(errs, s.Client.Close())
	}
	for _, w := range s.Wires {
		errs = append(errs, w.Close())
	}
	for _, leave := range s.leave {
		errs = append(errs, leave())
	}
	return errors.Join(errs...)
}

// SignInClient returns a client for the requests of a sign-in, and a function that releases its request budget.
func (o *Opener) SignInClient(ctx context.Context, c *config.Config, s config.SignIn) (*wire.Client, func() error, error) {
	s.MaxAttempts, s.UserAgent = 2, o.UserAgent
	var counted Source
	as := config.Client{Account: s.Account, Options: s.Options}
	if err := counted.govern(ctx, o, c, &as); err != nil {
		return nil, nil, err
	}
	client, err := wire.New(as.Options)
	if err != nil {
		return nil, nil, errors.Join(err, counted.Close())
	}
	return client, counted.Close, nil
}
