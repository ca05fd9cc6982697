package sqlite

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// encoder returns a function for the stored value of each row of a column whose type is from. The value has the wider
// type to.
func encoder(a arrow.Array, from, to arrow.DataType) (func(row int) any, error) {
	if !schemas.SameType(from, to) {
		return func(row int) any {
			if a.IsNull(row) {
				return nil
			}
			return stored(widen(document(a, from, row), from, to), to)
		}, nil
	}
	var value func(row int) any
	switch a := a.(type) {
	case *array.Boolean:
		value = func(row int) any { return a.Value(row) }
	case *array.Int64:
		value = func(row int) any { return a.Value(row) }
	case *array.Float64:
		value = func(row int) any { return a.Value(row) }
	case *array.String:
		value = func(row int) any { return a.Value(row) }
	case *array.Decimal128:
		scale := to.(*arrow.Decimal128Type).Scale
		value = func(row int) any { return a.Value(row).ToString(scale) }
	case *array.Date32:
		value = func(row int) any { return a.Value(row).ToTime().Format(time.DateOnly) }
	case *array.Timestamp:
		value = func(row int) any { return time.UnixMicro(int64(a.Value(row))).UTC().Format(stamp) }
	case *array.List:
		value = func(row int) any { return document(a, from, row) }
	default:
		return nil, fmt.Errorf("cannot store %s", a.DataType())
	}
	return func(row int) any {
		if a.IsNull(row) {
			return nil
		}
		return value(row)
	}, nil
}

// document returns a value of type t as JSON.
func document(a arrow.Array, t arrow.DataType, row int) string {
	if a.IsNull(row) {
		return "null"
	}
	switch a := a.(type) {
	case *array.Boolean:
		return strconv.FormatBool(a.Value(row))
	case *array.Int64:
		return strconv.FormatInt(a.Value(row), 10)
	case *array.Float64:
		return strconv.FormatFloat(a.Value(row), 'g', -1, 64)
	case *array.Decimal128:
		return a.Value(row).ToString(t.(*arrow.Decimal128Type).Scale)
	case *array.Date32:
		return `"` + a.Value(row).ToTime().Format(time.DateOnly) + `"`
	case *array.Timestamp:
		text := time.UnixMicro(int64(a.Value(row))).UTC().Format(stamp)
		return `"` + strings.Replace(text, ".000000Z", "Z", 1) + `"`
	case *array.List:
		from, to := a.ValueOffsets(row)
		items := make([]string, 0, to-from)
		for i := from; i < to; i++ {
			items = append(items, document(a.ListValues(), t.(*arrow.ListType).Elem(), int(i)))
		}
		return "[" + strings.Join(items, ",") + "]"
	case *array.String:
		if schemas.SameType(t, schemas.JSON) {
			return a.Value(row)
		}
		return string(load.AppendQuoted(nil, a.Value(row)))
	}
	return "null"
}

// widen converts the JSON of a value to that of the wider type to.
func widen(document string, from, to arrow.DataType) string {
	if document == "null" {
		return document
	}
	switch to := to.(type) {
	case *arrow.Decimal128Type:
		whole, fraction, _ := strings.Cut(document, ".")
		if to.Scale == 0 {
			return whole
		}
		return whole + "." + fraction + strings.Repeat("0", int(to.Scale)-len(fraction))
	case *arrow.StringType:
		if document[0] != '"' {
			return string(load.AppendQuoted(nil, document))
		}
	case *arrow.ListType:
		var items []json.RawMessage
		if json.Unmarshal([]byte(document), &items) != nil {
			return document
		}
		out := make([]string, len(items))
		for i, item := range items {
			out[i] = widen(string(item), from.(*arrow.ListType).Elem(), to.Elem())
		}
		return "[" + strings.Join(out, ",") + "]"
	}
	return document
}

// stored returns the value to store for the JSON of a value that has become wider.
func stored(document string, t arrow.DataType) any {
	if document == "null" && !schemas.SameType(t, schemas.JSON) {
		return nil
	}
	switch t.(type) {
	case *schemas.JSONType, *arrow.Decimal128Type, *arrow.ListType:
		return document
	case *arrow.StringType:
		var text string
		if json.Unmarshal([]byte(document), &text) == nil {
			return text
		}
	}
	return nil // a list that was always empty
}
