package parquet

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/schemas"
)

// appendText appends the value i of a column, which is not null, as a column of
// text holds it.
func appendText(dst []byte, a arrow.Array, i int) []byte {
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

// appendInstant appends a time given in microseconds, with six digits of
// fraction where there is one.
func appendInstant(dst []byte, micros int64) []byte {
	layout := "2006-01-02T15:04:05Z"
	if micros%1_000_000 != 0 {
		layout = "2006-01-02T15:04:05.000000Z"
	}
	return time.UnixMicro(micros).UTC().AppendFormat(dst, layout)
}

// appendJSON appends the value i of a column of the lattice's type t as JSON.
func appendJSON(dst []byte, a arrow.Array, t arrow.DataType, i int) []byte {
	if a.IsNull(i) {
		return append(dst, "null"...)
	}
	switch a := a.(type) {
	case *array.String:
		if schemas.SameType(t, schemas.JSON) {
			return append(dst, a.Value(i)...)
		}
		return appendQuoted(dst, a.Value(i))
	case *array.Date32, *array.Timestamp:
		dst = append(dst, '"')
		return append(appendText(dst, a, i), '"')
	case *array.List:
		elem := t.(*arrow.ListType).Elem()
		from, to := a.ValueOffsets(i)
		dst = append(dst, '[')
		for j := from; j < to; j++ {
			if j > from {
				dst = append(dst, ',')
			}
			dst = appendJSON(dst, a.ListValues(), elem, int(j))
		}
		return append(dst, ']')
	}
	return appendText(dst, a, i)
}

// appendValid is appendJSON for a document: a column of JSON may hold what is
// none, and that becomes a text.
func appendValid(dst []byte, a arrow.Array, t arrow.DataType, i int) []byte {
	if s, ok := a.(*array.String); ok && s.IsValid(i) && schemas.SameType(t, schemas.JSON) && !json.Valid([]byte(s.Value(i))) {
		return appendQuoted(dst, s.Value(i))
	}
	return appendJSON(dst, a, t, i)
}

const hexDigits = "0123456789abcdef"

// appendQuoted appends a text as JSON, escaping only what must be: the one
// spelling that links to records with keys of several columns have.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			if c < ' ' {
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			} else {
				dst = append(dst, c)
			}
		}
	}
	return append(dst, '"')
}
