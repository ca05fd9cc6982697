package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	pqfile "github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/penstock-data/penstock/load/parquet/values"
)

const (
	readRows  = 8 << 10
	readBytes = 16 << 20 // approximate size of the rows that are read at once
)

// read calls visit with batches of rows, in order. The first argument of visit is the index of the batch's first row,
// and the last argument is the number of rows. The batches have the named columns in the given order, or all columns if
// the parameter columns is nil. The function visit must not use a batch after it has returned.
func (f *file) read(ctx context.Context, t *table, columns []string, visit func(first int64, b []arrow.Array, rows int) error) error {
	if f.Rows == 0 {
		return nil
	}
	r, err := f.open(ctx)
	if err != nil {
		return fmt.Errorf("read %s: %w", f.path(), err)
	}
	defer r.Close()
	if err := f.readFrom(ctx, r, t, columns, visit); err != nil {
		return fmt.Errorf("read %s: %w", f.path(), err)
	}
	return nil
}

func (f *file) open(ctx context.Context) (*pqfile.Reader, error) {
	in, err := f.store.open(ctx, f)
	if err != nil {
		return nil, err
	}
	r, err := pqfile.NewParquetReader(in)
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return r, nil
}

func (f *file) readFrom(ctx context.Context, r *pqfile.Reader, t *table, columns []string, visit func(int64, []arrow.Array, int) error) error {
	there, err := t.inFile(r)
	if err != nil {
		return err
	}
	places, err := t.places(columns)
	if err != nil {
		return err
	}
	sorted := picked(places, there)
	props := pqarrow.ArrowReadProperties{BatchSize: batchRows(r)}
	pq, err := pqarrow.NewFileReader(r, props, memory.DefaultAllocator)
	if err != nil {
		return err
	}
	batches, err := pq.GetRecordReader(ctx, sorted, nil)
	if err != nil {
		return err
	}
	defer batches.Release()
	first, place, gone := int64(0), int64(0), f.Deleted
	for batches.Next() {
		b := batches.RecordBatch()
		out := make([]arrow.Array, len(places))
		for i, p := range places {
			at, ok := slices.BinarySearch(sorted, there[p])
			if !ok {
				out[i] = nulls(t.schema.Field(p).Type, b.NumRows())
				continue
			}
			out[i] = values.Retype(b.Column(at), t.schema.Field(p).Type)
		}
		rows := int(b.NumRows())
		var live arrow.Array
		live, gone = gone.Live(place, rows)
		place += int64(rows)
		if live != nil {
			if out, rows, err = onlyLive(ctx, out, live); err != nil {
				return err
			}
		}
		if rows > 0 {
			err = visit(first, out, rows)
		}
		release(out)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		first += int64(rows)
	}
	if err := batches.Err(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if place != f.stored() {
		return fmt.Errorf("the file has %d rows, not %d", place, f.stored())
	}
	return nil
}

// onlyLive returns the given rows of a batch, and releases its arguments.
func onlyLive(ctx context.Context, batch []arrow.Array, live arrow.Array) ([]arrow.Array, int, error) {
	defer release(batch)
	defer live.Release()
	out, err := take(ctx, batch, live, make([]arrow.Array, len(batch)))
	return out, live.Len(), err
}

// The function picked() returns the columns to read, in file order and without duplicates. It returns at least one
// column, because the rows are counted by reading a column.
func picked(places, there []int) []int {
	var out []int
	for _, p := range places {
		if there[p] >= 0 {
			out = append(out, there[p])
		}
	}
	if out == nil {
		return []int{0}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func batchRows(r *pqfile.Reader) int64 {
	var bytes, rows int64
	for i := range r.NumRowGroups() {
		g := r.MetaData().RowGroup(i)
		bytes, rows = bytes+g.TotalByteSize(), rows+g.NumRows()
	}
	rowSize := bytes/max(1, rows) + 1
	return min(readRows, max(16, readBytes/rowSize))
}

func (t *table) places(columns []string) ([]int, error) {
	var out []int
	if columns == nil {
		for i := range t.Columns {
			out = append(out, i)
		}
		return out, nil
	}
	for _, name := range columns {
		i := t.column(name)
		if i < 0 {
			return nil, fmt.Errorf("table %s has no column %q", t.Name, name)
		}
		out = append(out, i)
	}
	return out, nil
}

func release(columns []arrow.Array) {
	for _, c := range columns {
		c.Release()
	}
}
