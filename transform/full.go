package transform

import "fmt"

// A row of few bytes takes its place in every column of its table. So the columns of a
// batch may take a thousand times what its records took in their page, and a batch ends
// where they are full. A record is refused only if it fills them alone: what other
// records came with it does not matter. Invariants 1 and 6

const (
	fullBytes      = 32 << 20  // of columns, at which a batch ends
	maxColumnBytes = 128 << 20 // of columns, that one record may take
	measuredRows   = 256       // rows between two measurements
)

// capacity is what a mapper holds in columns.
type capacity struct {
	batch, record int64 // bytes
	rows          int   // between two measurements
}

var tooWide = fmt.Sprintf("so many rows in a table of so many columns that they take more than %d MiB (max_columns of the stream allows fewer)", maxColumnBytes>>20)

// overflows reports whether the columns take more than they may. Amid a record, m.full
// then says whether the record fits into a batch of its own.
func (m *Mapper) overflows() bool {
	if m.unmeasured++; m.unmeasured < m.capacity.rows {
		return false
	}
	m.unmeasured = 0
	if m.root.rows == 0 {
		return m.columnBytes() > m.capacity.record
	}
	m.full = !m.again && m.columnBytes() > m.capacity.batch
	return m.full
}

// columnBytes is the size of the columns. The rows without a value take their place in
// a batch, too; a column whose type has grown has the size that it is about to have.
func (m *Mapper) columnBytes() (n int64) {
	m.root.each(func(t *table) {
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
