// Package rowhash formats the values of Arrow rows as text, and computes hashes and digests of rows. With these, two
// readings can be compared, or a reading and a table.
package rowhash

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// KeyText returns a row's key as text. A key of several columns becomes a JSON array of texts: ["7","a"].
func KeyText(key []arrow.Array, row int) string {
	if len(key) == 1 {
		return Text(key[0], row)
	}
	values := make([]string, len(key))
	for i, a := range key {
		values[i] = Text(a, row)
	}
	b, _ := json.Marshal(values) // texts always marshal
	return string(b)
}

// Text returns a value as text. The text does not depend on the type of the column, as long as the column
// holds the value exactly.
func Text(a arrow.Array, row int) string {
	if a.IsNull(row) {
		return ""
	}
	switch a := a.(type) {
	case *array.String:
		return strings.Clone(a.Value(row)) // a copy, because the text must outlive the batch
	case *array.Int64:
		return strconv.FormatInt(a.Value(row), 10)
	case *array.Decimal128:
		text := a.Value(row).ToString(a.DataType().(*arrow.Decimal128Type).Scale)
		if strings.Contains(text, ".") {
			text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
		}
		return text
	case *array.Timestamp:
		return time.UnixMicro(int64(a.Value(row))).UTC().Format(time.RFC3339Nano)
	}
	return a.ValueStr(row)
}

// Time returns a value of a column of times; the zero time for null.
func Time(a arrow.Array, row int) time.Time {
	if at, ok := a.(*array.Timestamp); ok && at.IsValid(row) {
		return time.UnixMicro(int64(at.Value(row))).UTC()
	}
	return time.Time{}
}
