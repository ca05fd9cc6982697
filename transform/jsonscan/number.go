package jsonscan

import (
	"bytes"
	"math"
	"math/bits"
	"strconv"
)

// Numeral is a number as written: Digits × 10^-Scale. A number without an exponent keeps its trailing zeros: 1.50 has
// Scale 2. A number with an exponent has no trailing zeros.
type Numeral struct {
	Raw      []byte
	Digits   []byte // without leading zeros; empty for zero
	Scale    int    // negative only if there is an exponent
	Negative bool
	Exponent bool
	Fraction bool // written with a decimal point
}

// farExponent is how many digits of an exponent are read. A number with more digits in its exponent fits no type.
const farExponent = 6

// ParseNumeral reads a number that [Number] accepts. The digits are stored in the parameter `scratch`.
func ParseNumeral(raw []byte, scratch []byte) Numeral {
	n := Numeral{Raw: raw, Digits: scratch[:0]}
	for i, c := range raw {
		switch {
		case c == '-':
			n.Negative = true
		case c == '.':
			n.Fraction = true
		case c|0x20 == 'e':
			n.Exponent = true
			n.shift(raw[i+1:])
			return n
		default:
			if n.Fraction {
				n.Scale++
			}
			if c != '0' || len(n.Digits) > 0 {
				n.Digits = append(n.Digits, c)
			}
		}
	}
	return n
}

func (n *Numeral) shift(exponent []byte) {
	trimmed := bytes.TrimRight(n.Digits, "0")
	n.Scale -= len(n.Digits) - len(trimmed)
	n.Digits = trimmed
	if len(n.Digits) == 0 {
		n.Scale = 0
		return
	}
	sign, magnitude := 1, bytes.TrimLeft(exponent, "+-0")
	if exponent[0] == '-' {
		sign = -1
	}
	if len(magnitude) > farExponent {
		magnitude = []byte("999999")
	}
	e, _ := strconv.Atoi("0" + string(magnitude))
	n.Scale -= sign * e
}

// Trim removes the zeros at the end of the fraction, and forgets how the number was written.
func (n *Numeral) Trim() {
	for n.Scale > 0 && len(n.Digits) > 0 && n.Digits[len(n.Digits)-1] == '0' {
		n.Digits = n.Digits[:len(n.Digits)-1]
		n.Scale--
	}
	if len(n.Digits) == 0 {
		n.Scale = 0
	}
	n.Fraction = n.Scale > 0
	n.Exponent = n.Scale < 0
}

func (n *Numeral) integer() bool { return !n.Fraction && !n.Exponent || n.Exponent && n.Scale <= 0 }

// Whole returns the number of digits before the point, at least one.
func (n *Numeral) Whole() int { return max(1, len(n.Digits)-n.Scale) }

// MinusZero reports whether n is a negative zero.
func (n *Numeral) MinusZero() bool { return n.Negative && len(n.Digits) == 0 }

// Int64 returns n as an integer. It returns false if n is written as a fraction, or does not fit.
func (n *Numeral) Int64() (v int64, ok bool) {
	if !n.integer() || n.Whole() > 19 {
		return 0, false
	}
	var u uint64
	for _, c := range n.Digits {
		u = u*10 + uint64(c-'0')
	}
	for i := n.Scale; i < 0; i++ {
		u *= 10
	}
	switch {
	case n.Negative && u <= -math.MinInt64:
		return -int64(u), true
	case !n.Negative && u <= math.MaxInt64:
		return int64(u), true
	}
	return 0, false
}

// Int128 returns n × 10^scale as an integer of 128 bits. The caller must check that it fits.
func (n *Numeral) Int128(scale int32) (high int64, low uint64) {
	var hi, lo uint64
	step := func(d uint64) {
		h, l := bits.Mul64(lo, 10)
		l, carry := bits.Add64(l, d, 0)
		hi, lo = hi*10+h+carry, l
	}
	for _, c := range n.Digits {
		step(uint64(c - '0'))
	}
	for i := n.Scale; i < int(scale); i++ {
		step(0)
	}
	if n.Negative {
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
	}
	return int64(hi), lo
}

// Float returns n as a float. It returns true only if the shortest form of the float has the same digits as n.
func (n *Numeral) Float() (v float64, ok bool) {
	v, err := strconv.ParseFloat(string(n.Raw), 64)
	if err != nil || n.MinusZero() {
		return 0, false
	}
	short := strconv.AppendFloat(nil, v, 'e', -1, 64)
	f := ParseNumeral(short, make([]byte, 0, 24))
	digits, zeros := n.Digits, 0
	for len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
		zeros++
	}
	return v, bytes.Equal(f.Digits, digits) && (len(digits) == 0 || f.Scale == n.Scale-zeros)
}

// ShortDigits is the maximum number of digits that [ShortDecimal] accepts. Every integer with so few digits fits into
// an int64.
const ShortDigits = 18

// ShortDecimal returns the digits of a plain number as one integer, and how many digits are before and after the point.
// All results are 0 if the value is not a plain number, is negative zero, or has more than ShortDigits digits.
func ShortDecimal(b []byte, i int) (v int64, whole, scale, end int) {
	negative := b[i] == '-'
	if negative {
		i++
	}
	begin := i
	for ; IsDigit(b[i]); i++ {
		v = v*10 + int64(b[i]-'0')
	}
	whole = i - begin
	if whole == 0 || whole > 1 && b[begin] == '0' {
		return 0, 0, 0, 0
	}
	if b[i] == '.' {
		point := i
		for i++; IsDigit(b[i]); i++ {
			v = v*10 + int64(b[i]-'0')
		}
		scale = i - point - 1
		if scale == 0 {
			return 0, 0, 0, 0
		}
	}
	if whole+scale > ShortDigits || b[i]|0x20 == 'e' || negative && v == 0 {
		return 0, 0, 0, 0
	}
	if negative {
		v = -v
	}
	return v, whole, scale, i
}

// Pow10 has the powers of ten that fit into an int64.
var Pow10 = [ShortDigits + 1]int64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
}
