// Package values converts Arrow values: to wider types, to text and to JSON.
package values

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/schemas"
)

// Cast converts the array a to another type. The caller releases the result.
func Cast(a arrow.Array, from, to arrow.DataType) arrow.Array {
	if schemas.SameType(from, to) {
		return Retype(a, stored(to))
	}
	list, isList := from.(*arrow.ListType)
	switch to := to.(type) {
	case *schemas.JSONType:
		if from.ID() != arrow.NULL {
			return Render(a, func(dst []byte, i int) []byte { return AppendJSON(dst, a, from, i) })
		}
	case *arrow.StringType:
		if from.ID() != arrow.NULL && !isList {
			return Render(a, func(dst []byte, i int) []byte { return AppendText(dst, a, i) })
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
	// The given array has only nulls, or it has empty lists and the target type is not a list.
	return array.MakeArrayOfNull(memory.DefaultAllocator, stored(to), a.Len())
}

func stored(t arrow.DataType) arrow.DataType {
	if schemas.SameType(t, schemas.JSON) {
		return schemas.Text
	}
	return t
}

// Render returns a text for each value that is not null. The given function appends the text of the value at index i.
// The caller releases the result.
func Render(a arrow.Array, value func(dst []byte, i int) []byte) arrow.Array {
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
	values := Cast(a.ListValues(), from, to.Elem())
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

// Retype returns the array a with the type t. The two types may differ only in the name of a list's elements and in the
// precision of a decimal. Files may differ from their table in these two ways.
func Retype(a arrow.Array, t arrow.DataType) arrow.Array {
	if t.ID() != arrow.LIST && (t.ID() != arrow.DECIMAL128 || arrow.TypeEqual(t, a.DataType())) {
		a.Retain()
		return a
	}
	d := a.Data()
	data := array.NewData(t, d.Len(), d.Buffers(), d.Children(), d.NullN(), d.Offset())
	defer data.Release()
	return array.MakeFromData(data)
}
