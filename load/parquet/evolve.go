package parquet

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	pqfile "github.com/apache/arrow-go/v18/parquet/file"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet/values"
	"github.com/penstock-data/penstock/schemas"
)

// evolves reports whether readers can use the existing files with the table's new columns, without a rewrite. That is
// so if the columns have field IDs, and the plan only adds columns or gives decimals more digits. A column that a file
// does not have is read as null.
func (t *table) evolves(p load.Plan) bool {
	if t.Numbered == 0 || p.ChangesMode() {
		return false
	}
	for _, w := range p.Widen {
		to := schemas.TypeOf(w.Column)
		if w.From.ID() != arrow.DECIMAL128 || !promotes(w.From, to) {
			return false
		}
	}
	return true
}

func (t *table) inFile(r *pqfile.Reader) ([]int, error) {
	schema := r.MetaData().Schema
	out := make([]int, len(t.Columns))
	if t.Numbered == 0 {
		if n := schema.NumColumns(); n != len(t.Columns) {
			return nil, fmt.Errorf("the file has %d columns, not %d", n, len(t.Columns))
		}
		for i := range out {
			out[i] = i
		}
		return out, nil
	}
	at := map[int]int{}
	for i := range schema.Root().NumFields() { // each field is one column; for a list, the column of its elements
		at[int(schema.Root().Field(i).FieldID())] = i
	}
	for i, c := range t.Columns {
		place, ok := at[c.ID]
		if !ok {
			place = -1
		}
		out[i] = place
	}
	return out, nil
}

func nulls(t arrow.DataType, rows int64) arrow.Array {
	return array.MakeArrayOfNull(memory.DefaultAllocator, t, int(rows))
}

// shape returns the columns in the order and with the types of the table. In a history table, missing validity
// columns are filled with the times when a row was synced and deleted. Other missing columns are null. The caller
// releases the result.
func (t *table) shape(columns []arrow.Array, from *arrow.Schema, rows int) ([]arrow.Array, error) {
	out := make([]arrow.Array, len(t.Columns))
	for i, f := range t.schema.Fields() {
		at := from.FieldIndices(f.Name)
		if len(at) == 0 {
			switch f.Name {
			case schemas.ColValidFrom:
				at = from.FieldIndices(schemas.ColSyncedAt)
			case schemas.ColValidTo:
				at = from.FieldIndices(schemas.ColDeletedAt)
			}
		}
		switch len(at) {
		case 0:
			out[i] = array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, rows)
		case 1:
			out[i] = values.Cast(columns[at[0]], schemas.TypeOf(from.Field(at[0])), schemas.TypeOf(f))
		default:
			release(out[:i])
			return nil, fmt.Errorf("table %s: %d columns are called %q", t.Name, len(at), f.Name)
		}
	}
	return out, nil
}
