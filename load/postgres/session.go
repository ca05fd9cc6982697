package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// session is one connection. Nothing of it is needed after its transaction.
type session struct {
	db   *DB
	conn *pgxpool.Conn
	pg   *pgconn.PgConn
}

// acquire takes a connection out of the pool, or makes one.
func (d *DB) acquire(ctx context.Context) (*session, error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, full(dialed(err))
	}
	s := &session{db: d, conn: conn, pg: conn.Conn().PgConn()}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.active[s] = true
	return s, nil
}

// dialed says of a connection that was not made why its last attempt failed. The
// driver lists one line for each address and for TLS and without.
func dialed(err error) error {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); !ok {
		return err
	}
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	if _, one, ok := strings.Cut(last, "`: "); ok && len(lines) == 1 { // behind the user and the database
		last = one
	}
	return &dialError{cause: err, text: "connect to " + last}
}

type dialError struct {
	cause error
	text  string
}

// Error is the text without the password.
func (e *dialError) Error() string { return e.text }

// Unwrap returns the cause.
func (e *dialError) Unwrap() error { return e.cause }

// inactive takes the session from those that Close has to end.
func (s *session) inactive() {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	delete(s.db.active, s)
}

// release gives the connection back.
func (s *session) release() {
	s.inactive()
	s.conn.Release()
}

// drop closes the connection: the server rolls back and forgets.
func (s *session) drop() {
	s.inactive()
	c := s.conn.Hijack()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}

// usable reports whether the connection is open and in no transaction.
func (s *session) usable() bool { return !s.pg.IsClosed() && s.pg.TxStatus() == 'I' }

// settings hold in each transaction, whatever the role, the database or the
// server may say: names are found where they are written, texts and times read
// as they are meant, and nothing is kept from us without a word. Rows are looked
// up by an index, a few thousand in a table of millions: the planner's idea of
// what that costs is of spinning disks.
func (d *DB) settings() string {
	return "SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL standard_conforming_strings = on; SET LOCAL TimeZone = 'UTC'; " +
		"SET LOCAL DateStyle = 'ISO, YMD'; SET LOCAL IntervalStyle = 'iso_8601'; SET LOCAL extra_float_digits = 1; " +
		"SET LOCAL bytea_output = 'hex'; SET LOCAL client_min_messages = 'warning'; SET LOCAL row_security = off; " +
		"SET LOCAL quote_all_identifiers = off; SET LOCAL array_nulls = on; SET LOCAL jit = off; SET LOCAL random_page_cost = 1.1; SET LOCAL default_tablespace = ''; SET LOCAL statement_timeout = 0; " +
		"SET LOCAL idle_in_transaction_session_timeout = " + millis(d.o.Silence) + "; SET LOCAL lock_timeout = " + millis(d.o.LockTimeout)
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// begin opens a transaction that is durable once it is committed. // Invariant 2
func (d *DB) begin(ctx context.Context, s *session) error {
	return s.run(ctx, d.beginSQL())
}

func (d *DB) beginSQL() string {
	return "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = on; " + d.settings()
}

// look runs f in a transaction that sees one state of the database and can only
// read, again where the server was not there.
func (d *DB) look(ctx context.Context, f func(*session) error) error {
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

// rollbackGrace is how long a rollback may take, whatever else has ended.
const rollbackGrace = 5 * time.Second

// rollback ends the transaction, or else the connection.
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

// exec runs statements and returns what the last has answered.
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

// run is exec where the answer does not matter.
func (s *session) run(ctx context.Context, sql string) error {
	_, err := s.exec(ctx, sql)
	return err
}

// affect is exec for the number of rows that a statement has changed.
func (s *session) affect(ctx context.Context, sql string) (int64, error) {
	tag, err := s.exec(ctx, sql)
	return tag.RowsAffected(), err
}

// query hands each row of a query's answer to f, as text, nil for null. The
// values are f's until it returns.
func (s *session) query(ctx context.Context, sql string, f func(values [][]byte) error) error {
	r := s.pg.Exec(ctx, sql)
	var failed error
	for r.NextResult() {
		rows := r.ResultReader()
		for rows.NextRow() {
			if failed == nil {
				failed = f(rows.Values())
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

// numbers reads the numbers of a query's one row.
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

// strings reads the first column of a query's answer.
func (s *session) strings(ctx context.Context, sql string) (out []string, err error) {
	err = s.query(ctx, sql, func(values [][]byte) error {
		out = append(out, string(values[0]))
		return nil
	})
	return out, err
}

// copyIn sends what r gives to a COPY … FROM STDIN. r is not read after it has
// returned.
func (s *session) copyIn(ctx context.Context, sql string, r io.Reader) (int64, error) {
	g := &gate{r: r}
	defer g.close()
	tag, err := s.pg.CopyFrom(ctx, g, sql+" FROM STDIN (FORMAT binary)")
	return tag.RowsAffected(), cause(ctx, err)
}

// gate reads until it is closed. The driver reads in a goroutine of its own, for which
// it does not wait where the connection is lost.
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

// close returns once nobody reads any more.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// give runs a statement with values in the binary format, nil for null.
func (s *session) give(ctx context.Context, sql string, values [][]byte) error {
	formats := make([]int16, len(values))
	for i := range formats {
		formats[i] = 1
	}
	_, err := s.pg.ExecParams(ctx, sql, values, nil, formats, nil).Close()
	return cause(ctx, err)
}

// cause is err, or that ctx is over where that is what it came from.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && (code(err) == codeCancelled || code(err) == "") && !errors.Is(err, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return wide(full(err))
}
