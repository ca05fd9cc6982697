package transform

import (
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/schemas"
)

func (m *Mapper) describe(t *table) schemas.Table {
	if t.layout != m.layout {
		t.schema = m.schemaOf(t)
		t.layout = m.layout
	}
	key := m.stream.Key
	if t.parent != nil {
		key = []string{schemas.ColParent, schemas.ColIndex}
	}
	return schemas.Table{Name: t.name, Key: key, Columns: t.schema, Mode: m.stream.Mode}
}

func (m *Mapper) schemaOf(t *table) *arrow.Schema {
	var fields []arrow.Field
	for _, c := range t.columns {
		if c.kind != kindNone {
			f := schemas.Field(c.name, c.typ, c.source)
			fields = append(fields, schemas.WithDescription(f, m.stream.Descriptions[schemas.Column(t.path+c.source)]))
		}
	}
	return m.withOwnColumns(t, fields)
}

func (m *Mapper) withOwnColumns(t *table, fields []arrow.Field) *arrow.Schema {
	fields = append(fields, ownFields(t.level, m.keyType())...)
	keys, values := []string{schemas.SourceKey}, []string{t.place}
	if t.parent == nil && m.stream.Description != "" {
		keys, values = append(keys, schemas.DescriptionKey), append(values, m.stream.Description)
	}
	md := arrow.NewMetadata(keys, values)
	return arrow.NewSchema(fields, &md)
}

// declaredTable returns the root table of a stream without any records, with its declared columns. It leaves out
// paths with __, because those columns could belong to a child table.
func (m *Mapper) declaredTable() schemas.Table {
	var fields []arrow.Field
	for _, path := range slices.Sorted(maps.Keys(m.declared)) {
		if !strings.Contains(path, "__") {
			f := schemas.Field(path, m.declared[path], "/"+path)
			fields = append(fields, schemas.WithDescription(f, m.stream.Descriptions[path]))
		}
	}
	return schemas.Table{Name: m.root.name, Key: m.stream.Key, Columns: m.withOwnColumns(m.root, fields), Mode: m.stream.Mode}
}

func (m *Mapper) batches() []TableBatch {
	var below []*lineage
	for _, child := range m.root.children {
		below = m.lineages(below, child, nil)
	}
	longest := m.root.rows
	if len(below) > 0 {
		keys := m.rootKeys()
		for _, l := range below {
			l.finish(m, keys)
			longest = max(longest, l.table.rows)
		}
		if len(m.key) != 1 || keys != m.key[0] {
			keys.free()
		}
	}
	m.fixed.reserve(longest)

	rows := m.root.rows
	own := append(m.fixed.slice(m.own.hash.finish(rows), rows), m.own.ordinal.finish(rows))
	batches := []TableBatch{m.batch(m.root, own)}
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
	d := m.describe(t)
	b := array.NewRecordBatch(d.Columns, arrays, int64(t.rows))
	for _, a := range arrays {
		a.Release()
	}
	return TableBatch{Table: d, Batch: b}
}
