package transform

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// A single value can widen the type of a column. A text column must hold every value as the source spelled it. This
// includes values that were stored as numbers or instants before. So stored values are not converted. Instead, the
// mapper keeps the pages of the batch. If a page widens the type of a column with values, the mapper reads all pages
// again with the new types. The repetition ends, because a type can be widened only a few times.

// change is the state of a column before its type was widened. The method undo() restores this state.
type change struct {
	column *column
	typ    arrow.DataType
	kind   kind
	n      int
	empty  bool
}

func (s *tableSet) widen(c *column, t arrow.DataType) {
	if schemas.SameType(c.typ, t) {
		return
	}
	if kindOf(c.typ) == kindNone && kindOf(t) != kindNone && !s.bound.admit(c) {
		s.bound.exceeded = true
	}
	s.changes = append(s.changes, change{c, c.typ, c.kind, c.n, c.empty})
	s.version++
	c.typ = t
	if c.kind == kindStale {
		return
	}
	if c.n > 0 || c.empty && kindOf(t) != kindNone {
		c.kind = kindStale
		s.stale = true
		return
	}
	empty := c.empty
	c.settle()
	c.empty = empty
}

// undo restores the types of the checkpoint k.
func (s *tableSet) undo(k checkpoint) {
	for i := len(s.changes) - 1; i >= k.changes; i-- {
		c := s.changes[i]
		s.version++
		c.column.typ = c.typ
		if c.column.kind == kindStale {
			c.column.kind, c.column.n = c.kind, c.n
		} else {
			c.column.settle() // the column has no rows
		}
		c.column.empty = c.empty
	}
	s.changes = s.changes[:k.changes]
	s.bound.dismiss(k.admitted)
	s.stale = k.stale
}

// forget drops the list of changes, so that undo() can no longer restore the earlier types.
func (s *tableSet) forget() { s.changes, s.bound.admitted = s.changes[:0], s.bound.admitted[:0] }

// rebuild reads the pages of the batch again, until a reading widens no type.
func (m *Mapper) rebuild() {
	m.read.rereading = true
	defer func() { m.read.rereading = false }()
	for m.tables.stale {
		m.tables.stale = false
		m.tables.forget()
		m.clear()
		for _, p := range m.pages {
			// The error is always nil, because the page was valid when it was first read.
			_, _ = m.page(p)
		}
	}
}
