package parquet

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/zeebo/xxh3"

	"github.com/penstock-data/penstock/load/parquet/encode"
	"github.com/penstock-data/penstock/schemas"
)

// If sources share a table of a catalog, readers see one table. So all writers must use the same field IDs for its
// columns, and its files must have a source column.

// byName marks a table whose field IDs are derived from the names and types of its columns. If two sources
// add a column at the same time, both then give it the same ID.
const byName = -1

// numbersByName is the limit of field IDs by name. Other engines assign IDs above the table's highest ID, so they
// need the numbers above the limit.
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

func (w *writer) withSource(columns []arrow.Array, rows int) (all []arrow.Array, free func()) {
	if w.t.owner == "" {
		return columns, func() {}
	}
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(rows)
	b.ReserveData(rows * len(w.t.owner))
	for range rows {
		b.Append(w.t.owner)
	}
	names := b.NewArray()
	return append(columns[:len(columns):len(columns)], names), names.Release
}
