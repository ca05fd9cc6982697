package schemas

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
)

// The lattice of column types, from the bottom up:
//
//	null < [] < int64 < decimal < text < json
//	null < [] < bool | float64 | date | timestamp < text < json
//	null < [] < list(T) < json
//
// [] is the type of a column whose arrays were always empty. The platform also writes [] for "no such object", so []
// joins with any type. Two different scalar types join to text if neither is below the other. A list and a scalar
// join to json. Join is associative, commutative and idempotent, so a column's type does not depend on the order of
// its values. // Invariant 8
var (
	Null      arrow.DataType = arrow.Null
	Bool      arrow.DataType = arrow.FixedWidthTypes.Boolean
	Int64     arrow.DataType = arrow.PrimitiveTypes.Int64
	Float64   arrow.DataType = arrow.PrimitiveTypes.Float64
	Date      arrow.DataType = arrow.FixedWidthTypes.Date32
	Timestamp arrow.DataType = &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	Text      arrow.DataType = arrow.BinaryTypes.String
	JSON      arrow.DataType = &JSONType{}
	Empty     arrow.DataType = arrow.ListOf(arrow.Null)
)

// JSONType is the type of JSON text: any value, exactly as the source spelled it. Its arrays are Arrow strings. In a
// batch's schema, it is a string field with the metadata [TypeKey] = json (see [Field] and [TypeOf]).
type JSONType struct{ arrow.StringType }

// Name returns "json".
func (*JSONType) Name() string { return "json" }

// String returns "json".
func (*JSONType) String() string { return "json" }

// integerDigits are the possible numbers of digits before the point of a decimal. There are only four, so that a
// slightly larger number rarely changes the type of a column. An int64 needs 19 digits.
var integerDigits = [...]int32{14, 19, 28, 38}

// Decimal returns the smallest decimal type with at least `digits` digits before the point and `scale` digits after it.
// It returns false if a 128-bit decimal has too few digits.
func Decimal(digits, scale int32) (t arrow.DataType, ok bool) {
	for _, d := range integerDigits {
		if digits > d {
			continue
		}
		if d+scale <= 38 {
			return &arrow.Decimal128Type{Precision: d + scale, Scale: scale}, true
		}
	}
	return nil, false
}

// Join returns the smallest type that holds every value of the types a and b.
func Join(a, b arrow.DataType) arrow.DataType {
	if same(a, b) {
		return a
	}
	if rank(a) > rank(b) {
		a, b = b, a
	}
	switch {
	case rank(a) <= rankEmpty:
		return b
	case rank(b) == rankJSON:
		return JSON
	case rank(a) == rankList && rank(b) == rankList:
		return joinLists(a, b)
	case rank(a) == rankList || rank(b) == rankList:
		return JSON
	case rank(a) == rankInt && rank(b) == rankDecimal:
		return joinDecimals(19, 0, b)
	case rank(a) == rankDecimal && rank(b) == rankDecimal:
		d := a.(*arrow.Decimal128Type)
		return joinDecimals(d.Precision-d.Scale, d.Scale, b)
	}
	return Text
}

func joinLists(a, b arrow.DataType) arrow.DataType {
	e := Join(a.(*arrow.ListType).Elem(), b.(*arrow.ListType).Elem())
	if rank(e) >= rankList {
		return JSON
	}
	return arrow.ListOf(e)
}

func joinDecimals(digits, scale int32, b arrow.DataType) arrow.DataType {
	d := b.(*arrow.Decimal128Type)
	if t, ok := Decimal(max(digits, d.Precision-d.Scale), max(scale, d.Scale)); ok {
		return t
	}
	return Text
}

// Ranks order the types. Two types of the same rank can still differ, for example two decimals: see [same].
const (
	rankNull = iota
	rankEmpty
	rankBool
	rankInt
	rankDecimal
	rankFloat
	rankDate
	rankTimestamp
	rankText
	rankList
	rankJSON
)

