package transform

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// A type grows by looking at values one at a time, yet a column of text has to
// hold every value as it was written, those too which were stored as numbers
// or instants before. So nothing stored is converted: the pages of the batch
// are kept as they came, and once the page is read in which some type grew, all
// of them are read again in the types known by then. Types are a lattice of
// bounded height, so this ends, and in the steady state it never begins.

// change is one growth of a type, to be taken back if the record or page that
// caused it is not kept.
type change struct {
	column *column
	typ    arrow.DataType
	kind   kind
	n      int
	empty  bool
}

// widen gives c the type t.
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

// checkpoint is a point to which the mapper can go back.
type checkpoint struct {
	changes, rejects, cuts, admitted int
	stale                            bool
}

func (m *Mapper) mark() checkpoint {
	return checkpoint{len(m.changes), len(m.rejects), len(m.cuts), len(m.bound.admitted), m.stale}
}

// undo takes back what types and rejects have become since k, for row of t and
// what comes after it.
func (m *Mapper) undo(k checkpoint, t *table, row int) {
	for i := len(m.changes) - 1; i >= k.changes; i-- {
		c := m.changes[i]
		m.layout++
		c.column.typ = c.typ
		if c.column.kind == kindStale {
			c.column.kind, c.column.n = c.kind, c.n
		} else {
			c.column.settle() // it had no rows
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

// rebuild reads the pages of the batch again until no type grows any more.
func (m *Mapper) rebuild() {
	m.again = true
	defer func() { m.again = false }()
	for m.stale {
		m.stale = false
		m.changes, m.bound.admitted = m.changes[:0], m.bound.admitted[:0]
		m.clear()
		for _, p := range m.pages {
			// It was valid the first time, so it is now.
			_, _ = m.page(p)
		}
	}
}
