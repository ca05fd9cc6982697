package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/fleet/queue"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/postgres"
)

// stores are the places of state that this process uses, each opened once.
type stores struct {
	mu  sync.Mutex
	all map[config.State]state.Store
}

// stateOf is where a configuration keeps its state. It stays open until the verb
// has ended.
func (a *app) stateOf(c *config.Config) state.Store {
	at := c.State
	at.At = config.Pos{} // it is the same wherever it stands in the file
	a.stores.mu.Lock()
	defer a.stores.mu.Unlock()
	if s, open := a.stores.all[at]; open {
		return s
	}
	if a.stores.all == nil {
		a.stores.all = map[config.State]state.Store{}
	}
	a.stores.all[at] = openState(at, a.life)
	return a.stores.all[at]
}

func openState(at config.State, life time.Duration) state.Store {
	if at.URL != "" {
		return postgres.New(postgres.Options{URL: at.URL.Reveal(), Keys: at.Key.Reveal(), Enqueue: queue.Enqueue, Life: life})
	}
	f := &state.Folder{Dir: at.Dir, Keys: at.Key.Reveal()}
	if at.Keyring {
		f.Ring = state.Keyring{}
	}
	return f
}

// close gives up what is open.
func (s *stores) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, one := range s.all {
		errs = append(errs, one.Close())
	}
	s.all = nil
	return errors.Join(errs...)
}

// hintKey is how to get a key of a state database.
const hintKey = "`age-keygen -o state.key` makes a key; `state: {path: postgres://…, key: \"${file:state.key}\"}` or PENSTOCK_STATE_KEY names it, the same for every process"

// stateTrouble says what a person can do where the state cannot be used.
func stateTrouble(err error) error {
	switch {
	case errors.Is(err, postgres.ErrUnmigrated):
		return usage("`penstock migrate` makes it so, with a role that may create tables", "%w", err)
	case errors.Is(err, state.ErrNewer):
		return usage("another penstock uses it by now: install that version here, too", "%w", err)
	case errors.Is(err, postgres.ErrNoKey):
		return usage(hintKey, "%w", err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, state.ErrExposed):
		return usage("`state:` in the configuration names the folder; let penstock write to it", "%w", err)
	}
	return usage("`state:` in the configuration names the folder or database; let penstock write to it", "%w", err)
}

// stateHost is where a state database is, without who asks.
func stateHost(c *config.Config) string {
	u, err := url.Parse(c.State.URL.Reveal())
	if err != nil {
		return "the state database"
	}
	return u.Scheme + "://" + u.Host + "/" + strings.TrimPrefix(u.Path, "/")
}

func (a *app) migrateCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "bring the state database to this version",
		Long: `Makes the schema of the state database, ` + "`state: postgres://…`" + `, or brings it to this
version. Its role must be allowed to create tables there; the role of serve and
sync needs no more than to read and write them. Doing so twice changes nothing, and
of several processes that do so at once one does the work.

A state folder needs no migration: it is brought up to date when it is opened.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.migrate(cmd.Context()) },
	}
}

// migrated is what `migrate --json` prints.
type migrated struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

func (a *app) migrate(ctx context.Context) error {
	c, err := a.loadPlaces()
	if err != nil {
		return err
	}
	db, ok := a.stateOf(c).(*postgres.Store)
	if !ok {
		return a.say("state folder %s: nothing to migrate\n", c.State.Dir)
	}
	from, to, err := db.Migrate(ctx)
	steps := 0
	if err == nil {
		steps, err = migrateQueue(ctx, db)
	}
	switch {
	case errors.Is(err, state.ErrNewer):
		return stateTrouble(err)
	case err != nil:
		return hinted(err, "the role needs CREATE on the database, or on its schema once that is there")
	case a.json:
		return lineWriter(a.out).Encode(migrated{from, to})
	case from == to && steps == 0:
		return a.say("%s: version %d, nothing to do\n", stateHost(c), to)
	}
	return a.say("%s: from version %d to %d\n", stateHost(c), from, to)
}

// migrateQueue brings the tables of the workers' queue to this version.
func migrateQueue(ctx context.Context, db *postgres.Store) (steps int, err error) {
	pool, schema, err := db.Queue(ctx)
	if err != nil {
		return 0, err
	}
	return queue.Migrate(ctx, pool, schema)
}

// inspectQueue returns [postgres.ErrUnmigrated] where these are not of this version.
func inspectQueue(ctx context.Context, db *postgres.Store) error {
	pool, schema, err := db.Queue(ctx)
	if err != nil {
		return err
	}
	lacks, err := queue.Inspect(ctx, pool, schema)
	if err == nil && lacks != "" {
		err = postgres.ErrUnmigrated
	}
	return err
}

// checkState looks at the state database; a folder says what is wrong when it is
// used.
func (a *app) checkState(ctx context.Context, c *config.Config) []finding {
	db, ok := a.stateOf(c).(*postgres.Store)
	if !ok {
		return nil
	}
	h, err := db.Health(ctx)
	if err == nil {
		err = inspectQueue(ctx, db)
	}
	switch {
	case errors.Is(err, postgres.ErrUnmigrated), errors.Is(err, state.ErrNewer):
		return []finding{failed(ctx, "state", stateTrouble(err), "")}
	case err != nil:
		return []finding{failed(ctx, "state", err, "`state:` in the configuration names the database")}
	case len(h.Lacking) > 0:
		return []finding{failed(ctx, "state", usage("have its owner run: GRANT USAGE ON SCHEMA "+sqlName(h.Schema)+" TO …; GRANT "+h.Lacking[0]+" TO …; and so on",
			"the role lacks %s", strings.Join(h.Lacking, ", ")), "")}
	}
	f := finding{Part: "state", OK: true, Detail: fmt.Sprintf("%s, schema %s, version %d, Postgres %s", stateHost(c), h.Schema, h.Version, h.Server)}
	if db.Vault().Check() != nil {
		f.Detail += "; it has no key, and keeps no tokens"
		f.Hint = hintKey
	}
	return append([]finding{f}, checkClock(h.Ahead)...)
}

// clockSlack is how far a clock may be off without a word.
const clockSlack = 5 * time.Second

// checkClock says how far this machine's clock is from that of the state database,
// which runs go by. It is no fault: nothing of what is read is wrong by it.
func checkClock(ahead time.Duration) []finding {
	if ahead.Abs() <= clockSlack {
		return nil
	}
	way := "behind"
	if ahead < 0 {
		way = "ahead of"
	}
	return []finding{{
		Part: "clock", OK: true, Detail: fmt.Sprintf("this machine's is %s %s that of the state database, which schedules, leases and rows go by", brief(ahead.Abs()), way),
		Hint: "set it, or have NTP do so: certificates and the requests of object stores are still judged by it",
	}}
}
