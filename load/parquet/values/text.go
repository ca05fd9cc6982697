package values

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// AppendText appends a value that is not null, as text.
func AppendText(dst []byte, a arrow.Array, i int) []byte {
	switch a := a.(type) {
	case *array.String:
		return append(dst, a.Value(i)...)
	case *array.Int64:
		return strconv.AppendInt(dst, a.Value(i), 10)
	case *array.Boolean:
		return strconv.AppendBool(dst, a.Value(i))
	case *array.Float64:
		return strconv.AppendFloat(dst, a.Value(i), 'g', -1, 64)
	case *array.Decimal128:
		return append(dst, a.Value(i).ToString(a.DataType().(*arrow.Decimal128Type).Scale)...)
	case *array.Date32:
		return a.Value(i).ToTime().AppendFormat(dst, time.DateOnly)
	case *array.Timestamp:
		return appendInstant(dst, int64(a.Value(i)))
	}
	return append(dst, a.ValueStr(i)...)
}

// appendInstant appends a time, given in microseconds. If the time has a fraction of a second, six digits of the
// fraction are written.
func appendInstant(dst []byte, micros int64) []byte {
	layout := "2006-01-02T15:04:05Z"
	if micros%1_000_000 != 0 {
		layout = "2006-01-02T15:04:05.000000Z"
	}
	return time.UnixMicro(micros).UTC().AppendFormat(dst, layout)
}

// AppendJSON appends a value of type t as JSON.
func AppendJSON(dst []byte, a arrow.Array, t arrow.DataType, i int) []byte {
	if a.IsNull(i) {
		return append(dst, "null"...)
	}
	switch a := a.(type) {
	case *array.String:
		if schemas.SameType(t, schemas.JSON) {
			return append(dst, a.Value(i)...)
		}
		return load.AppendQuoted(dst, a.Value(i))
	case *array.Date32, *array.Timestamp:
		dst = append(dst, '"')
		return append(AppendText(dst, a, i), '"')
	case *array.List:
		elem := t.(*arrow.ListType).Elem()
		from, to := a.ValueOffsets(i)
		dst = append(dst, '[')
		for j := from; j < to; j++ {
			if j > from {
				dst = append(dst, ',')
			}
			dst = AppendJSON(dst, a.ListValues(), elem, int(j))
		}
		return append(dst, ']')
	}
	return AppendText(dst, a, i)
}

// AppendValid is like AppendJSON, for values in a document. If a value of a JSON column is not valid JSON, it is
// written as a string.
func AppendValid(dst []byte, a arrow.Array, t arrow.DataType, i int) []byte {
	if s, ok := a.(*array.String); ok && s.IsValid(i) && schemas.SameType(t, schemas.JSON) && !json.Valid([]byte(s.Value(i))) {
		return load.AppendQuoted(dst, s.Value(i))
	}
	return AppendJSON(dst, a, t, i)
}
