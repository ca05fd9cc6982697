package jsonscan

import "bytes"

// Token is one scalar. Null is not a Token.
type Token struct {
	Raw     []byte
	Text    []byte  // content of a string
	Numeral Numeral // the number, if Kind is '0'
	Kind    byte    // first character: '"', 't' or 'f'; '0' for a number
}

// Scanner scans one scalar at a time. Its Token is valid until the next scan.
type Scanner struct {
	Token
	unescaped []byte
	digits    []byte
}

// Scan scans the scalar at i into s.Token. The scalar must not be null. Scan returns the position after the scalar, or
// a code.
func (s *Scanner) Scan(b []byte, i int) (end int) {
	t := &s.Token
	switch c := b[i]; {
	case c == '"':
		var text []byte
		if text, end = s.String(b, i); end < 0 {
			return end
		}
		*t = Token{Kind: '"', Raw: b[i:end], Text: text}
	case c == '-' || IsDigit(c):
		if end = Number(b, i); end < 0 {
			return end
		}
		*t = Token{Kind: '0', Raw: b[i:end], Numeral: ParseNumeral(b[i:end], s.digits[:0])}
		s.digits = t.Numeral.Digits
	default:
		if end = Literal(b, i); end < 0 {
			return end
		}
		*t = Token{Kind: c, Raw: b[i:end]}
	}
	return end
}

// String scans the string at i, and returns its content and the position after it. The content is valid until the next
// scan. If the string is invalid, a code takes the place of the position.
func (s *Scanner) String(b []byte, i int) (content []byte, end int) {
	end, plain := Text(b, i+1)
	if end < 0 {
		return nil, end
	}
	if plain {
		return b[i+1 : end-1], end
	}
	s.unescaped = Unescape(s.unescaped[:0], b, i+1)
	return s.unescaped, end
}

// PlainNumber returns the number that a string spells. It accepts only JSON syntax without an exponent, and at most
// 64 bytes.
func (t *Token) PlainNumber() (n Numeral, ok bool) {
	s := t.Text
	if len(s) == 0 || len(s) > 64 || bytes.ContainsAny(s, "eE") || !IsNumber(s) {
		return Numeral{}, false
	}
	return ParseNumeral(s, make([]byte, 0, len(s))), true
}

// Spelling returns the content of a string, and any other token as the source spelled it.
func (t *Token) Spelling() []byte {
	if t.Kind == '"' {
		return t.Text
	}
	return t.Raw
}

// Number returns the number of the token, or the number that its string spells.
func (t *Token) Number() Numeral {
	if t.Kind == '"' {
		n, _ := t.PlainNumber()
		return n
	}
	return t.Numeral
}
