package transform

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// A single value can widen the type of a column. A text column must hold every value as the source spelled it, also
// values that were stored as numbers or instants before. So stored values are not converted. Instead, the mapper
// keeps the pages of the batch. If a page widens the type of a column with values, the mapper reads all pages again
// with the new types. This ends, because a type can be widened only a few times.

// change is the state of a column before its type was widened. undo restores it.
type change struct {
	column *column
	typ    arrow.DataType
	kind   kind
	n      int
	empty  bool
}

func (m *Mapper) widen(c *column, t arrow.DataType) {
	if schemas.SameType(c.typ, t) {
		return
	}
	if kindOf(c.typ) == kindNone && kindOf(t) != kindNone && !m.bound.admit(c) {
		m.bound.exceeded = true
	}
	m.changes = append(m.changes, change{c, c.typ, c.kind, c.n, c.empty})
	m.layout++
	c.typ = t
	if c.kind == kindStale {
		return
	}
	if c.n > 0 || c.empty && kindOf(t) != kindNone {
		c.kind = kindStale
		m.stale = true
		return
	}
	empty := c.empty
	c.settle()
	c.empty = empty
}

type checkpoint struct {
	changes, rejects, cuts, admitted int
	stale                            bool
}

func (m *Mapper) mark() checkpoint {
	return checkpoint{len(m.changes), len(m.rejects), len(m.cuts), len(m.bound.admitted), m.stale}
}

// undo restores the types and rejects of the checkpoint k. It removes row and all later rows of t.
func (m *Mapper) undo(k checkpoint, t *table, row int) {
	for i := len(m.changes) - 1; i >= k.changes; i-- {
		c := m.changes[i]
		m.layout++
		c.column.typ = c.typ
		if c.column.kind == kindStale {
			c.column.kind, c.column.n = c.kind, c.n
		} else {
			c.column.settle() // the column has no rows
		}
		c.column.empty = c.empty
	}
	m.changes = m.changes[:k.changes]
	m.rejects = m.rejects[:k.rejects]
	m.cuts = m.cuts[:k.cuts]
	m.bound.dismiss(k.admitted)
	m.stale = k.stale
	t.truncate(row)
}

// rebuild reads the pages of the batch again, until a reading widens no type.
func (m *Mapper) rebuild() {
	m.rereading = true
	defer func() { m.rereading = false }()
	for m.stale {
		m.stale = false
		m.changes, m.bound.admitted = m.changes[:0], m.bound.admitted[:0]
		m.clear()
		for _, p := range m.pages {
			// The error is always nil, because the page was valid when it was first read.
			_, _ = m.page(p)
		}
	}
}
