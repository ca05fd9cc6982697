// Package batch contains operations on Arrow batches. Several packages of the pipeline use them.
package batch

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform"
)

// Without returns copies of the batches. It leaves out each row, also in child tables, for whose ordinal omit() returns
// true.
func Without(batches []transform.TableBatch, omit func(ordinal int64) bool) (out []transform.TableBatch, err error) {
	for _, b := range batches {
		cells, err := rowhash.Columns(b.Batch, []string{schemas.ColOrdinal})
		if err != nil {
			return out, err
		}
		at, from := cells[0].(*array.Int64), 0
		var parts []arrow.RecordBatch
		n := int(b.Batch.NumRows())
		for row := 0; row <= n; row++ {
			if row < n && !omit(at.Value(row)) {
				continue
			}
			if row > from {
				parts = append(parts, b.Batch.NewSlice(int64(from), int64(row)))
			}
			from = row + 1
		}
		if len(parts) > 0 {
			whole, err := joined(b.Batch.Schema(), parts)
			if err != nil {
				return out, err
			}
			out = append(out, transform.TableBatch{Table: b.Table, Batch: whole})
		}
	}
	return out, nil
}

// WithoutRows returns a copy of a batch without the rows whose numbers are in `omit`. The caller releases the copy.
func WithoutRows(b arrow.RecordBatch, omit map[int]bool) (arrow.RecordBatch, error) {
	var parts []arrow.RecordBatch
	from, n := 0, int(b.NumRows())
	for row := 0; row <= n; row++ {
		if row < n && !omit[row] {
			continue
		}
		if row > from {
			parts = append(parts, b.NewSlice(int64(from), int64(row)))
		}
		from = row + 1
	}
	if len(parts) == 0 {
		return b.NewSlice(0, 0), nil
	}
	return joined(b.Schema(), parts)
}

func joined(schema *arrow.Schema, parts []arrow.RecordBatch) (arrow.RecordBatch, error) {
	defer Release(parts)
	var rows int64
	for _, p := range parts {
		rows += p.NumRows()
	}
	columns := make([]arrow.Array, schema.NumFields())
	defer func() {
		for _, c := range columns {
			if c != nil {
				c.Release()
			}
		}
	}()
	for i := range columns {
		all := make([]arrow.Array, len(parts))
		for j, p := range parts {
			all[j] = p.Column(i)
		}
		var err error
		if columns[i], err = array.Concatenate(all, memory.DefaultAllocator); err != nil {
			return nil, err
		}
	}
	b := array.NewRecordBatch(schema, columns, rows)
	Share(b)
	return b, nil
}

// EachRow calls visit() for each row of a table, with the cells of the given columns.
func EachRow(batches []transform.TableBatch, table string, columns []string, visit func(cells []arrow.Array, row int)) error {
	for _, b := range batches {
		if b.Table.Name != table {
			continue
		}
		cells, err := rowhash.Columns(b.Batch, columns)
		if err != nil {
			return err
		}
		for row := range int(b.Batch.NumRows()) {
			visit(cells, row)
		}
	}
	return nil
}

// Share prepares a batch for concurrent use. Without Share, goroutines would race: the first call of an array's NullN
// stores the number of nulls in the array.
func Share(b arrow.RecordBatch) {
	for _, a := range b.Columns() {
		for a.NullN() >= 0 {
			l, ok := a.(*array.List)
			if !ok {
				break
			}
			a = l.ListValues()
		}
	}
}

// ReleaseTables releases the batches of several tables.
func ReleaseTables(all []transform.TableBatch) {
	for _, b := range all {
		b.Batch.Release()
	}
}

// Release releases several batches.
func Release(bs []arrow.RecordBatch) {
	for _, b := range bs {
		b.Release()
	}
}

// Retained retains each batch, and returns them in a new slice.
func Retained(bs []arrow.RecordBatch) []arrow.RecordBatch {
	out := make([]arrow.RecordBatch, len(bs))
	for i, b := range bs {
		b.Retain()
		out[i] = b
	}
	return out
}
