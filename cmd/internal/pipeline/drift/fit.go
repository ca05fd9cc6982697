package drift

import (
	"encoding/json"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform/jsonscan"
)

// allFit reports whether each value of a column could also be stored with an earlier type of the column. The argument
// `t` is the present type of the column, and `was` is the earlier type.
func allFit(values arrow.Array, t, was arrow.DataType) bool {
	_, isJSON := t.(*schemas.JSONType)
	for i := range values.Len() {
		if !values.IsNull(i) && !fits(values.ValueStr(i), isJSON, was) {
			return false
		}
	}
	return true
}

// fits reports whether a value, as text or as JSON, could be stored with the type t. It returns false for a type that
// it does not know.
func fits(value string, isJSON bool, t arrow.DataType) bool {
	quoted := isJSON && len(value) > 0 && value[0] == '"'
	if quoted && json.Unmarshal([]byte(value), &value) != nil {
		return false
	}
	switch t := t.(type) {
	case *arrow.StringType:
		return !isJSON || quoted
	case *arrow.BooleanType:
		return value == "true" || value == "false"
	case *arrow.Int64Type:
		return decimal(value, 19, 0)
	case *arrow.Float64Type:
		return jsonscan.IsNumber([]byte(value))
	case *arrow.Decimal128Type:
		return decimal(value, int(t.Precision-t.Scale), int(t.Scale))
	case *arrow.Date32Type:
		_, ok := jsonscan.ParseDate([]byte(value))
		return ok
	case *arrow.TimestampType:
		_, ok := jsonscan.ParseTime([]byte(value))
		return ok
	}
	return false
}

// decimal reports whether a text is a number with at most the given numbers of digits before and after the decimal
// point.
func decimal(value string, before, after int) bool {
	if !jsonscan.IsNumber([]byte(value)) {
		return false
	}
	n := jsonscan.ParseNumeral([]byte(value), nil)
	n.Trim()
	return n.Scale <= after && n.Whole() <= before
}
