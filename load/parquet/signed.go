package parquet

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/zeebo/xxh3"

	"github.com/penstock-data/penstock/schemas"
)

// A table of a catalog that sources share is one for all who read it: its columns
// must have the same numbers whoever writes, and its files say whose rows they
// hold.

// byName stands for the numbers of columns that their names and types give them:
// two sources that have a new column at once need not meet to give it the same.
const byName = -1

// numbersByName is how many there are. It leaves room for those that other engines
// give, which count on from the highest.
const numbersByName = 1 << 30

func (t *table) numberByName() {
	for i := range t.Columns {
		c := &t.Columns[i]
		of := schemas.TypeOf(t.schema.Field(i))
		c.ID, c.Element = numberFor(c.Name, of), 0
		if elem, list := element(of); list {
			c.Element = numberFor(c.Name+"\x00", elem)
		}
	}
}

// numberFor is the number of a column of that name, or of its elements. Types that
// a catalog takes for one another's wider form share it: see [promotes].
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

// sourceField is the column that tells whose a row is.
func sourceField() arrow.Field {
	return numbered(arrow.Field{Name: schemas.ColSource, Type: schemas.Text, Nullable: true}, numberFor(schemas.ColSource, schemas.Text))
}

// bare is the schema that files of the table are written with.
func (t *table) bare() *arrow.Schema {
	s := t.numbers(bare(t.schema))
	if t.owner == "" {
		return s
	}
	md := s.Metadata()
	return arrow.NewSchema(append(s.Fields(), sourceField()), &md)
}

// listed are the columns of the table as a catalog is told of them.
func (t *table) listed() *arrow.Schema {
	s := t.numbers(t.schema)
	if t.owner == "" {
		return s
	}
	md := s.Metadata()
	return arrow.NewSchema(append([]arrow.Field{sourceField()}, s.Fields()...), &md)
}

// signed are the columns of some rows, with the one that tells whose they are
// where the table's files have it. free gives that one up.
func (w *writer) signed(columns []arrow.Array, rows int) (all []arrow.Array, free func()) {
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
