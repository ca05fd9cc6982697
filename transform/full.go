package transform

import "fmt"

// A row takes space in every column of its table, however few bytes it has in the page. So the columns
// of a batch may take a thousand times the size of the page, and a batch ends when they are full. A
// record is rejected only if it is too large by itself; other records do not matter. Invariants 1 and 6

const (
	fullBytes      = 32 << 20  // size of the columns at which a batch ends
	maxColumnBytes = 128 << 20 // size of the columns that one record may take
	measuredRows   = 256       // rows between two measurements
	childRowBytes  = 40        // size of penstock's own columns in a row of a child table, about
)

// capacity limits the columns of a mapper.
type capacity struct {
	batch, record int64 // bytes
	rows          int   // rows between two measurements
}

var tooWide = fmt.Sprintf("its rows take more than %d MiB in the columns of their table; lower max_columns of the stream", maxColumnBytes>>20)

// overflows reports whether the columns are too large. Within a record, it sets m.full if the record
// must wait for the next batch.
func (m *Mapper) overflows() bool {
	if m.unmeasured++; m.unmeasured < m.capacity.rows {
		return false
	}
	m.unmeasured = 0
	if m.root.rows == 0 {
		return m.columnBytes() > m.capacity.record
	}
	m.full = !m.rereading && m.columnBytes() > m.capacity.batch
	return m.full
}

// columnBytes returns the size of the columns. It includes rows without a value, which take space in a
// batch. A column whose type was widened counts with its new size. The rows of child tables count with penstock's
// own columns, because one short record may have thousands of them.
func (m *Mapper) columnBytes() (n int64) {
	m.root.each(func(t *table) {
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
