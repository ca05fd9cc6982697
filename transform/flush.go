package transform

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

func (m *Mapper) batches() []TableBatch {
	root, key := m.tables.root, &m.tables.key
	var below []*lineage
	for _, child := range root.children {
		below = lineages(below, child, nil)
	}
	longest := root.rows
	if len(below) > 0 {
		keys := key.column(&m.own, root.rows)
		for _, l := range below {
			l.finish(&m.own, keys)
			longest = max(longest, l.table.rows)
		}
		if !key.plain() {
			keys.free()
		}
	}
	m.fixed.reserve(longest)

	rows := root.rows
	own := append(m.fixed.slice(m.own.hash.finish(rows), rows), m.own.ordinal.finish(rows))
	batches := []TableBatch{m.batch(root, own)}
	for _, l := range below {
		own := append(m.fixed.slice(l.hash, l.table.rows), l.own...)
		batches = append(batches, m.batch(l.table, own))
	}
	return batches
}

func (m *Mapper) batch(t *table, own []arrow.Array) TableBatch {
	arrays := make([]arrow.Array, 0, len(t.columns)+len(own))
	for _, c := range t.columns {
		switch {
		case c.kind == kindNone:
		case c.n == 0 && t.rows > 0:
			arrays = append(arrays, m.emptyColumns.array(c, t.rows))
		default:
			arrays = append(arrays, c.finish(t.rows))
		}
	}
	arrays = append(arrays, own...)
	d := m.tables.describe(t)
	b := array.NewRecordBatch(d.Columns, arrays, int64(t.rows))
	for _, a := range arrays {
		a.Release()
	}
	return TableBatch{Table: d, Batch: b}
}
