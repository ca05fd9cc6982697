package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
)

// database is a pool of connections to the database of a store.
//
// If the connections go through a pooler, each transaction may get another session of the server. Then a setting for a
// whole session would have no effect, and a prepared statement would not be found again. So each transaction makes the
// settings for itself, and each read is a transaction.
type database struct {
	*pgxpool.Pool
	begin string // statements that begin a transaction with its settings; "" if the sessions have the settings
}

const (
	dialTimeout      = 5 * time.Second
	leaveTimeout     = time.Second // for the other side to close a connection
	statementTimeout = 15 * time.Second
	lockTimeout      = 10 * time.Second
	mostConnections  = 10 // if neither the URL nor the options set another number
)

// querier runs queries, with or without a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Begin begins a transaction.
func (d *database) Begin(ctx context.Context) (pgx.Tx, error) {
	return d.BeginTx(ctx, pgx.TxOptions{BeginQuery: d.begin})
}

// view calls the function do, which may only read.
func (d *database) view(ctx context.Context, do func(querier) error) error {
	if d.begin == "" {
		return do(d.Pool)
	}
	tx, err := d.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	return do(tx)
}

// config returns the configuration of the pool, and the schema.
func (o Options) config() (c *pgxpool.Config, schema string, err error) {
	if c, err = pgxpool.ParseConfig(o.URL); err != nil {
		// The driver's error would quote the URL. // Invariant 5
		return nil, "", errors.New("cannot parse the URL of the state database")
	}
	p := c.ConnConfig.RuntimeParams
	if schema = strings.TrimSpace(strings.Split(p["search_path"], ",")[0]); schema == "" {
		schema = DefaultSchema
	}
	delete(p, "search_path") // see settings
	p["application_name"] = "penstock"
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = dialTimeout
	}
	if !o.limitedByURL() {
		c.MaxConns = int32(cmp.Or(o.Connections, mostConnections))
	}
	c.MaxConnIdleTime = time.Minute
	return c, strings.Trim(schema, `"`), nil
}

func (o Options) limitedByURL() bool { return strings.Contains(o.URL, "pool_max_conns") }

// ServerOf returns the host and the port of the server of a URL. If the URL is invalid, it returns "".
func ServerOf(url string) string {
	c, err := pgconn.ParseConfig(url)
	if err != nil {
		return ""
	}
	return net.JoinHostPort(strings.ToLower(c.Host), strconv.Itoa(int(c.Port)))
}

// settings are the names and values of the settings that each statement needs.
func (o Options) settings(schema string) [][2]string {
	return [][2]string{
		{"search_path", pgx.Identifier{schema}.Sanitize()}, {"TimeZone", "UTC"}, {"client_min_messages", "warning"},
		{"synchronous_commit", "on"}, // Invariant 3
		{"statement_timeout", millis(statementTimeout)}, {"lock_timeout", millis(lockTimeout)},
		// A process that has lost its leases must not keep rows locked.
		{"idle_in_transaction_session_timeout", millis(o.leaseLife())},
	}
}

// With this isolation level, a transaction that has waited for a row sees the new version of the row.
const isolation = "read committed"

// open opens the database. It makes one connection, to find out whether there is a pooler.
func (o Options) open(ctx context.Context) (*database, string, error) {
	c, schema, err := o.config()
	if err != nil {
		return nil, "", err
	}
	d := &database{}
	pooled, err := behindPooler(ctx, c.ConnConfig.Copy())
	switch {
	case err != nil:
		return nil, "", err
	case pooled:
		// In this mode, the driver asks for the types of a statement once per connection, and prepares the statement
		// without a name.
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		d.begin = "BEGIN ISOLATION LEVEL " + isolation + "; " + setLocal(o.settings(schema))
	default:
		if o.Listen && !o.limitedByURL() {
			c.MaxConns = max(1, c.MaxConns-1) // the connection for LISTEN leaves the pool
		}
		p := c.ConnConfig.RuntimeParams
		p["default_transaction_isolation"] = isolation
		for _, set := range o.settings(schema) {
			p[set[0]] = set[1]
		}
	}
	d.Pool, err = pgxpool.NewWithConfig(context.Background(), c)
	return d, schema, err
}

// setLocal returns a statement that applies settings until the end of the transaction.
func setLocal(settings [][2]string) string {
	calls := make([]string, len(settings))
	for i, set := range settings {
		calls[i] = fmt.Sprintf("pg_catalog.set_config('%s', '%s', true)", set[0], strings.ReplaceAll(set[1], "'", "''"))
	}
	return "SELECT " + strings.Join(calls, ", ")
}

// behindPooler reports whether the connections go through a pooler. It compares the process id of the connection with
// the process id of its session on the server. Behind a pooler, they are different. It cannot distinguish a pooler in
// session mode from a pooler in transaction mode. When it returns, its connection no longer counts, so that the pool may
// have all connections that the process is allowed.
func behindPooler(ctx context.Context, c *pgx.ConnConfig) (bool, error) {
	conn, err := pgconn.ConnectConfig(ctx, &c.Config)
	if err != nil {
		return false, err
	}
	defer leave(ctx, conn)
	results, err := conn.Exec(ctx, "SELECT pg_catalog.pg_backend_pid()").ReadAll()
	if err != nil {
		return false, err
	}
	return string(results[0].Rows[0][0]) != fmt.Sprint(conn.PID()), nil
}

// leave closes a connection, and waits until the other side has closed it too. Until then, a server or a pooler counts
// the connection.
func leave(ctx context.Context, conn *pgconn.PgConn) {
	c, err := conn.Hijack()
	if err != nil { // the connection is broken
		_ = conn.Close(context.WithoutCancel(ctx))
		return
	}
	defer func() { _ = c.Conn.Close() }()
	_ = c.Conn.SetDeadline(time.Now().Add(leaveTimeout)) // Invariant 15
	c.Frontend.Send(&pgproto3.Terminate{})
	if c.Frontend.Flush() == nil {
		_, _ = io.Copy(io.Discard, c.Conn)
	}
}

// connections returns the database. The first call opens it.
func (s *Store) connections(ctx context.Context) (*database, error) {
	s.connecting.Lock()
	defer s.connecting.Unlock()
	s.mu.Lock()
	d := s.db
	s.mu.Unlock()
	if d != nil {
		return d, nil
	}
	d, schema, err := s.o.open(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db, s.schema = d, schema
	return d, nil
}

// Pooled reports whether the connections to the database go through a pooler. Through a pooler, LISTEN does not work.
func (s *Store) Pooled(ctx context.Context) (bool, error) {
	d, err := s.connections(ctx)
	return err == nil && d.begin != "", err
}
