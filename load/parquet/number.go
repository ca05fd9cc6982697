package parquet

import (
	"maps"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load/parquet/encode"
	"github.com/penstock-data/penstock/schemas"
)

// number gives each column a field ID. A column keeps its ID if [stays] allows it. An ID that a column had is never
// given to another one.
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
