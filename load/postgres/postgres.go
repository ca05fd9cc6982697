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
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
)

// DB is a destination in one schema of a Postgres database. Its methods are safe for concurrent use. Transactions of
// different streams run in parallel.
type DB struct {
	*sqlmerge.Store
	o    Options
	sql  dialect
	pool *pgxpool.Pool

	mu sync.Mutex
	// ready says whether penstock's own tables exist: ready[true] if sources share them, ready[false] if not.
	ready   map[bool]bool
	kept    map[string]bool // tables of carried keys that a pass of this process needs
	garbage []string        // tables of finished passes, which must be dropped
	cleaned time.Time       // time of the last failed attempt to drop them
	// stale has the streams, by [carriedPrefixOf], that had tables of carried keys when this process started.
	stale             map[string]bool
	active            map[*session]bool
	written, analyzed map[string]int64       // rows written to each table; the same at its last ANALYZE
	lastCopies        map[string]stalledCopy // progress by process id of the server: see terminateStalled
}

var (
	_ load.Destination = (*DB)(nil)
	_ load.Querier     = (*DB)(nil)
	_ load.Viewer      = (*DB)(nil)
)

const (
	defaultConns = 32              // greatest number of connections, if the URL has no pool_max_conns
	dialTimeout  = 5 * time.Second // if the URL has no connect_timeout

	poolerPatience = 2 * time.Second
)

// Open connects to the database. It waits a while for a server that is starting. It creates nothing: only the first
// commit does. The caller closes the destination.
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
	d := &DB{o: o, sql: dialect{o.Schema, o.JSON}, pool: pool, ready: map[bool]bool{}, kept: map[string]bool{}, stale: map[string]bool{}, active: map[*session]bool{}, written: map[string]int64{}, analyzed: map[string]int64{}}
	d.Store = sqlmerge.New(backend{d.sql, d})
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

// configure parses a URL. Its errors do not contain the URL, because that may contain a password.
func configure(url string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		// Invariant 5
		return nil, errors.New("cannot parse its URL: want postgres://user:password@host:5432/database?sslmode=require")
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
	// If a context ends, also cancel the statement on the server, because a running statement keeps its locks.
	c.BuildContextWatcherHandler = func(pg *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: pg, DeadlineDelay: 2 * time.Second}
	}
	return config, nil
}

// checkPooler checks that each connection keeps its server session. Behind a pooler, a connection reports another
// process id than its server session. Then checkPooler uses two connections in turn, to see whether each transaction
// may get another session.
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
			return ErrPooled // the first connection waits for the second one's session
		}
		return err
	})
}

// backend runs the statement setup, and returns the process id of the server session.
func (s *session) backend(ctx context.Context, setup string) (pid int64, err error) {
	err = s.numbers(ctx, setup+"SELECT pg_catalog.pg_backend_pid()", &pid)
	return pid, err
}

// Close closes all connections. Open transactions end without a commit.
func (d *DB) Close() error {
	d.mu.Lock()
	for table := range d.kept {
		d.garbage = append(d.garbage, table)
	}
	clear(d.kept)
	d.mu.Unlock()
	d.dropNow()
	d.mu.Lock()
	open := len(d.active) > 0
	for s := range d.active {
		_ = s.pg.Conn().Close()
	}
	d.mu.Unlock()
	if open {
		go d.pool.Close() // Close waits until all transactions have ended
		return nil
	}
	d.pool.Close()
	return nil
}

// place returns the qualified name of a table of the destination.
func (d *DB) place(table string) string { return d.sql.Place(table) }

// step calls Options.Step for a named step of a commit.
func (d *DB) step(name string) error { return load.Step(d.o.Step, name) }
