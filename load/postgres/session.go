package postgres

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstock-data/penstock/load/postgres/codec"
)

// session is one connection. It keeps nothing from one transaction that a later one needs.
type session struct {
	db   *DB
	conn *pgxpool.Conn
	pg   *pgconn.PgConn
}

// acquire takes a connection from the pool, which may open a new one.
func (d *DB) acquire(ctx context.Context) (*session, error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, markDiskFull(dialed(err))
	}
	s := &session{db: d, conn: conn, pg: conn.Conn().PgConn()}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.active[s] = true
	return s, nil
}

// dialed shortens the error of a failed connection. The driver's error has one line per attempt: for each address,
// with and without TLS. dialed keeps only the last line.
func dialed(err error) error {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); !ok {
		return err
	}
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	if _, one, ok := strings.Cut(last, "`: "); ok && len(lines) == 1 { // the cause follows user and database
		last = one
	}
	return &dialError{cause: err, text: "connect to " + last}
}

type dialError struct {
	cause error
	text  string
}

// Error returns the message, without the password.
func (e *dialError) Error() string { return e.text }

// Unwrap returns the driver's error.
func (e *dialError) Unwrap() error { return e.cause }

// unregister removes the session from those that [DB.Close] ends.
func (s *session) unregister() {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	delete(s.db.active, s)
}

// release returns the connection to the pool.
func (s *session) release() {
	s.unregister()
	s.conn.Release()
}

// drop closes the connection. The server then rolls back the transaction.
func (s *session) drop() {
	s.unregister()
	c := s.conn.Hijack()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}

// usable reports whether the connection is open and in no transaction.
func (s *session) usable() bool { return !s.pg.IsClosed() && s.pg.TxStatus() == 'I' }

// settings returns SQL with the settings of each transaction. They override the settings of role, database and
// server. With them, names without a schema mean built-in objects, texts and times are parsed as intended, and no row
// is hidden.
//
// The default of random_page_cost is for rotating disks. With it, the planner would not use an index to look up a few
// thousand of millions of rows.
func (d *DB) settings() string {
	return "SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL standard_conforming_strings = on; SET LOCAL TimeZone = 'UTC'; " +
		"SET LOCAL DateStyle = 'ISO, YMD'; SET LOCAL IntervalStyle = 'iso_8601'; SET LOCAL extra_float_digits = 1; " +
		"SET LOCAL bytea_output = 'hex'; SET LOCAL client_min_messages = 'warning'; SET LOCAL row_security = off; " +
		"SET LOCAL quote_all_identifiers = off; SET LOCAL array_nulls = on; SET LOCAL jit = off; SET LOCAL random_page_cost = 1.1; SET LOCAL default_tablespace = ''; SET LOCAL statement_timeout = 0; " +
		"SET LOCAL idle_in_transaction_session_timeout = " + millis(d.o.IdleTimeout) + "; SET LOCAL lock_timeout = " + millis(d.o.LockTimeout)
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// begin begins a transaction whose commit is durable. // Invariant 2
func (d *DB) begin(ctx context.Context, s *session) error {
	return s.run(ctx, d.beginSQL())
}

func (d *DB) beginSQL() string {
	return "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = on; " + d.settings()
}

// withReadTx runs f in a read-only transaction, which sees one snapshot of the database. After a transient error, it
// runs f again.
func (d *DB) withReadTx(ctx context.Context, f func(*session) error) error {
	return d.retry(ctx, func() error {
		s, err := d.acquire(ctx)
		if err != nil {
			return err
		}
		defer s.release()
		if _, err := s.exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "+d.settings()); err != nil {
			return err
		}
		err = f(s)
		s.rollback()
		return err
	})
}

// rollbackGrace is the time limit of a rollback. A rollback runs even if its context has ended.
const rollbackGrace = 5 * time.Second

// rollback rolls back the transaction. If that fails, it closes the connection.
func (s *session) rollback() {
	if s.pg.IsClosed() || s.pg.TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollbackGrace)
	defer cancel()
	if _, err := s.exec(ctx, "ROLLBACK"); err != nil {
		_ = s.pg.Close(ctx)
	}
}

// exec runs statements and returns the result of the last one.
func (s *session) exec(ctx context.Context, sql string) (tag pgconn.CommandTag, err error) {
	r := s.pg.Exec(ctx, sql)
	for r.NextResult() {
		if tag, err = r.ResultReader().Close(); err != nil {
			break
		}
	}
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	return tag, cause(ctx, err)
}

// run runs statements.
func (s *session) run(ctx context.Context, sql string) error {
	_, err := s.exec(ctx, sql)
	return err
}

// affect runs statements, and returns how many rows the last one has changed.
func (s *session) affect(ctx context.Context, sql string) (int64, error) {
	tag, err := s.exec(ctx, sql)
	return tag.RowsAffected(), err
}

// query calls f with each row of a query's result. The values are texts, or nil for null. They are valid until f
// returns.
func (s *session) query(ctx context.Context, sql string, f func(values [][]byte) error) error {
	return s.queryTyped(ctx, sql, func(_ []pgconn.FieldDescription, values [][]byte) error { return f(values) })
}

