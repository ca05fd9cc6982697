package transform

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// The caller must append padding zero bytes to the input. So eight or sixteen bytes can be loaded at any position. A
// zero byte is invalid in JSON, so it ends every loop.
const padding = 32

// The functions that read JSON return a refusal code instead of a position if they cannot read a value. Mapper.record
// then determines whether the page is invalid, or whether only the record is refused.
const (
	refuseSyntax    = -1 - iota
	refuseDuplicate // a name occurs twice in an object
	refuseEncoding  // not UTF-8, or half of a surrogate pair
	refuseDepth     // nested deeper than maxLevels
	refuseSize
	refuseKey   // no value in a key column
	refuseClash // another record has the same key and different content
	refuseNull  // null in the place of a record
	refuseLong  // a key that is too long for an index
	refuseBound // more columns, fields or child tables than the stream may have
	refuseWide  // the rows of the record take too much memory
)

// A function returns decline if it cannot read the value. It has stored nothing. A more general function then reads
// the value.
const decline = 0

const (
	ones      = 0x0101010101010101
	highs     = 0x8080808080808080
	quotes    = '"' * ones
	backslash = '\\' * ones
	blanks    = ' ' * ones
)

func load(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// special sets the high bit of each quote, backslash and control character in w. Only the lowest set bit is reliable.
func special(w uint64) uint64 {
	q := w ^ quotes
	b := w ^ backslash
	return ((q-ones)&^q | (b-ones)&^b | (w-blanks)&^w) & highs
}

func space(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t' {
		i++
	}
	return i
}

// text scans a string. i is the position after the opening quote. end is the position after the closing quote, or a
// refusal code. plain is true if the string has no escape sequences.
func text(b []byte, i int) (end int, plain bool) {
	start, plain := i, true
	var high uint64
	for {
		w := load(b, i)
		m := special(w)
		if m == 0 {
			high |= w
			i += 8
			continue
		}
		high |= w & (m ^ (m - 1))
		i += bits.TrailingZeros64(m) >> 3
		switch b[i] {
		case '"':
			if high&highs != 0 && !utf8.Valid(b[start:i]) {
				return refuseEncoding, plain
			}
			return i + 1, plain
		case '\\':
			plain = false
			_, n := escape(b, i)
			if n <= 0 {
				return n, plain
			}
			i += n
		default:
			return refuseSyntax, plain
		}
	}
}

// escape returns the character for the escape sequence at i, and the length of the sequence. If the sequence is
// invalid, the length is a refusal code.
func escape(b []byte, i int) (r rune, n int) {
	switch c := b[i+1]; c {
	case '"', '\\', '/':
		return rune(c), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		return unicodeEscape(b, i)
	}
	return 0, refuseSyntax
}

func unicodeEscape(b []byte, i int) (r rune, n int) {
	r = hex4(b, i+2)
	switch {
	case r < 0:
		return 0, refuseSyntax
	case r < 0xd800 || r > 0xdfff:
		return r, 6
	case r > 0xdbff || b[i+6] != '\\' || b[i+7] != 'u':
		return 0, refuseEncoding
	}
	low := hex4(b, i+8)
	switch {
	case low < 0:
		return 0, refuseSyntax
	case low < 0xdc00 || low > 0xdfff:
		return 0, refuseEncoding
	}
	return (r-0xd800)<<10 | (low - 0xdc00) + 0x10000, 12
}

// hex4 returns the number at i, of four hexadecimal digits. It returns -1 for invalid digits.
func hex4(b []byte, i int) rune {
	var r rune
	for _, c := range b[i : i+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// unescape appends the content of a string. i is the position after the opening quote. The caller must have scanned
// the string with [text] or [looseText].
func unescape(dst, b []byte, i int) []byte {
	for b[i] != '"' {
		if b[i] != '\\' {
			dst = append(dst, b[i])
			i++
			continue
		}
		r, n := escape(b, i)
		if n <= 0 {
			r, n = utf8.RuneError, 2 // half of a surrogate pair, which looseText accepts
		}
		dst = utf8.AppendRune(dst, r)
		i += n
	}
	return dst
}

func number(b []byte, i int) (end int) {
	if b[i] == '-' {
		i++
	}
	switch {
	case b[i] == '0':
		i++
	case isDigit(b[i]):
		i = digits(b, i)
	default:
		return refuseSyntax
	}
	if b[i] == '.' {
		if !isDigit(b[i+1]) {
			return refuseSyntax
		}
		i = digits(b, i+1)
	}
	if b[i]|0x20 == 'e' {
		i++
		if b[i] == '+' || b[i] == '-' {
			i++
		}
		if !isDigit(b[i]) {
			return refuseSyntax
		}
		i = digits(b, i)
	}
	return i
}

func isDigit(c byte) bool { return c-'0' <= 9 }

func digits(b []byte, i int) int {
	for isDigit(b[i]) {
		i++
	}
	return i
}

func literal(b []byte, i int) (end int) {
	switch binary.LittleEndian.Uint32(b[i:]) {
	case wordNull, wordTrue:
		return i + 4
	case wordFals:
		if b[i+4] == 'e' {
			return i + 5
		}
	}
	return refuseSyntax
}

// The first four bytes of the JSON literals, as little-endian words.
const (
	wordNull = 'n' | 'u'<<8 | 'l'<<16 | 'l'<<24
	wordTrue = 't' | 'r'<<8 | 'u'<<16 | 'e'<<24
	wordFals = 'f' | 'a'<<8 | 'l'<<16 | 's'<<24
)
