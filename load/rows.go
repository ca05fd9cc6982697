package load

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Rows makes a batch of rows of t. Each row is a slice of values in the order of t's columns: string, int, int64, bool,
// float64, time.Time, or nil for null. Rows is meant for penstock's own tables, which get few rows. The caller releases
// the batch.
func Rows(t schemas.Table, rows ...[]any) (arrow.RecordBatch, error) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, t.Columns)
	defer b.Release()
	reserve(b, rows)
	for i, row := range rows {
		if len(row) != t.Columns.NumFields() {
			return nil, fmt.Errorf("make rows of %s: row %d has %d values, want %d", t.Name, i, len(row), t.Columns.NumFields())
		}
		for c, v := range row {
			if err := appendValue(b.Field(c), v); err != nil {
				return nil, fmt.Errorf("make rows of %s: column %s: %w", t.Name, t.Columns.Field(c).Name, err)
			}
		}
	}
	return b.NewRecordBatch(), nil
}

// WriteRows writes rows of t in the open transaction tx. See [Rows] for their values.
func WriteRows(ctx context.Context, tx Tx, t schemas.Table, rows ...[]any) error {
	if len(rows) == 0 {
		return nil
	}
	b, err := Rows(t, rows...)
	if err != nil {
		return err
	}
	defer b.Release()
	return tx.Write(ctx, t, b)
}

// CommitRows writes rows of t in a separate transaction. The two cursors are the cursors of k before and after the
// transaction.
func CommitRows(ctx context.Context, d Destination, k state.Key, from, to state.Cursor, p Pass, t schemas.Table, rows ...[]any) error {
	tx, err := d.Begin(ctx, k, from, p)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := WriteRows(ctx, tx, t, rows...); err != nil {
		return err
	}
	return tx.Commit(ctx, to)
}

// reserve allocates memory for all rows at once. A builder that grows step by step takes up to twice the memory.
// Invariant 6
func reserve(b *array.RecordBuilder, rows [][]any) {
	b.Reserve(len(rows))
	for c, field := range b.Fields() {
		text, ok := field.(*array.StringBuilder)
		if !ok {
			continue
		}
		n := 0
		for _, row := range rows {
			if c < len(row) {
				v, _ := row[c].(string)
				n += len(v)
			}
		}
		text.ReserveData(n)
	}
}

func appendValue(b array.Builder, v any) error {
	switch v := v.(type) {
	case nil:
		b.AppendNull()
		return nil
	case string:
		if b, ok := b.(*array.StringBuilder); ok {
			b.Append(v)
			return nil
		}
	case int:
		return appendValue(b, int64(v))
	case int64:
		if b, ok := b.(*array.Int64Builder); ok {
			b.Append(v)
			return nil
		}
	case bool:
		if b, ok := b.(*array.BooleanBuilder); ok {
			b.Append(v)
			return nil
		}
	case float64:
		if b, ok := b.(*array.Float64Builder); ok {
			b.Append(v)
			return nil
		}
	case time.Time:
		if b, ok := b.(*array.TimestampBuilder); ok {
			b.Append(arrow.Timestamp(v.UnixMicro()))
			return nil
		}
	}
	return fmt.Errorf("cannot store %T as %s", v, b.Type())
}