// queryTyped is like query, but f also gets the descriptions of the columns.
func (s *session) queryTyped(ctx context.Context, sql string, f func(fields []pgconn.FieldDescription, values [][]byte) error) error {
	r := s.pg.Exec(ctx, sql)
	var failed error
	for r.NextResult() {
		rows := r.ResultReader()
		for rows.NextRow() {
			if failed == nil {
				failed = f(rows.FieldDescriptions(), rows.Values())
			}
		}
		if _, err := rows.Close(); err != nil && failed == nil {
			failed = err
		}
	}
	if err := r.Close(); failed == nil {
		failed = err
	}
	return cause(ctx, failed)
}

// Query implements [sqlmerge.Reader].
func (s *session) Query(ctx context.Context, sql string, row func([]sqldriver.Value) error) error {
	var converted []sqldriver.Value
	return s.queryTyped(ctx, sql, func(fields []pgconn.FieldDescription, values [][]byte) error {
		converted = converted[:0]
		for i, v := range values {
			c, err := plainValue(fields[i].DataTypeOID, v)
			if err != nil {
				return err
			}
			converted = append(converted, c)
		}
		return row(converted)
	})
}

// Stream implements [sqlmerge.Reader]. If the result has no rows, it does not call visit.
func (s *session) Stream(ctx context.Context, query string, columns *arrow.Schema, visit func(arrow.RecordBatch) error) error {
	batches := codec.NewBatches(columns, visit)
	defer batches.Release()
	err := s.receive(ctx, batches.Add, func(ctx context.Context) *pgconn.ResultReader {
		return s.pg.ExecParams(ctx, query, nil, nil, nil, codec.Formats(columns))
	})
	if err != nil {
		return err
	}
	return batches.Flush()
}

// receive starts a statement, and calls add with each row of its result. If add fails, the statement is cancelled.
func (s *session) receive(ctx context.Context, add func(values [][]byte) error, start func(context.Context) *pgconn.ResultReader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rows := start(ctx)
	var failed error
	for rows.NextRow() {
		if failed == nil {
			failed = add(rows.Values())
		}
		if failed != nil {
			cancel() // the other rows are not needed
		}
	}
	if _, err := rows.Close(); failed == nil {
		failed = cause(ctx, err)
	}
	return failed
}

// plainValue converts a value in text format: whole numbers and sums of them to int64, booleans to bool, and others to
// string.
func plainValue(oid uint32, v []byte) (sqldriver.Value, error) {
	switch {
	case v == nil:
		return nil, nil
	case oid == pgtype.BoolOID:
		return string(v) == "t", nil
	case oid == pgtype.Int8OID || oid == pgtype.Int4OID || oid == pgtype.Int2OID || oid == pgtype.NumericOID:
		return strconv.ParseInt(string(v), 10, 64)
	}
	return string(v), nil
}

// numbers reads the numbers in the only row of a query's result.
func (s *session) numbers(ctx context.Context, sql string, into ...*int64) error {
	some := false
	err := s.query(ctx, sql, func(values [][]byte) (err error) {
		some = true
		for i, p := range into {
			if *p, err = strconv.ParseInt(string(values[i]), 10, 64); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && !some {
		return io.ErrUnexpectedEOF
	}
	return err
}

// strings reads the first column of a query's result.
func (s *session) strings(ctx context.Context, sql string) (out []string, err error) {
	err = s.query(ctx, sql, func(values [][]byte) error {
		out = append(out, string(values[0]))
		return nil
	})
	return out, err
}

// copyIn sends the content of r to COPY … FROM STDIN. It does not read r after it has returned.
func (s *session) copyIn(ctx context.Context, sql string, r io.Reader) (int64, error) {
	g := &gate{r: r}
	defer g.close()
	tag, err := s.pg.CopyFrom(ctx, g, sql+" FROM STDIN (FORMAT binary)")
	return tag.RowsAffected(), cause(ctx, err)
}

// gate is a reader that can be closed. The driver reads in a goroutine of its own. If the connection is lost, the
// driver does not wait for that goroutine.
type gate struct {
	mu     sync.Mutex
	r      io.Reader
	closed bool
}

// Read implements [io.Reader].
func (g *gate) Read(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return 0, io.ErrClosedPipe
	}
	return g.r.Read(p)
}

// close waits until a running Read has ended. Later calls of Read return an error.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// execParams runs a statement with parameters in binary format. nil is null.
func (s *session) execParams(ctx context.Context, sql string, values [][]byte) error {
	formats := make([]int16, len(values))
	for i := range formats {
		formats[i] = 1
	}
	_, err := s.pg.ExecParams(ctx, sql, values, nil, formats, nil).Close()
	return cause(ctx, err)
}

// cause returns err. If ctx has ended and caused err, cause adds the error of ctx. It also explains the errors of a
// full disk and of a row that is too large.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && (code(err) == codeCancelled || code(err) == "") && !errors.Is(err, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return explainWideRow(markDiskFull(err))
}
