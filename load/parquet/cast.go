package parquet

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/schemas"
)

// cast returns the values of a with another type. The caller releases the result.
func cast(a arrow.Array, from, to arrow.DataType) arrow.Array {
	if schemas.SameType(from, to) {
		return retyped(a, stored(to))
	}
	list, isList := from.(*arrow.ListType)
	switch to := to.(type) {
	case *schemas.JSONType:
		if from.ID() != arrow.NULL {
			return render(a, func(dst []byte, i int) []byte { return appendJSON(dst, a, from, i) })
		}
	case *arrow.StringType:
		if from.ID() != arrow.NULL && !isList {
			return render(a, func(dst []byte, i int) []byte { return appendText(dst, a, i) })
		}
	case *arrow.ListType:
		if isList {
			return castList(a.(*array.List), list.Elem(), to)
		}
	case *arrow.Decimal128Type:
		switch from := from.(type) {
		case *arrow.Int64Type:
			return toDecimal(a, to, 0, func(i int) decimal128.Num { return decimal128.FromI64(a.(*array.Int64).Value(i)) })
		case *arrow.Decimal128Type:
			return toDecimal(a, to, from.Scale, a.(*array.Decimal128).Value)
		}
	}
	// The source column has only nulls, or empty lists where the target type has no lists.
	return array.MakeArrayOfNull(memory.DefaultAllocator, stored(to), a.Len())
}

func stored(t arrow.DataType) arrow.DataType {
	if schemas.SameType(t, schemas.JSON) {
		return schemas.Text
	}
	return t
}

func render(a arrow.Array, value func(dst []byte, i int) []byte) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(a.Len())
	var buf []byte
	for i := range a.Len() {
		if a.IsNull(i) {
			b.AppendNull()
			continue
		}
		buf = value(buf[:0], i)
		b.BinaryBuilder.Append(buf)
	}
	return b.NewArray()
}

func castList(a *array.List, from arrow.DataType, to *arrow.ListType) arrow.Array {
	values := cast(a.ListValues(), from, to.Elem())
	defer values.Release()
	d := a.Data()
	data := array.NewData(to, d.Len(), d.Buffers(), []arrow.ArrayData{values.Data()}, d.NullN(), d.Offset())
	defer data.Release()
	return array.MakeFromData(data)
}

func toDecimal(a arrow.Array, to *arrow.Decimal128Type, scale int32, value func(int) decimal128.Num) arrow.Array {
	b := array.NewDecimal128Builder(memory.DefaultAllocator, to)
	defer b.Release()
	b.Reserve(a.Len())
	for i := range a.Len() {
		if a.IsNull(i) {
			b.AppendNull()
		} else {
			b.Append(value(i).IncreaseScaleBy(to.Scale - scale))
		}
	}
	return b.NewArray()
}

// shape returns the columns in the order and with the types of the table. In a history table, missing validity
// columns are filled with the times when a row was synced and deleted. Other missing columns are null. The caller
// releases the result.
func (t *table) shape(columns []arrow.Array, from *arrow.Schema, rows int) ([]arrow.Array, error) {
	out := make([]arrow.Array, len(t.Columns))
	for i, f := range t.schema.Fields() {
		at := from.FieldIndices(f.Name)
		if len(at) == 0 {
			switch f.Name {
			case schemas.ColValidFrom:
				at = from.FieldIndices(schemas.ColSyncedAt)
			case schemas.ColValidTo:
				at = from.FieldIndices(schemas.ColDeletedAt)
			}
		}
		switch len(at) {
		case 0:
			out[i] = array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, rows)
		case 1:
			out[i] = cast(columns[at[0]], schemas.TypeOf(from.Field(at[0])), schemas.TypeOf(f))
		default:
			release(out[:i])
			return nil, fmt.Errorf("table %s: %d columns are called %q", t.Name, len(at), f.Name)
		}
	}
	return out, nil
}
