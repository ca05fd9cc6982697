package transform

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform/jsonscan"
)

// typeOf returns the narrowest type that holds t. The first argument is the type that the stream declares for the
// column, or nil. The result depends only on the arguments, so the order of values does not matter. // Invariant 8
func typeOf(declared arrow.DataType, t *jsonscan.Token) arrow.DataType {
	switch t.Kind {
	case 't', 'f':
		return schemas.Bool
	case '0':
		return numberType(declared, t.Raw, &t.Numeral)
	}
	if n, ok := t.PlainNumber(); ok && takesNumbers(declared) {
		return numberType(declared, t.Text, &n)
	}
	if _, ok := jsonscan.ParseDate(t.Text); ok {
		return schemas.Date
	}
	if _, ok := jsonscan.ParseTime(t.Text); ok {
		return schemas.Timestamp
	}
	return schemas.Text
}

// takesNumbers reports whether a column with this declared type stores strings like "12" as numbers.
func takesNumbers(declared arrow.DataType) bool {
	switch kindOf(orNull(declared)) {
	case kindBool, kindInt, kindDecimal:
		return true
	}
	return false
}

func orNull(t arrow.DataType) arrow.DataType {
	if t == nil {
		return schemas.Null
	}
	return t
}

func numberType(declared arrow.DataType, raw []byte, n *jsonscan.Numeral) arrow.DataType {
	switch kindOf(orNull(declared)) {
	case kindBool:
		if _, ok := flag(raw); ok {
			return schemas.Bool
		}
	case kindDecimal:
		if t, ok := decimalType(n); ok {
			return t
		}
	case kindFloat:
		if _, ok := n.Float(); ok {
			return schemas.Float64
		}
	}
	return numeralType(n)
}

// flag returns the boolean that 0 or 1 means in a boolean column.
func flag(b []byte) (v, ok bool) {
	if len(b) != 1 || b[0] != '0' && b[0] != '1' {
		return false, false
	}
	return b[0] == '1', true
}

// numeralType returns the narrowest type that holds n.
func numeralType(n *jsonscan.Numeral) arrow.DataType {
	if _, ok := n.Int64(); ok {
		return schemas.Int64
	}
	if t, ok := decimalType(n); ok {
		return t
	}
	if _, ok := n.Float(); ok && n.Exponent {
		return schemas.Float64
	}
	return schemas.Text
}

func decimalType(n *jsonscan.Numeral) (arrow.DataType, bool) {
	whole, scale := n.Whole(), max(n.Scale, 0)
	if whole > 38 || scale > 38 {
		return nil, false
	}
	return schemas.Decimal(int32(whole), int32(scale))
}
