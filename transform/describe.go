package transform

import (
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

func (s *tableSet) describe(t *table) schemas.Table {
	if t.layout != s.version {
		t.schema = s.schemaOf(t)
		t.layout = s.version
	}
	key := s.stream.Key
	if t.parent != nil {
		key = []string{schemas.ColParent, schemas.ColIndex}
	}
	return schemas.Table{Name: t.name, Key: key, Columns: t.schema, Mode: s.stream.Mode}
}

func (s *tableSet) schemaOf(t *table) *arrow.Schema {
	var fields []arrow.Field
	for _, c := range t.columns {
		if c.kind != kindNone {
			f := schemas.Field(c.name, c.typ, c.source)
			fields = append(fields, schemas.WithDescription(f, s.stream.Descriptions[schemas.Column(t.path+c.source)]))
		}
	}
	return s.withOwnColumns(t, fields)
}

func (s *tableSet) withOwnColumns(t *table, fields []arrow.Field) *arrow.Schema {
	fields = append(fields, ownFields(t.level, s.key.typ())...)
	keys, values := []string{schemas.SourceKey}, []string{t.place}
	if t.parent == nil && s.stream.Description != "" {
		keys, values = append(keys, schemas.DescriptionKey), append(values, s.stream.Description)
	}
	md := arrow.NewMetadata(keys, values)
	return arrow.NewSchema(fields, &md)
}

// declaredTable returns the root table of a stream that has had no records yet. The table has the declared columns. It
// leaves out paths with __, because those columns could belong to a child table.
func (s *tableSet) declaredTable() schemas.Table {
	var fields []arrow.Field
	for _, path := range slices.Sorted(maps.Keys(s.declared)) {
		if !strings.Contains(path, "__") {
			f := schemas.Field(path, s.declared[path], "/"+path)
			fields = append(fields, schemas.WithDescription(f, s.stream.Descriptions[path]))
		}
	}
	return schemas.Table{Name: s.root.name, Key: s.stream.Key, Columns: s.withOwnColumns(s.root, fields), Mode: s.stream.Mode}
}
