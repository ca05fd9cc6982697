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
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/fleet/queue"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/postgres"
)

// stores are the state stores that this process uses, each opened once.
type stores struct {
	mu  sync.Mutex
	all map[config.State]state.Store
}

// stateOf returns the state store of a configuration. It stays open until the verb ends.
func (a *app) stateOf(c *config.Config) state.Store {
	at := c.State
	at.At = config.Pos{} // the position in the file does not matter
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
		return postgres.New(postgres.Options{URL: at.URL.Reveal(), Keys: at.Key.Reveal(), Jobs: queue.Jobs{}, Life: life})
	}
	f := &state.Folder{Dir: at.Dir, Keys: at.Key.Reveal()}
	if at.Keyring {
		f.Ring = state.Keyring{}
	}
	return f
}

// close closes all stores.
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

// hintKey is the hint for creating a key of a state database.
const hintKey = "create a key with `age-keygen -o state.key`, and set it with `state: {path: postgres://…, key: \"${file:state.key}\"}` or PENSTOCK_STATE_KEY, the same for every process"

// stateTrouble adds a hint to an error of the state.
func stateTrouble(err error) error {
	switch {
	case errors.Is(err, postgres.ErrUnmigrated):
		return failure.Usage("run `penstock migrate` with a role that may create tables", "%w", err)
	case errors.Is(err, state.ErrNewer):
		return failure.Usage("a newer version of penstock has upgraded the state: install that version here too", "%w", err)
	case errors.Is(err, postgres.ErrNoKey):
		return failure.Usage(hintKey, "%w", err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, state.ErrExposed):
		return failure.Usage("let penstock write to the folder that `state:` in the configuration sets", "%w", err)
	}
	return failure.Usage("let penstock write to the folder or database that `state:` in the configuration sets", "%w", err)
}

// stateHost returns where a state database is, without user and password.
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
		Short: "migrate the state database to this version",
		Long: `Creates the schema of the state database, ` + "`state: postgres://…`" + `, or upgrades it to
this version. The role that migrates needs the right to create tables; the role of serve
and sync only needs to read and write them. A second migration changes nothing, and
concurrent migrations are safe.

A state folder needs no migration: it is upgraded when it is opened.`,
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
		return failure.Hinted(err, "the role needs CREATE on the database, or on the schema once it exists")
	case a.json:
		return render.NewEncoder(a.out).Encode(migrated{from, to})
	case from == to && steps == 0:
		return a.say("%s: version %d, nothing to do\n", stateHost(c), to)
	}
	return a.say("%s: from version %d to %d\n", stateHost(c), from, to)
}

// migrateQueue upgrades the tables of the workers' queue to this version, and returns the number of steps.
func migrateQueue(ctx context.Context, db *postgres.Store) (steps int, err error) {
	pool, schema, err := db.Queue(ctx)
	if err != nil {
		return 0, err
	}
	return queue.Migrate(ctx, pool, schema)
}

// inspectQueue returns [postgres.ErrUnmigrated] if the tables of the workers' queue have another
// version.
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

// checkState checks the state database. It does not check a state folder, because its faults show when it is
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
		return []finding{failed(ctx, "state", err, "`state:` in the configuration sets the database")}
	case len(h.MissingRights) > 0:
		return []finding{failed(ctx, "state", failure.Usage("ask its owner to run: GRANT USAGE ON SCHEMA "+render.SQLName(h.Schema)+" TO …; GRANT "+h.MissingRights[0]+" TO …; and so on",
			"the role lacks %s", strings.Join(h.MissingRights, ", ")), "")}
	}
	f := finding{Part: "state", OK: true, Detail: fmt.Sprintf("%s, schema %s, version %d, Postgres %s", stateHost(c), h.Schema, h.Version, h.Server)}
	if db.Vault().Check() != nil {
		f.Detail += "; without a key it cannot store tokens"
		f.Hint = hintKey
	}
	return append([]finding{f}, checkClock(h.Ahead)...)
}

// clockSlack is the largest clock difference that is not reported.
const clockSlack = 5 * time.Second

// checkClock reports a large difference between this machine's clock and that of the state database. It is not a
// failed check, because runs use the clock of the database.
func checkClock(ahead time.Duration) []finding {
	if ahead.Abs() <= clockSlack {
		return nil
	}
	way := "behind"
	if ahead < 0 {
		way = "ahead of"
	}
	return []finding{{
		Part: "clock", OK: true, Detail: fmt.Sprintf("this machine's clock is %s %s that of the state database, which schedules, leases and rows use", render.Brief(ahead.Abs()), way),
		Hint: "set it, for instance with NTP: TLS certificates and requests to object stores still depend on it",
	}}
}