func rank(t arrow.DataType) int {
	switch t := t.(type) {
	case *JSONType:
		return rankJSON
	case *arrow.NullType:
		return rankNull
	case *arrow.BooleanType:
		return rankBool
	case *arrow.Int64Type:
		return rankInt
	case *arrow.Decimal128Type:
		return rankDecimal
	case *arrow.Float64Type:
		return rankFloat
	case *arrow.Date32Type:
		return rankDate
	case *arrow.TimestampType:
		return rankTimestamp
	case *arrow.StringType:
		return rankText
	case *arrow.ListType:
		if t.Elem().ID() == arrow.NULL {
			return rankEmpty
		}
		return rankList
	}
	panic(fmt.Sprintf("schemas: %v is not a type of the lattice", t))
}

func same(a, b arrow.DataType) bool {
	ra, rb := rank(a), rank(b)
	if ra != rb {
		return false
	}
	switch ra {
	case rankDecimal:
		return *a.(*arrow.Decimal128Type) == *b.(*arrow.Decimal128Type)
	case rankList:
		return same(a.(*arrow.ListType).Elem(), b.(*arrow.ListType).Elem())
	}
	return true
}

// Field returns an Arrow field for a column of type t. The parameter `source` is the JSON pointer of the record's field
// that the column holds; "" for penstock's own columns.
func Field(name string, t arrow.DataType, source string) arrow.Field {
	md := map[string]string{SourceKey: source}
	if _, ok := t.(*JSONType); ok {
		t = Text
		md[TypeKey] = "json"
	}
	return arrow.Field{Name: name, Type: t, Nullable: true, Metadata: arrow.MetadataFrom(md)}
}

// TypeOf returns the lattice type of a column: [JSON] if its metadata says so, and otherwise its Arrow type.
func TypeOf(f arrow.Field) arrow.DataType {
	if v, ok := f.Metadata.GetValue(TypeKey); ok && v == "json" {
		return JSON
	}
	return f.Type
}

// Source returns the JSON pointer of the record's field that the column f holds. It returns "" for penstock's own
// columns.
func Source(f arrow.Field) string {
	v, _ := f.Metadata.GetValue(SourceKey)
	return v
}

// DescriptionOf returns f's description, or "".
func DescriptionOf(f arrow.Field) string {
	v, _ := f.Metadata.GetValue(DescriptionKey)
	return v
}

// WithDescription returns f with a description.
func WithDescription(f arrow.Field, text string) arrow.Field {
	if text == "" {
		return f
	}
	md := f.Metadata.ToMap()
	md[DescriptionKey] = text
	f.Metadata = arrow.MetadataFrom(md)
	return f
}

var decimalName = regexp.MustCompile(`^decimal\((\d{1,2}),(\d{1,2})\)$`)

// ParseType parses a declared type: bool, int64, float64, date, timestamp, text, json, decimal or decimal(p,s). The
// type decimal has 14 digits before the point and 2 after it. The p of decimal(p,s) is rounded up, because the
// lattice has few widths.
func ParseType(s string) (arrow.DataType, error) {
	switch s {
	case "bool":
		return Bool, nil
	case "int64":
		return Int64, nil
	case "float64":
		return Float64, nil
	case "date":
		return Date, nil
	case "timestamp":
		return Timestamp, nil
	case "text":
		return Text, nil
	case "json":
		return JSON, nil
	case "decimal":
		s = "decimal(16,2)"
	}
	m := decimalName.FindStringSubmatch(s)
	if m == nil {
		return nil, fmt.Errorf("parse type %q: want bool, int64, float64, decimal(p,s), date, timestamp, text or json", s)
	}
	p, _ := strconv.Atoi(m[1])
	scale, _ := strconv.Atoi(m[2])
	t, ok := Decimal(int32(p-scale), int32(scale))
	if p < scale || !ok {
		return nil, fmt.Errorf("parse type %q: no 128-bit decimal has these digits", s)
	}
	return t, nil
}
