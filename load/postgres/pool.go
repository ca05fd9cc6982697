package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstock-data/penstock/state/pgerror"
)

// pool opens the sessions of one destination. It retries operations after transient errors. It is safe for concurrent
// use.
type pool struct {
	o      Options
	server *server // other destinations may use it too
	outage outage

	mu     sync.Mutex
	closed bool
	active map[*session]bool
	places map[*func()]bool       // the places that are reserved for transactions: each function gives one of them back
	copies map[string]stalledCopy // by process id of the session on the server: see terminateStalled
}

const (
	defaultConns = 32              // greatest number of connections, if neither the URL nor the options set another number
	idleTime     = time.Minute     // how long an unused connection stays open, if the URL has no pool_max_conn_idle_time
	dialTimeout  = 5 * time.Second // if the URL has no connect_timeout
)

// connect returns a pool of sessions on the server of o.URL. It connects when it is first used.
func connect(o Options) (*pool, error) {
	at, err := o.Servers.join(o)
	if err != nil {
		return nil, err
	}
	return &pool{o: o, server: at, active: map[*session]bool{}, places: map[*func()]bool{}}, nil
}

// configure parses a URL. Its errors do not contain the URL, because that may contain a password. If the URL does not
// limit the connections, the limit is most.
func configure(url string, most int) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		// Invariant 5
		return nil, errors.New("the url is invalid: want postgres://user:password@host:5432/database?sslmode=require")
	}
	if !strings.Contains(url, "pool_max_conns") {
		config.MaxConns = int32(cmp.Or(most, defaultConns))
	}
	if !strings.Contains(url, "pool_max_conn_idle_time") {
		config.MaxConnIdleTime = idleTime
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

// address returns the host and the port of the server.
func (p *pool) address() string {
	c := p.server.config.ConnConfig
	return fmt.Sprintf("%s:%d", c.Host, c.Port)
}

// close ends the sessions of this destination, and gives back its places, also those of open transactions. The
// connections of other destinations stay open.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	for s := range p.active {
		s.cut = true
		s.conn.Hijack() // so that another connection can be opened now
		_ = s.pg.Conn().Close()
	}
	for release := range p.places {
		(*release)()
	}
	p.o.Servers.leave(p.o.URL, p.server)
}

var errClosed = errors.New("the destination is closed")

// acquire takes a connection of the server. If none is free, a new one may be opened.
func (p *pool) acquire(ctx context.Context) (*session, error) {
	if p.ended() {
		return nil, errClosed
	}
	var conn *pgxpool.Conn
	err := patiently(ctx, lockWaitFactor*p.o.Wait, func(ctx context.Context) (err error) {
		conn, err = p.server.conns.Acquire(ctx)
		return err
	})
	if err != nil {
		return nil, markDiskFull(pgerror.Shorten(err, ""))
	}
	s := &session{pool: p, conn: conn, pg: conn.Conn().PgConn()}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		conn.Release()
		return nil, errClosed
	}
	p.active[s] = true
	return s, nil
}

// ended reports whether the destination is closed.
func (p *pool) ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// reserve reserves a place for a transaction that writes; see [writerLimit]. The caller gives the place back with the
// function that reserve returns. It may call this function more than once. If the destination is closed before, close
// gives the place back.
func (p *pool) reserve(ctx context.Context, of passID, number int) (release func(), err error) {
	release, err = p.server.writes.reserve(ctx, lockWaitFactor*p.o.Wait, of, int64(number))
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		release()
		return nil, errClosed
	}
	once := sync.OnceFunc(release)
	p.places[&once] = true
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.places, &once)
		once()
	}, nil
}

// write is like retry, for a function that writes in one transaction. It reserves the place before the first attempt.
func (p *pool) write(ctx context.Context, f func() error) error {
	release, err := p.reserve(ctx, passID{}, 1)
	if err != nil {
		return err
	}
	defer release()
	return p.retry(ctx, f)
}

// read runs f in a read-only transaction, which sees one snapshot of the database. After a transient error, it runs f
// again on another connection. But if f has already delivered rows, it returns the error, because a second run of f
// would deliver these rows twice.
func (p *pool) read(ctx context.Context, f func(*session) error) error {
	var failed error
	err := p.retry(ctx, func() error {
		s, err := p.acquire(ctx)
		if err != nil {
			return err
		}
		defer s.release()
		if err := s.run(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "+p.settings()); err != nil {
			return err
		}
		err = f(s)
		s.rollback()
		if s.begun {
			failed = err
			return nil
		}
		return err
	})
	return cmp.Or(err, failed)
}

// settings returns one SQL statement that sets the parameters of a transaction. The statement has an empty result.
// These values replace the settings of role, database and server. As a result, names without a schema mean built-in
// objects, texts and times are parsed correctly, and row-level security never hides rows silently.
//
// The default of random_page_cost is meant for rotating disks. With that default, the planner would scan a table of
// millions of rows instead of looking up a few thousand of them in an index.
func (p *pool) settings(more ...[2]string) string {
	all := append([][2]string{
		{"search_path", "pg_catalog, pg_temp"}, {"standard_conforming_strings", "on"}, {"TimeZone", "UTC"},
		{"DateStyle", "ISO, YMD"}, {"IntervalStyle", "iso_8601"}, {"extra_float_digits", "1"},
		{"bytea_output", "hex"}, {"client_min_messages", "warning"}, {"row_security", "off"},
		{"quote_all_identifiers", "off"}, {"array_nulls", "on"}, {"jit", "off"}, {"random_page_cost", "1.1"},
		{"default_tablespace", ""}, {"statement_timeout", "0"},
		{"idle_in_transaction_session_timeout", millis(p.o.IdleTimeout)}, {"lock_timeout", millis(p.o.LockTimeout)},
	}, more...)
	values := make([]string, len(all))
	for i, set := range all {
		values[i] = "(" + literal(set[0]) + ", " + literal(set[1]) + ")"
	}
	return "SELECT FROM (VALUES " + strings.Join(values, ", ") + ") AS s (name, value) WHERE pg_catalog.set_config(name, value, true) IS NULL"
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// beginSQL begins a transaction whose commit is durable. // Invariant 2
func (p *pool) beginSQL() string {
	return "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; " + p.settings([2]string{"synchronous_commit", "on"})
}

// If other sources change the columns of a shared table, a transaction waits for the table's advisory lock. It waits up
// to lockWaitFactor times [Options].Wait. The limit is high because the last of many sources waits for the commits of
// all the others. This wait blocks no reader.
const lockWaitFactor = 10

// advisoryLockSQL returns SQL that waits for the advisory locks with the given names.
func (p *pool) advisoryLockSQL(names ...string) string {
	sql := "SET LOCAL lock_timeout = " + millis(lockWaitFactor*p.o.Wait)
	for _, name := range names {
		sql += "; SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(" + literal(name) + ", 0))"
	}
	return sql + "; SET LOCAL lock_timeout = " + millis(p.o.LockTimeout)
}

// checkServer returns an error if a view or another object has the name of one of penstock's own tables; see
// checkOwnNames.
func (p *pool) checkServer(ctx context.Context, sql dialect) error {
	return p.retry(ctx, func() error {
		s, err := p.acquire(ctx)
		if err != nil {
			return err
		}
		defer s.release()
		return checkOwnNames(ctx, s, sql)
	})
}
