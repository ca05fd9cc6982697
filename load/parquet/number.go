package parquet

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/zeebo/xxh3"

	"github.com/penstock-data/penstock/load/parquet/encode"
	"github.com/penstock-data/penstock/schemas"
)

// number gives each column a field ID. A column keeps its ID if the function [stays] accepts the change of its type. An
// ID that a column had is never given to another column.
func (t *table) number(before []columnEntry) {
	if t.Numbered == byName {
		t.numberByName()
		return
	}
	for i := range t.Columns {
		c := &t.Columns[i]
		at := slices.IndexFunc(before, func(b columnEntry) bool { return b.Name == c.Name })
		if at >= 0 && stays(before[at].Type, c.Type) {
			c.ID, c.Element = before[at].ID, before[at].Element
			continue
		}
		t.Numbered++
		c.ID, c.Element = t.Numbered, 0
		if _, list := encode.Element(schemas.TypeOf(t.schema.Field(i))); list {
			t.Numbered++
			c.Element = t.Numbered
		}
	}
}

func stays(from, to string) bool {
	a, err := schemas.ParseTypeName(from)
	if err != nil {
		return false
	}
	b, err := schemas.ParseTypeName(to)
	return err == nil && promotes(a, b)
}

func promotes(a, b arrow.DataType) bool {
	if schemas.SameType(a, b) {
		return true
	}
	switch x := a.(type) {
	case *arrow.ListType:
		y, ok := b.(*arrow.ListType)
		return ok && promotes(x.Elem(), y.Elem())
	case *arrow.Decimal128Type:
		y, ok := b.(*arrow.Decimal128Type)
		return ok && x.Scale == y.Scale && x.Precision <= y.Precision
	}
	return textual(a) && textual(b)
}

func textual(t arrow.DataType) bool {
	return schemas.SameType(t, schemas.Text) || schemas.SameType(t, schemas.JSON)
}

func (t *table) numbers(s *arrow.Schema) *arrow.Schema {
	if t.Numbered == 0 {
		return s
	}
	fields := s.Fields()
	for i, c := range t.Columns {
		if of, list := encode.Element(fields[i].Type); list {
			fields[i].Type = arrow.ListOfField(numbered(arrow.Field{Name: "element", Type: of, Nullable: true}, c.Element))
		}
		fields[i] = numbered(fields[i], c.ID)
	}
	md := s.Metadata()
	return arrow.NewSchema(fields, &md)
}

func numbered(f arrow.Field, n int) arrow.Field {
	md := map[string]string{numberKey: strconv.Itoa(n)}
	maps.Copy(md, f.Metadata.ToMap())
	f.Metadata = arrow.MetadataFrom(md)
	return f
}

// If sources share a table of a catalog, readers see one table. So all writers must use the same field IDs for the
// table's columns, and the table's files must have a source column.
//
// byName marks a table whose field IDs are derived from the names and types of its columns. If two sources
// add a column at the same time, both then give it the same ID.
const byName = -1

// numbersByName is the limit of the field IDs that are derived from names. Other engines assign IDs above the table's
// highest ID, so the numbers above the limit are left to them.
const numbersByName = 1 << 30

func (t *table) numberByName() {
	for i := range t.Columns {
		c := &t.Columns[i]
		of := schemas.TypeOf(t.schema.Field(i))
		c.ID, c.Element = numberFor(c.Name, of), 0
		if elem, list := encode.Element(of); list {
			c.Element = numberFor(c.Name+"\x00", elem)
		}
	}
}

// numberFor returns the field ID of a column. Two types get the same ID if a catalog can widen one to the other
// without a rewrite: see [promotes].
func numberFor(name string, t arrow.DataType) int {
	return 1 + int(xxh3.HashString(name+"\x00"+kindOf(t))%numbersByName)
}

func kindOf(t arrow.DataType) string {
	switch x := t.(type) {
	case *arrow.ListType:
		return "list of " + kindOf(x.Elem())
	case *arrow.Decimal128Type:
		return fmt.Sprint("decimal of scale ", x.Scale)
	}
	if textual(t) {
		return "text"
	}
	return schemas.TypeName(t)
}

func sourceField() arrow.Field {
	return numbered(arrow.Field{Name: schemas.ColSource, Type: schemas.Text, Nullable: true}, numberFor(schemas.ColSource, schemas.Text))
}

func (t *table) fileSchema() *arrow.Schema {
	s := t.numbers(withoutMetadata(t.schema))
	if t.owner == "" {
		return s
	}
	md := s.Metadata()
	return arrow.NewSchema(append(s.Fields(), sourceField()), &md)
}

func (t *table) catalogSchema() *arrow.Schema {
	s := t.numbers(t.schema)
	if t.owner == "" {
		return s
	}
	md := s.Metadata()
	return arrow.NewSchema(append([]arrow.Field{sourceField()}, s.Fields()...), &md)
}
