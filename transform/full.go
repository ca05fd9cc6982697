package transform

import "fmt"

// A row takes space in every column that has a value in the batch, even if the row is short in the page. So columns
// may take a thousand times the size of the page. A batch ends when its columns are full. A record is rejected only
// if its own rows take too much space. The other records of the batch do not matter. Invariants 1 and 6

const (
	fullBytes      = 32 << 20  // size of the columns at which a batch ends
	maxColumnBytes = 128 << 20 // maximum size of the columns for one record
	measuredRows   = 256       // number of rows between two measurements
	childRowBytes  = 40        // approximate size of penstock's own columns, per row of a child table
	elementBytes   = 24        // approximate memory that a destination needs per element of a list, in addition to the element's value
)

type capacity struct {
	batch, record int64 // maximum size of the columns, for a batch and for one record
	rows          int   // number of rows between two measurements

	unmeasured int  // number of rows since the columns were last measured
	full       bool // the current record must wait for the next batch
}

var tooWide = fmt.Sprintf("its rows take more than %d MiB in the columns of their table; lower max_columns of the stream", maxColumnBytes>>20)

// bytes returns the size of all columns. It counts missing values in columns that have a value, and it counts a widened
// column with its new size. It also counts penstock's own columns in child tables, because one short record may have
// thousands of child rows.
func (s *tableSet) bytes() (n int64) {
	s.root.each(func(t *table) {
		if t.parent != nil {
			n += int64(t.rows) * childRowBytes
		}
		for _, c := range t.columns {
			switch {
			case c.n == 0:
			case c.kind == kindStale:
				n += int64(t.rows * kindOf(c.typ).width())
			default:
				n += c.bytes() + int64(max(0, t.rows-c.n)*c.kind.width())
			}
		}
	})
	return n
}
