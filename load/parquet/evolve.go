package parquet

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	pqfile "github.com/apache/arrow-go/v18/parquet/file"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// evolves reports whether files of the table can be read as its new columns want
// though they were written before: where columns have numbers, one that a file
// does not have is null in it, and a decimal of more digits is the same number.
func (t *table) evolves(p load.Plan) bool {
	if t.Numbered == 0 || p.Turns() {
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

// inFile is where a file has the table's columns; -1 for those that it was written
// without.
func (t *table) inFile(r *pqfile.Reader) ([]int, error) {
	schema := r.MetaData().Schema
	out := make([]int, len(t.Columns))
	if t.Numbered == 0 {
		if n := schema.NumColumns(); n != len(t.Columns) {
			return nil, fmt.Errorf("it has %d columns, not %d", n, len(t.Columns))
		}
		for i := range out {
			out[i] = i
		}
		return out, nil
	}
	at := map[int]int{}
	for i := range schema.Root().NumFields() { // each is one column: of lists, the elements
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

// nulls are those of a column that a file was written without.
func nulls(t arrow.DataType, rows int64) arrow.Array {
	return array.MakeArrayOfNull(memory.DefaultAllocator, t, int(rows))
}
