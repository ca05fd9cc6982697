package transform

import (
	"bytes"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

type token struct {
	raw     []byte
	text    []byte
	numeral numeral
	kind    byte // first character: '"', 't' or 'f'; '0' for a number
}

// tokens scans one scalar at a time. A token is valid until the next scan.
type tokens struct {
	tok       token
	unescaped []byte
	digits    []byte
}

// token scans the scalar at i into m.tok. The scalar must not be null. token returns the position after the scalar,
// or a refusal code.
func (m *Mapper) token(i int) (end int) { return m.scan(m.raw, i) }

func (m *tokens) scan(b []byte, i int) (end int) {
	t := &m.tok
	switch c := b[i]; {
	case c == '"':
		var plain bool
		if end, plain = text(b, i+1); end < 0 {
			return end
		}
		*t = token{kind: '"', raw: b[i:end], text: b[i+1 : end-1]}
		if !plain {
			m.unescaped = unescape(m.unescaped[:0], b, i+1)
			t.text = m.unescaped
		}
	case c == '-' || isDigit(c):
		if end = number(b, i); end < 0 {
			return end
		}
		*t = token{kind: '0', raw: b[i:end], numeral: parseNumeral(b[i:end], m.digits[:0])}
		m.digits = t.numeral.digits
	default:
		if end = literal(b, i); end < 0 {
			return end
		}
		*t = token{kind: c, raw: b[i:end]}
	}
	return end
}

// plainNumber returns the number that a string spells. It accepts only JSON syntax without an exponent, and at most
// 64 bytes.
func (t *token) plainNumber() (n numeral, ok bool) {
	s := t.text
	if len(s) == 0 || len(s) > 64 || bytes.ContainsAny(s, "eE") {
		return numeral{}, false
	}
	padded := make([]byte, len(s)+padding)
	copy(padded, s)
	if number(padded, 0) != len(s) {
		return numeral{}, false
	}
	return parseNumeral(s, make([]byte, 0, len(s))), true
}

// typeOf returns the narrowest type that holds t. declared is the type that the stream declares for the column, or
// nil. The result depends on nothing else, so the order of values does not matter. // Invariant 8
func typeOf(declared arrow.DataType, t *token) arrow.DataType {
	switch t.kind {
	case 't', 'f':
		return schemas.Bool
	case '0':
		return numberType(declared, t.raw, &t.numeral)
	}
	if n, ok := t.plainNumber(); ok && takesNumbers(declared) {
		return numberType(declared, t.text, &n)
	}
	if len(t.text) == len("2006-01-02") {
		if _, ok := parseDate(t.text); ok {
			return schemas.Date
		}
	}
	if _, n := parseTime(t.text); n > 0 && n == len(t.text) {
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

func numberType(declared arrow.DataType, raw []byte, n *numeral) arrow.DataType {
	switch kindOf(orNull(declared)) {
	case kindBool:
		if _, ok := flag(raw); ok {
			return schemas.Bool
		}
	case kindDecimal:
		if t, ok := n.decimalType(); ok {
			return t
		}
	case kindFloat:
		if _, ok := n.float(); ok {
			return schemas.Float64
		}
	}
	return n.typ()
}

// flag returns the boolean that 0 or 1 means in a boolean column.
func flag(b []byte) (v, ok bool) {
	if len(b) != 1 || b[0] != '0' && b[0] != '1' {
		return false, false
	}
	return b[0] == '1', true
}
