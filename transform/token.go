package transform

import (
	"bytes"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// token is a scalar as it came.
type token struct {
	raw     []byte  // as it stands in the page
	text    []byte  // of a string: what it stands for
	numeral numeral // of a number
	what    byte    // '"', '0', 't' or 'f'
}

// tokens scans scalars one at a time. The token lives until the next one.
type tokens struct {
	tok       token
	unescaped []byte
	digits    []byte
}

// token scans the scalar at i into m.tok. A null has no token.
func (m *Mapper) token(i int) (end int) { return m.scan(m.raw, i) }

func (m *tokens) scan(b []byte, i int) (end int) {
	t := &m.tok
	switch c := b[i]; {
	case c == '"':
		var plain bool
		if end, plain = text(b, i+1); end < 0 {
			return end
		}
		*t = token{what: '"', raw: b[i:end], text: b[i+1 : end-1]}
		if !plain {
			m.unescaped = unescape(m.unescaped[:0], b, i+1)
			t.text = m.unescaped
		}
	case c == '-' || isDigit(c):
		if end = number(b, i); end < 0 {
			return end
		}
		*t = token{what: '0', raw: b[i:end], numeral: parseNumeral(b[i:end], m.digits[:0])}
		m.digits = t.numeral.digits
	default:
		if end = literal(b, i); end < 0 {
			return end
		}
		*t = token{what: c, raw: b[i:end]}
	}
	return end
}

// plainNumber is the number that a string spells, without an exponent, in the
// form that JSON prescribes.
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

// typeOf is the least type that holds t in a column which the catalogue
// declares as declared, or does not (nil). It depends on nothing else, so that
// the order of values makes no difference. // Invariant 8
func typeOf(declared arrow.DataType, t *token) arrow.DataType {
	switch t.what {
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

// takesNumbers reports whether strings that spell numbers are taken for numbers
// in a column declared so.
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

// numberType is the type of a number in a column that is declared as declared.
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

// flag is the truth that 0 and 1 stand for in a column of flags.
func flag(b []byte) (v, ok bool) {
	if len(b) != 1 || b[0] != '0' && b[0] != '1' {
		return false, false
	}
	return b[0] == '1', true
}
