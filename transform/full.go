package transform

import "fmt"

// A row takes space in every column that has a value in the batch, even if the row has few bytes in
// the page. So the columns of a batch may take a thousand times the size of the page, and a batch
// ends when its columns are full. A record is rejected only if its own rows take too much space,
// whatever the other records of the batch are. Invariants 1 and 6

const (
	fullBytes      = 32 << 20  // size of the columns at which a batch ends
	maxColumnBytes = 128 << 20 // size of the columns that one record may take
	measuredRows   = 256       // rows between two measurements
	childRowBytes  = 40        // about what penstock's own columns take per row of a child table
	elementBytes   = 24        // about what a destination takes per element of a list, besides the element's value
)

type capacity struct {
	batch, record int64 // bytes that a batch or one record may take
	rows          int
}

var tooWide = fmt.Sprintf("its rows take more than %d MiB in the columns of their table; lower max_columns of the stream", maxColumnBytes>>20)

// overflows measures the columns every m.capacity.rows rows. If the batch already has other records, it also sets
// m.full, and the current record waits for the next batch. While the pages are read again, such a batch never counts
// as too large.
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

// columnBytes counts a column with a value also for the rows without one, and a column whose type was widened with
// its new size. Child tables count with penstock's own columns, because one short record may have thousands of child
// rows.
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
