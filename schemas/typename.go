package schemas

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// TypeName returns the name of a lattice type in the form that [ParseTypeName] reads: bool, int64, decimal(16,2),
// float64, date, timestamp, text, json, null, or list(…) around one of these names.
func TypeName(t arrow.DataType) string {
	switch t := t.(type) {
	case *JSONType:
		return "json"
	case *arrow.NullType:
		return "null"
	case *arrow.BooleanType:
		return "bool"
	case *arrow.Int64Type:
		return "int64"
	case *arrow.Float64Type:
		return "float64"
	case *arrow.Decimal128Type:
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case *arrow.Date32Type:
		return "date"
	case *arrow.TimestampType:
		return "timestamp"
	case *arrow.StringType:
		return "text"
	case *arrow.ListType:
		return "list(" + TypeName(t.Elem()) + ")"
	}
	return t.String()
}

// ParseTypeName is the inverse of [TypeName].
func ParseTypeName(s string) (arrow.DataType, error) {
	if s == "null" {
		return Null, nil
	}
	var d arrow.Decimal128Type
	if n, _ := fmt.Sscanf(s, "decimal(%d,%d)", &d.Precision, &d.Scale); n == 2 && d.Precision <= 38 && d.Scale <= d.Precision {
		return &d, nil // exactly this type; ParseType would round it up
	}
	elem, ok := strings.CutPrefix(s, "list(")
	if !ok {
		return ParseType(s)
	}
	elem, ok = strings.CutSuffix(elem, ")")
	if !ok {
		return nil, fmt.Errorf("parse type %q: no closing parenthesis", s)
	}
	t, err := ParseTypeName(elem)
	if err != nil {
		return nil, err
	}
	return arrow.ListOf(t), nil
}

// SameType reports whether a and b are the same lattice type.
func SameType(a, b arrow.DataType) bool { return same(a, b) }
