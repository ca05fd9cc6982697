package transform

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// Each function in this file reads one value of the column's kind directly from the page into the buffers of the
// column, and returns the position after the value. If the value has another kind or an unusual spelling, the
// function returns decline. [Mapper.store] then handles the value.

// text stores the string that begins at i, after its opening quote. It copies eight bytes at a time while it scans.
func (c *column) text(row int, b []byte, i int) (end int) {
	c.at(row)
	dst, d := c.data, c.used
	var high uint64
	for {
		if d+8 > len(dst) {
			c.stretch(d, 8)
			dst = c.data
		}
		w := load(b, i)
		binary.LittleEndian.PutUint64(dst[d:], w)
		m := special(w)
		if m == 0 {
			high |= w
			i += 8
			d += 8
			continue
		}
		high |= w & (m ^ (m - 1))
		n := bits.TrailingZeros64(m) >> 3
		i += n
		d += n
		if b[i] == '"' {
			break
		}
		if b[i] != '\\' {
			return refuseSyntax
		}
		r, size := escape(b, i)
		if size < 0 {
			return size
		}
		if d+8 > len(dst) {
			c.stretch(d, 8)
			dst = c.data
		}
		i += size
		d += utf8.EncodeRune(dst[d:], r)
	}
	if high&highs != 0 && !utf8.Valid(dst[c.used:d]) {
		return refuseEncoding
	}
	c.used = d
	c.offsets[row+1] = int32(d)
	c.set(row)
	return i + 1
}

// fastDigits is the maximum number of digits in these functions. Every number with so many digits fits into an int64.
const fastDigits = 18

func (c *column) int(row int, b []byte, i int) (end int) {
	begin := i
	negative := b[i] == '-'
	if negative {
		i++
	}
	d := b[i] - '0'
	if d > 9 || d == 0 && (negative || isDigit(b[i+1])) {
		return decline
	}
	v := int64(d)
	for i++; ; i++ {
		d = b[i] - '0'
		if d > 9 {
			break
		}
		v = v*10 + int64(d)
	}
	if i-begin > fastDigits || b[i] == '.' || b[i]|0x20 == 'e' {
		return decline
	}
	c.at(row)
	if negative {
		v = -v
	}
	c.ints[row] = v
	c.set(row)
	return i
}

func (c *column) decimal(row int, b []byte, i int) (end int) {
	quoted := b[i] == '"'
	if quoted {
		if !c.quoted && !isDecimal(c.declared) {
			return decline
		}
		i++
	}
	v, whole, scale, i := shortDecimal(b, i)
	if whole == 0 || whole > int(c.whole) || scale > int(c.scale) || scale == 0 && !c.anyInt {
		return decline
	}
	if quoted {
		if b[i] != '"' {
			return decline
		}
		i++
	}
	up := int(c.scale) - scale
	if up > fastDigits {
		return decline
	}
	c.at(row)
	c.decimals[row] = times(v, pow10[up])
	c.set(row)
	return i
}

// shortDecimal returns the digits of a plain number as one integer, and how many digits are before and after the
// point. whole is 0 for anything else, for negative zero, and for a number with more than fastDigits digits.
func shortDecimal(b []byte, i int) (v int64, whole, scale, end int) {
	negative := b[i] == '-'
	if negative {
		i++
	}
	begin := i
	for ; isDigit(b[i]); i++ {
		v = v*10 + int64(b[i]-'0')
	}
	whole = i - begin
	if whole == 0 || whole > 1 && b[begin] == '0' {
		return 0, 0, 0, 0
	}
	if b[i] == '.' {
		point := i
		for i++; isDigit(b[i]); i++ {
			v = v*10 + int64(b[i]-'0')
		}
		scale = i - point - 1
		if scale == 0 {
			return 0, 0, 0, 0
		}
	}
	if whole+scale > fastDigits || b[i]|0x20 == 'e' || negative && v == 0 {
		return 0, 0, 0, 0
	}
	if negative {
		v = -v
	}
	return v, whole, scale, i
}

var pow10 = [fastDigits + 1]int64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
}

// times returns the 128-bit product of v and p. p must be positive.
func times(v, p int64) decimal128.Num {
	hi, lo := bits.Mul64(uint64(v), uint64(p))
	if v < 0 {
		hi -= uint64(p) // as an unsigned number, v is v + 2^64
	}
	return decimal128.New(int64(hi), lo)
}

func (c *column) bool(row int, b []byte, i int) (end int) {
	end = decline
	value := false
	switch binary.LittleEndian.Uint32(b[i:]) {
	case wordTrue:
		end, value = i+4, true
	case wordFals:
		if b[i+4] == 'e' {
			end = i + 5
		}
	}
	if end != decline {
		c.putBool(row, value)
	}
	return end
}

func (c *column) putBool(row int, v bool) {
	c.at(row)
	if v {
		c.bits[row>>3] |= 1 << (row & 7)
	}
	c.set(row)
}

func (c *column) time(row int, b []byte, i int) (end int) {
	if b[i] != '"' || i+1+longestTime > len(b) {
		return decline
	}
	v, n := parseTime(b[i+1 : i+1+longestTime])
	if n == 0 || b[i+1+n] != '"' {
		return decline
	}
	c.at(row)
	c.ints[row] = v
	c.set(row)
	return i + n + 2
}

func (c *column) date(row int, b []byte, i int) (end int) {
	if b[i] != '"' || b[i+11] != '"' {
		return decline
	}
	v, ok := parseDate(b[i+1 : i+11])
	if !ok {
		return decline
	}
	c.at(row)
	c.dates[row] = v
	c.set(row)
	return i + 12
}
