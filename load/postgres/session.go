package postgres

import (
	"cmp"
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstock-data/penstock/load/postgres/codec"
	"github.com/penstock-data/penstock/state/pgerror"
)

// session is one connection. Each transaction makes its own settings, so it does not depend on earlier transactions of
// the session.
type session struct {
	pool  *pool
	conn  *pgxpool.Conn
	pg    *pgconn.PgConn
	begun bool // the caller has received rows; if the query fails now, it must not be repeated
	cut   bool // [pool.close] has removed the connection from the pool, and has closed it
}

// unregister removes the session from the list of sessions that [pool.close] ends. It reports whether [pool.close] has
// already ended the session.
func (s *session) unregister() (cut bool) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	delete(s.pool.active, s)
	return s.cut
}

// release returns the connection, so that other sessions can use it.
func (s *session) release() {
	if s.unregister() {
		s.hangUp()
		return
	}
	s.conn.Release()
}

// drop closes the connection. The server then rolls back the transaction.
func (s *session) drop() {
	if !s.unregister() {
		s.conn.Hijack()
	}
	s.hangUp()
}

func (s *session) hangUp() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.pg.Close(ctx)
}

// usable reports whether the connection is open and in no transaction.
func (s *session) usable() bool { return !s.pg.IsClosed() && s.pg.TxStatus() == 'I' }

// begin begins a transaction that writes.
func (s *session) begin(ctx context.Context) error { return s.run(ctx, s.pool.beginSQL()) }

// rollbackGrace is the time limit of a rollback. A rollback runs even if its context has ended.
const rollbackGrace = 5 * time.Second

// rollback rolls back the transaction. If that fails, it closes the connection.
func (s *session) rollback() {
	if s.pg.IsClosed() || s.pg.TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollbackGrace)
	defer cancel()
	if s.run(ctx, "ROLLBACK") != nil {
		_ = s.pg.Close(ctx)
	}
}

// exec runs statements, and calls row() with each row of their results. It returns the outcome of the last statement.
func (s *session) exec(ctx context.Context, sql string, row func(fields []pgconn.FieldDescription, values [][]byte) error) (tag pgconn.CommandTag, err error) {
	results := s.pg.Exec(ctx, sql)
	for results.NextResult() {
		rows := results.ResultReader()
		for rows.NextRow() {
			if err == nil {
				err = row(rows.FieldDescriptions(), rows.Values())
			}
		}
		ended, failed := rows.Close()
		tag, err = ended, cmp.Or(err, failed)
	}
	return tag, cause(ctx, cmp.Or(err, results.Close()))
}

// run runs statements.
func (s *session) run(ctx context.Context, sql string) error {
	_, err := s.affect(ctx, sql)
	return err
}

func ignore([]pgconn.FieldDescription, [][]byte) error { return nil }

// affect runs statements, and returns how many rows the last one has changed.
func (s *session) affect(ctx context.Context, sql string) (int64, error) {
	tag, err := s.exec(ctx, sql, ignore)
	return tag.RowsAffected(), err
}

// query calls f with each row of a query's result. The values are texts, or nil for null. They are valid until f
// returns.
func (s *session) query(ctx context.Context, sql string, f func(values [][]byte) error) error {
	_, err := s.exec(ctx, sql, func(_ []pgconn.FieldDescription, values [][]byte) error { return f(values) })
	return err
}

// Query implements [sqlmerge.Reader].
func (s *session) Query(ctx context.Context, sql string, row func([]sqldriver.Value) error) error {
	var converted []sqldriver.Value
	_, err := s.exec(ctx, sql, func(fields []pgconn.FieldDescription, values [][]byte) error {
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
	return err
}

// Stream implements [sqlmerge.Reader]. If the result has no rows, it does not call visit.
func (s *session) Stream(ctx context.Context, query string, columns *arrow.Schema, visit func(arrow.RecordBatch) error) error {
	batches := codec.NewBatches(columns, s.passOn(visit))
	defer batches.Release()
	err := s.receive(ctx, batches.Add, func(ctx context.Context) *pgconn.ResultReader {
		return s.pg.ExecParams(ctx, query, nil, nil, nil, codec.Formats(columns))
	})
	if err != nil {
		return err
	}
	return batches.Flush()
}

// passOn returns a function that calls visit, and sets s.begun.
func (s *session) passOn(visit func(arrow.RecordBatch) error) func(arrow.RecordBatch) error {
	return func(b arrow.RecordBatch) error {
		s.begun = true
		return visit(b)
	}
}

// answer runs a prepared statement and passes its result to visit, in at least one batch. For a result without rows,
// the batch is empty.
func (s *session) answer(ctx context.Context, stmt *pgconn.StatementDescription, name string, visit func(arrow.RecordBatch) error) error {
	answer := codec.NewAnswer(stmt.Fields, s.passOn(visit))
	defer answer.Release()
	err := s.receive(ctx, answer.Add, func(ctx context.Context) *pgconn.ResultReader {
		return s.pg.ExecPrepared(ctx, name, nil, nil, answer.Formats())
	})
	if err != nil {
		return err
	}
	return answer.End()
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

// plainValue converts a value in text format. Whole numbers and sums of them become int64, booleans become bool, and
// all other values become strings.
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

// gate is a reader that can be closed. The driver reads from it in another goroutine. If the connection is lost, the
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

// execParams runs a statement with parameters in binary format. A nil value means null.
func (s *session) execParams(ctx context.Context, sql string, values [][]byte) error {
	formats := make([]int16, len(values))
	for i := range formats {
		formats[i] = 1
	}
	_, err := s.pg.ExecParams(ctx, sql, values, nil, formats, nil).Close()
	return cause(ctx, err)
}

// cause() returns err. If ctx has ended and this caused err, it adds the error of ctx. It also explains the errors of a
// full disk and of a row that is too large.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && (pgerror.Code(err) == codeCancelled || pgerror.Code(err) == "") && !errors.Is(err, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return explainWideRow(markDiskFull(err))
}
