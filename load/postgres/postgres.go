package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// DB is a destination in one schema of a Postgres database. Its methods are safe for concurrent use, and transactions
// of different streams run in parallel.
type DB struct {
	o    Options
	pool *pgxpool.Pool

	mu                sync.Mutex
	ready             map[bool]bool          // whether penstock's own tables exist; the key is whether sources share them
	positions         map[state.Key]position // as last read or committed
	claimed           map[state.Key]claimed  // as last committed
	passes            map[state.Key]*pass
	garbage           []string        // tables of finished passes, to be dropped
	cleaned           time.Time       // time of the last attempt that failed
	stale             map[string]bool // streams, by [carriedPrefixOf], that have tables of passes from before this process started
	active            map[*session]bool
	written, analyzed map[string]int64       // rows written to each table; rows at its last ANALYZE
	lastCopies        map[string]stalledCopy // by server process; see terminateStalled
}

var (
	_ load.Destination = (*DB)(nil)
	_ load.Querier     = (*DB)(nil)
	_ load.Viewer      = (*DB)(nil)
)

const (
	defaultConns = 32              // maximum number of connections, if the URL has no pool_max_conns
	dialTimeout  = 5 * time.Second // if the URL has no connect_timeout

	poolerPatience = 2 * time.Second
)

// Open connects to the database, and waits a while for a server that is starting. Only the first commit creates
// anything. The caller closes the destination.
func Open(ctx context.Context, o Options) (*DB, error) {
	if o.Schema == "" {
		o.Schema = "public"
	}
	if o.JSON == "" {
		o.JSON = "jsonb"
	}
	if o.JSON != "jsonb" && o.JSON != "json" {
		return nil, fmt.Errorf("open postgres: JSON columns of type %q: want jsonb or json", o.JSON)
	}
	if len(o.Schema) > schemas.MaxName {
		return nil, fmt.Errorf("open postgres: the schema's name %q has more than %d bytes", o.Schema, schemas.MaxName)
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = defaultLockTimeout
	}
	if o.Wait == 0 {
		o.Wait = defaultWait
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = defaultSilence
	}
	if o.LoggedWarnings == nil {
		o.LoggedWarnings = &sync.Map{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	config, err := configure(o.URL)
	if err != nil {
		return nil, fmt.Errorf("open postgres: %w", err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open postgres: %w", err)
	}
	d := &DB{o: o, pool: pool, ready: map[bool]bool{}, positions: map[state.Key]position{}, claimed: map[state.Key]claimed{}, passes: map[state.Key]*pass{}, stale: map[string]bool{}, active: map[*session]bool{}, written: map[string]int64{}, analyzed: map[string]int64{}}
	err = d.checkPooler(ctx)
	if err == nil {
		err = d.withReadTx(ctx, func(s *session) error { return d.checkOwnNames(ctx, s) })
	}
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("open postgres at %s:%d: %w", config.ConnConfig.Host, config.ConnConfig.Port, err)
	}
	return d, nil
}

// configure parses a URL. Its errors do not include the URL, which may contain a password.
func configure(url string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("cannot parse its URL: want postgres://user:password@host:5432/database?sslmode=require") // Invariant 5
	}
	if !strings.Contains(url, "pool_max_conns") {
		config.MaxConns = defaultConns
	}
	c := config.ConnConfig
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = dialTimeout
	}
	if _, set := c.RuntimeParams["application_name"]; !set {
		c.RuntimeParams["application_name"] = "penstock"
	}
	c.OnNotice = notice
	// When a context ends, also cancel the statement on the server: otherwise it would keep its locks.
	c.BuildContextWatcherHandler = func(pg *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: pg, DeadlineDelay: 2 * time.Second}
	}
	return config, nil
}

// checkPooler checks that each connection is one server session. A pooler is noticed because it reports another process
// number than the server. Two connections that are used in turn show whether the pooler assigns each transaction to
// another session.
func (d *DB) checkPooler(ctx context.Context) error {
	return d.retry(ctx, func() error {
		a, err := d.acquire(ctx)
		if err != nil {
			return err
		}
		pid, err := a.backend(ctx, "")
		if err == nil && pid == int64(a.pg.PID()) {
			a.release()
			return nil
		}
		defer a.drop()
		if err != nil {
			return err
		}
		b, err := d.acquire(ctx)
		if err != nil {
			return err
		}
		defer b.drop()
		taken, err := b.backend(ctx, "BEGIN;")
		if err != nil {
			return err
		}
		if taken == pid {
			return ErrPooled
		}
		soon, cancel := context.WithTimeout(ctx, poolerPatience)
		defer cancel()
		again, err := a.backend(soon, "")
		if err == nil && again != pid || err != nil && soon.Err() != nil && ctx.Err() == nil {
			return ErrPooled // the first connection waits until the second ends its transaction
		}
		return err
	})
}

// backend runs the statement setup, and then returns the number of the server process.
func (s *session) backend(ctx context.Context, setup string) (pid int64, err error) {
	err = s.numbers(ctx, setup+"SELECT pg_catalog.pg_backend_pid()", &pid)
	return pid, err
}

// Cursor implements [load.Destination].
func (d *DB) Cursor(ctx context.Context, k state.Key) (state.Cursor, error) {
	p, err := d.position(ctx, k)
	if err != nil {
		return "", fmt.Errorf("read cursor of %s: %w", k.Stream, err)
	}
	return p.cursor, nil
}

// Tables implements [load.Destination].
func (d *DB) Tables(ctx context.Context, name string) (tables []schemas.Table, err error) {
	err = d.withReadTx(ctx, func(s *session) error {
		c, err := d.readCatalog(ctx, s, []string{name})
		if err != nil {
			return err
		}
		tables = load.ExistingTables(c.made, c.live)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read tables of %s: %w", name, err)
	}
	return tables, nil
}

// Close closes all connections, which ends open transactions. Committed data stays.
func (d *DB) Close() error {
	d.forget(func(state.Key) bool { return true })
	d.mu.Lock()
	open := len(d.active) > 0
	for s := range d.active {
		_ = s.pg.Conn().Close()
	}
	d.mu.Unlock()
	if open {
		go d.pool.Close() // Close waits until the transactions are rolled back
		return nil
	}
	d.pool.Close()
	return nil
}

// step calls Options.Step for a named point of a commit.
func (d *DB) step(name string) error { return load.Step(d.o.Step, name) }
