package transform

import (
	"bytes"
	"math"
	"math/bits"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/penstock-data/penstock/schemas"
)

// numeral is a number as written: digits × 10^-scale. Without an exponent, it keeps its trailing zeros: 1.50 has
// scale 2. With an exponent, it has no trailing zeros.
type numeral struct {
	raw      []byte
	digits   []byte // without leading zeros; empty for zero
	scale    int    // negative only if there is an exponent
	negative bool
	exponent bool
	fraction bool // written with a decimal point
}

// farExponent is how many digits of an exponent are used. No type can hold a number with a longer exponent.
const farExponent = 6

func parseNumeral(raw []byte, scratch []byte) numeral {
	n := numeral{raw: raw, digits: scratch[:0]}
	for i, c := range raw {
		switch {
		case c == '-':
			n.negative = true
		case c == '.':
			n.fraction = true
		case c|0x20 == 'e':
			n.exponent = true
			n.shift(raw[i+1:])
			return n
		default:
			if n.fraction {
				n.scale++
			}
			if c != '0' || len(n.digits) > 0 {
				n.digits = append(n.digits, c)
			}
		}
	}
	return n
}

func (n *numeral) shift(exponent []byte) {
	trimmed := bytes.TrimRight(n.digits, "0")
	n.scale -= len(n.digits) - len(trimmed)
	n.digits = trimmed
	if len(n.digits) == 0 {
		n.scale = 0
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
	n.scale -= sign * e
}

func (n *numeral) trim() {
	for n.scale > 0 && len(n.digits) > 0 && n.digits[len(n.digits)-1] == '0' {
		n.digits = n.digits[:len(n.digits)-1]
		n.scale--
	}
	if len(n.digits) == 0 {
		n.scale = 0
	}
	n.fraction = n.scale > 0
	n.exponent = n.scale < 0
}

func (n *numeral) integer() bool { return !n.fraction && !n.exponent || n.exponent && n.scale <= 0 }

func (n *numeral) whole() int { return max(1, len(n.digits)-n.scale) }

func (n *numeral) minusZero() bool { return n.negative && len(n.digits) == 0 }

func (n *numeral) int64() (v int64, ok bool) {
	if !n.integer() || n.whole() > 19 {
		return 0, false
	}
	var u uint64
	for _, c := range n.digits {
		u = u*10 + uint64(c-'0')
	}
	for i := n.scale; i < 0; i++ {
		u *= 10
	}
	switch {
	case n.negative && u <= -math.MinInt64:
		return -int64(u), true
	case !n.negative && u <= math.MaxInt64:
		return int64(u), true
	}
	return 0, false
}

func (n *numeral) decimal(scale int32) decimal128.Num {
	var hi, lo uint64
	step := func(d uint64) {
		h, l := bits.Mul64(lo, 10)
		l, carry := bits.Add64(l, d, 0)
		hi, lo = hi*10+h+carry, l
	}
	for _, c := range n.digits {
		step(uint64(c - '0'))
	}
	for i := n.scale; i < int(scale); i++ {
		step(0)
	}
	v := decimal128.New(int64(hi), lo)
	if n.negative {
		return v.Negate()
	}
	return v
}

// float returns n as a float. ok is true only if the shortest form of the float has the same digits as n.
func (n *numeral) float() (v float64, ok bool) {
	v, err := strconv.ParseFloat(string(n.raw), 64)
	if err != nil || n.minusZero() {
		return 0, false
	}
	short := strconv.AppendFloat(nil, v, 'e', -1, 64)
	f := parseNumeral(short, make([]byte, 0, 24))
	digits, zeros := n.digits, 0
	for len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
		zeros++
	}
	return v, bytes.Equal(f.digits, digits) && (len(digits) == 0 || f.scale == n.scale-zeros)
}

func (n *numeral) typ() arrow.DataType {
	if _, ok := n.int64(); ok {
		return schemas.Int64
	}
	if t, ok := n.decimalType(); ok {
		return t
	}
	if _, ok := n.float(); ok && n.exponent {
		return schemas.Float64
	}
	return schemas.Text
}

func (n *numeral) decimalType() (arrow.DataType, bool) {
	whole, scale := n.whole(), max(n.scale, 0)
	if whole > 38 || scale > 38 {
		return nil, false
	}
	return schemas.Decimal(int32(whole), int32(scale))
}
