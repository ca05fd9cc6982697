package values

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/schemas"
)

// Stamp returns a copy of a column of timestamps, in which some rows have new values. The keys of the map are the
// indexes of these rows.
func Stamp(a arrow.Array, values map[int]int64) arrow.Array {
	b := array.NewTimestampBuilder(memory.DefaultAllocator, schemas.Timestamp.(*arrow.TimestampType))
	defer b.Release()
	b.Reserve(a.Len())
	old, _ := a.(*array.Timestamp)
	for i := range a.Len() {
		switch at, ok := values[i]; {
		case ok:
			b.Append(arrow.Timestamp(at))
		case a.IsNull(i):
			b.AppendNull()
		default:
			b.Append(old.Value(i))
		}
	}
	return b.NewArray()
}

// Lattice returns penstock's type for a column that has the type t in a file. It returns nil if penstock does not write
// columns of the type t.
func Lattice(t arrow.DataType) arrow.DataType {
	switch t := t.(type) {
	case *arrow.BooleanType, *arrow.Int64Type, *arrow.Float64Type, *arrow.Decimal128Type, *arrow.Date32Type, *arrow.StringType:
		return t
	case *arrow.TimestampType:
		if t.Unit == arrow.Microsecond && t.TimeZone == "UTC" {
			return schemas.Timestamp
		}
	case *arrow.ListType:
		if elem := Lattice(t.Elem()); elem != nil && elem.ID() != arrow.LIST {
			return arrow.ListOf(elem)
		}
	}
	return nil
}
