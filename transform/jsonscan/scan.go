// Package jsonscan scans JSON text: strings, numbers, literals, and values of any depth. A function takes the text and
// a position in it, and returns the position after what it has read.
package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Padding is how many zero bytes must follow the input of each function. So eight or sixteen bytes can be loaded at any
// position. A zero byte is invalid in JSON, so it ends every loop.
const Padding = 32

var zeros [Padding]byte

// Pad appends the padding to b.
func Pad(b []byte) []byte { return append(b, zeros[:]...) }

// The codes that functions return in the place of a position, if they cannot read a value. All codes are negative.
const (
	BadSyntax   = -1
	BadEncoding = -2 // not UTF-8, or half of a surrogate pair
)

// HighBits is a word in which the high bit of each byte is set. A word in which none of these bits is set is ASCII.
const HighBits = 0x8080808080808080

const (
	ones      = 0x0101010101010101
	quotes    = '"' * ones
	backslash = '\\' * ones
	blanks    = ' ' * ones
)

// Load returns the eight bytes at i.
func Load(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// Special sets the high bit of each quote, backslash and control character in w. Only the lowest set bit is reliable.
func Special(w uint64) uint64 {
	q := w ^ quotes
	b := w ^ backslash
	return ((q-ones)&^q | (b-ones)&^b | (w-blanks)&^w) & HighBits
}

// Space returns the position of the first character at or after i that is not white space.
func Space(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t' {
		i++
	}
	return i
}

// Text scans a string. The parameter i is the position after the opening quote. Text returns the position after the
// closing quote, or a code. The second result is true if the string has no escape sequences.
func Text(b []byte, i int) (end int, plain bool) {
	start, plain := i, true
	var high uint64
	for {
		w := Load(b, i)
		m := Special(w)
		if m == 0 {
			high |= w
			i += 8
			continue
		}
		high |= w & (m ^ (m - 1))
		i += bits.TrailingZeros64(m) >> 3
		switch b[i] {
		case '"':
			if high&HighBits != 0 && !utf8.Valid(b[start:i]) {
				return BadEncoding, plain
			}
			return i + 1, plain
		case '\\':
			plain = false
			_, n := Escape(b, i)
			if n <= 0 {
				return n, plain
			}
			i += n
		default:
			return BadSyntax, plain
		}
	}
}

// Escape returns the character for the escape sequence at i, and the length of the sequence. If the sequence is
// invalid, the length is a code.
func Escape(b []byte, i int) (r rune, n int) {
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
	return 0, BadSyntax
}

func unicodeEscape(b []byte, i int) (r rune, n int) {
	r = hex4(b, i+2)
	switch {
	case r < 0:
		return 0, BadSyntax
	case r < 0xd800 || r > 0xdfff:
		return r, 6
	case r > 0xdbff || b[i+6] != '\\' || b[i+7] != 'u':
		return 0, BadEncoding
	}
	low := hex4(b, i+8)
	switch {
	case low < 0:
		return 0, BadSyntax
	case low < 0xdc00 || low > 0xdfff:
		return 0, BadEncoding
	}
	return (r-0xd800)<<10 | (low - 0xdc00) + 0x10000, 12
}

// hex4 returns the number that the four hexadecimal digits at i form. It returns -1 for invalid digits.
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

// LooseText is like [Text], but does not check the encoding.
func LooseText(b []byte, i int) (end int, ok bool) {
	for {
		m := Special(Load(b, i))
		if m == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(m) >> 3
		switch b[i] {
		case '"':
			return i + 1, true
		case '\\':
			if _, n := Escape(b, i); n == BadSyntax {
				return i, false
			}
			i += 2
		default:
			return i, false
		}
	}
}

// Unescape appends the content of a string. The parameter i is the position after the opening quote. The caller must
// have scanned the string with [Text] or [LooseText].
func Unescape(dst, b []byte, i int) []byte {
	for b[i] != '"' {
		if b[i] != '\\' {
			dst = append(dst, b[i])
			i++
			continue
		}
		r, n := Escape(b, i)
		if n <= 0 {
			r, n = utf8.RuneError, 2 // half of a surrogate pair, which LooseText accepts
		}
		dst = utf8.AppendRune(dst, r)
		i += n
	}
	return dst
}

// Number returns the position after the number at i, or a code.
func Number(b []byte, i int) (end int) {
	if b[i] == '-' {
		i++
	}
	switch {
	case b[i] == '0':
		i++
	case IsDigit(b[i]):
		i = digits(b, i)
	default:
		return BadSyntax
	}
	if b[i] == '.' {
		if !IsDigit(b[i+1]) {
			return BadSyntax
		}
		i = digits(b, i+1)
	}
	if b[i]|0x20 == 'e' {
		i++
		if b[i] == '+' || b[i] == '-' {
			i++
		}
		if !IsDigit(b[i]) {
			return BadSyntax
		}
		i = digits(b, i)
	}
	return i
}

// IsNumber reports whether text is a number. It needs no padding.
func IsNumber(text []byte) bool {
	padded := Pad(append(make([]byte, 0, 64+Padding), text...))
	return Number(padded, 0) == len(text)
}

// IsDigit reports whether c is a decimal digit.
func IsDigit(c byte) bool { return c-'0' <= 9 }

func digits(b []byte, i int) int {
	for IsDigit(b[i]) {
		i++
	}
	return i
}

// Literal returns the position after the literal null, true or false at i, or a code.
func Literal(b []byte, i int) (end int) {
	switch binary.LittleEndian.Uint32(b[i:]) {
	case wordNull, wordTrue:
		return i + 4
	case wordFals:
		if b[i+4] == 'e' {
			return i + 5
		}
	}
	return BadSyntax
}

// Null returns the position after the literal null at i, or a code.
func Null(b []byte, i int) (end int) {
	if binary.LittleEndian.Uint32(b[i:]) != wordNull {
		return BadSyntax
	}
	return i + 4
}

// Bool returns the boolean at i and the position after it. If there is no boolean at i, the position is 0.
func Bool(b []byte, i int) (v bool, end int) {
	switch binary.LittleEndian.Uint32(b[i:]) {
	case wordTrue:
		return true, i + 4
	case wordFals:
		if b[i+4] == 'e' {
			return false, i + 5
		}
	}
	return false, 0
}

// The first four bytes of the JSON literals, as little-endian words.
const (
	wordNull = 'n' | 'u'<<8 | 'l'<<16 | 'l'<<24
	wordTrue = 't' | 'r'<<8 | 'u'<<16 | 'e'<<24
	wordFals = 'f' | 'a'<<8 | 'l'<<16 | 's'<<24
)
