//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	duckdb "github.com/duckdb/duckdb-go/v2"
)

// session is one connection to the engine, used by one goroutine at a time. It implements [sqlmerge.Reader].
type session struct {
	conn   *duckdb.Conn
	arrow  *duckdb.Arrow
	engine *engine
	thread *thread // runs the statements; nil: the caller's thread
}

// Exec implements [sqlmerge.Session].
func (s *session) Exec(ctx context.Context, query string) error {
	_, err := s.Affect(ctx, query)
	return err
}

// Affect implements [sqlmerge.Session].
func (s *session) Affect(ctx context.Context, query string) (int64, error) {
	var r driver.Result
	var err error
	s.thread.run(func() { r, err = s.conn.ExecContext(ctx, query, nil) })
	if err != nil {
		return 0, s.classify(err)
	}
	return r.RowsAffected()
}

// Query implements [sqlmerge.Reader].
func (s *session) Query(ctx context.Context, query string, row func([]driver.Value) error) (err error) {
	var rows driver.Rows
	s.thread.run(func() { rows, err = s.conn.QueryContext(ctx, query, nil) })
	if err != nil {
		return s.classify(err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	values := make([]driver.Value, len(rows.Columns()))
	for {
		if err := rows.Next(values); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return s.classify(err)
		}
		for i, v := range values {
			switch n := v.(type) {
			case int8:
				values[i] = int64(n)
			case int16:
				values[i] = int64(n)
			case int32:
				values[i] = int64(n)
			case uint8:
				values[i] = int64(n)
			case uint16:
				values[i] = int64(n)
			case uint32:
				values[i] = int64(n)
			}
		}
		if err := row(values); err != nil {
			return err
		}
	}
}

// Stream implements [sqlmerge.Reader].
func (s *session) Stream(ctx context.Context, query string, columns *arrow.Schema, each func(arrow.RecordBatch) error) error {
	return s.stream(ctx, query, func(b arrow.RecordBatch) error {
		b = retyped(b, columns)
		defer b.Release()
		return each(b)
	})
}

// stream passes each batch of the result to the callback as it arrives. If the result has no rows, the callback gets
// one empty batch.
func (s *session) stream(ctx context.Context, query string, each func(arrow.RecordBatch) error) error {
	r, err := s.arrow.QueryContext(ctx, query)
	if err != nil {
		return s.classify(err)
	}
	defer r.Release()
	some := false
	for r.Next() {
		some = true
		if err := each(r.RecordBatch()); err != nil {
			return err
		}
	}
	if err := r.Err(); err != nil {
		return s.classify(err)
	}
	if some {
		return nil
	}
	return emptyBatch(r.Schema(), each)
}

// emptyBatch passes a batch without rows to the callback.
func emptyBatch(schema *arrow.Schema, each func(arrow.RecordBatch) error) error {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	batch := b.NewRecordBatch()
	defer batch.Release()
	return each(batch)
}

// retyped() returns a batch with the column types of a schema. The engine gives its batches other Arrow types with the
// same layout. The caller releases the result.
func retyped(b arrow.RecordBatch, s *arrow.Schema) arrow.RecordBatch {
	columns := make([]arrow.Array, b.NumCols())
	for i, c := range b.Columns() {
		data := withType(c.Data(), s.Field(i).Type)
		columns[i] = array.MakeFromData(data)
		data.Release()
		defer columns[i].Release()
	}
	return array.NewRecordBatch(s, columns, b.NumRows())
}

func withType(a arrow.ArrayData, t arrow.DataType) arrow.ArrayData {
	children := slices.Clone(a.Children())
	if l, ok := t.(*arrow.ListType); ok {
		children[0] = withType(children[0], l.Elem())
		defer children[0].Release()
	}
	return array.NewData(t, a.Len(), a.Buffers(), children, a.NullN(), a.Offset())
}

// classify marks the engine as broken if the error is fatal, and marks errors of a full disk so that callers can
// recognize them.
func (s *session) classify(err error) error {
	e, ok := errors.AsType[*duckdb.Error](err)
	if !ok {
		return err
	}
	fatal := e.Type == duckdb.ErrorTypeFatal || e.Type == duckdb.ErrorTypeInternal
	if fatal || strings.Contains(e.Msg, "has been invalidated") {
		s.engine.broken = true
	}
	if strings.Contains(e.Msg, "No space left on device") || strings.Contains(e.Msg, "Disk quota exceeded") {
		return fmt.Errorf("the disk is full: %w: %w", syscall.ENOSPC, err)
	}
	return err
}
