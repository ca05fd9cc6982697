package transform

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// Types are widened by single values, but a text column must hold every value as written, including values that were
// stored as numbers or instants before. So stored values are not converted: the mapper keeps the pages of the batch,
// and after a page in which a type was widened, it reads all of them again with the new types. A type can be widened
// only a few times, so this ends. Once the types fit all values, it does not happen any more.

// change records the state before a type was widened, to restore it if the record or page is not kept.
type change struct {
	column *column
	typ    arrow.DataType
	kind   kind
	n      int
	empty  bool
}

// widen widens the type of c to t.
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

// checkpoint is a state to which the mapper can return.
type checkpoint struct {
	changes, rejects, cuts, admitted int
	stale                            bool
}

func (m *Mapper) mark() checkpoint {
	return checkpoint{len(m.changes), len(m.rejects), len(m.cuts), len(m.bound.admitted), m.stale}
}

// undo restores types and rejects as of k, and removes the rows of t from row on.
func (m *Mapper) undo(k checkpoint, t *table, row int) {
	for i := len(m.changes) - 1; i >= k.changes; i-- {
		c := m.changes[i]
		m.layout++
		c.column.typ = c.typ
		if c.column.kind == kindStale {
			c.column.kind, c.column.n = c.kind, c.n
		} else {
			c.column.settle() // the column had no rows
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

// rebuild reads the pages of the batch again until no type is widened any more.
func (m *Mapper) rebuild() {
	m.rereading = true
	defer func() { m.rereading = false }()
	for m.stale {
		m.stale = false
		m.changes, m.bound.admitted = m.changes[:0], m.bound.admitted[:0]
		m.clear()
		for _, p := range m.pages {
			// It cannot fail: the page was valid the first time.
			_, _ = m.page(p)
		}
	}
}
