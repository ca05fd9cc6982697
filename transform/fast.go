package transform

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/penstock-data/penstock/transform/jsonscan"
)

// Each function in this file reads one value of the column's kind directly from the page. It writes the value into the
// buffers of the column, and returns the position after the value. If the value has another kind or an unusual
// spelling, the function returns the code `decline`. reader.store then handles the value.

// A function returns decline if it cannot read the value. The function has then stored nothing, and a more general
// function reads the value.
const decline = 0

// text stores the string that begins at i, after its opening quote. It copies eight bytes at a time while it scans.
func (c *vector) text(row int, b []byte, i int) (end int) {
	c.at(row)
	dst, d := c.data, c.used
	var high uint64
	for {
		if d+8 > len(dst) {
			c.stretch(d, 8)
			dst = c.data
		}
		w := jsonscan.Load(b, i)
		binary.LittleEndian.PutUint64(dst[d:], w)
		m := jsonscan.Special(w)
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
		r, size := jsonscan.Escape(b, i)
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
	if high&jsonscan.HighBits != 0 && !utf8.Valid(dst[c.used:d]) {
		return refuseEncoding
	}
	c.used = d
	c.offsets[row+1] = int32(d)
	c.set(row)
	return i + 1
}

func (c *vector) int(row int, b []byte, i int) (end int) {
	begin := i
	negative := b[i] == '-'
	if negative {
		i++
	}
	d := b[i] - '0'
	if d > 9 || d == 0 && (negative || jsonscan.IsDigit(b[i+1])) {
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
	if i-begin > jsonscan.ShortDigits || b[i] == '.' || b[i]|0x20 == 'e' {
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
	v, whole, scale, i := jsonscan.ShortDecimal(b, i)
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
	if up > jsonscan.ShortDigits {
		return decline
	}
	c.at(row)
	c.decimals[row] = times(v, jsonscan.Pow10[up])
	c.set(row)
	return i
}

// times returns the 128-bit product of v and p. The parameter p must be positive.
func times(v, p int64) decimal128.Num {
	hi, lo := bits.Mul64(uint64(v), uint64(p))
	if v < 0 {
		hi -= uint64(p) // as an unsigned number, v is v + 2^64
	}
	return decimal128.New(int64(hi), lo)
}

func (c *vector) bool(row int, b []byte, i int) (end int) {
	v, end := jsonscan.Bool(b, i)
	if end == 0 {
		return decline
	}
	c.putBool(row, v)
	return end
}

func (c *vector) putBool(row int, v bool) {
	c.at(row)
	if v {
		c.bits[row>>3] |= 1 << (row & 7)
	}
	c.set(row)
}

func (c *vector) time(row int, b []byte, i int) (end int) {
	if b[i] != '"' || i+1+jsonscan.LongestTime > len(b) {
		return decline
	}
	v, n := jsonscan.TimePrefix(b[i+1 : i+1+jsonscan.LongestTime])
	if n == 0 || b[i+1+n] != '"' {
		return decline
	}
	c.at(row)
	c.ints[row] = v
	c.set(row)
	return i + n + 2
}

func (c *vector) date(row int, b []byte, i int) (end int) {
	if b[i] != '"' || b[i+11] != '"' {
		return decline
	}
	v, ok := jsonscan.ParseDate(b[i+1 : i+11])
	if !ok {
		return decline
	}
	c.at(row)
	c.dates[row] = v
	c.set(row)
	return i + 12
}
