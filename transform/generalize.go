package transform

import (
	"bytes"
	"math"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/penstock-data/penstock/transform/jsonscan"
)

// rounding rounds numbers to multiples of a power of ten. Halves are rounded away from zero. A rounding also truncates
// dates and instants to the beginning of their day, month or year in UTC.
type rounding struct {
	zeros int // exponent of the power of ten: 2 for 100
	span  string
}

func newRounding(to string) *rounding {
	r := &rounding{zeros: 2, span: "month"}
	switch {
	case to == "":
	case to[0] == '1':
		r.zeros = len(to) - 1
	default:
		r.span = to
	}
	return r
}

func (r *rounding) int64(v int64) int64 {
	unit := jsonscan.Pow10[r.zeros]
	down := v - v%unit
	switch rest := v % unit; {
	case rest >= unit/2 && down <= math.MaxInt64-unit:
		return down + unit
	case rest <= -unit/2 && down >= math.MinInt64+unit:
		return down - unit
	}
	return down
}

func (r *rounding) decimal(v decimal128.Num, precision, scale int32) decimal128.Num {
	places := int(scale) + r.zeros
	if places > 38 {
		return decimal128.Num{} // a decimal has at most 38 digits, so each is less than half a unit and is rounded to 0
	}
	unit := decimal128.GetScaleMultiplier(places)
	_, rest := v.Div(unit)
	down := v.Sub(rest)
	if rest.Abs().Cmp(unit.Sub(rest.Abs())) < 0 {
		return down
	}
	up := down.Add(unit)
	if v.Sign() < 0 {
		up = down.Sub(unit)
	}
	if !up.FitsInPrecision(precision) {
		return down
	}
	return up
}

func (r *rounding) float64(v float64) float64 {
	unit := float64(jsonscan.Pow10[r.zeros])
	return math.Round(v/unit)*unit + 0 // adding 0 turns negative zero into zero
}

func (r *rounding) time(t time.Time) time.Time {
	t = t.UTC()
	y, m, d := t.Date()
	switch r.span {
	case "year":
		m, d = time.January, 1
	case "month":
		d = 1
	}
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

func (r *rounding) micros(v int64) int64 { return r.time(time.UnixMicro(v)).UnixMicro() }

func (r *rounding) days(v int32) int32 {
	return int32(r.time(time.Unix(int64(v)*86400, 0)).Unix() / 86400)
}

func (r *rounding) appendText(dst, text []byte) (out []byte, ok bool) {
	if len(text) <= 64 && jsonscan.IsNumber(text) {
		n := jsonscan.ParseNumeral(text, nil)
		return r.appendNumeral(dst, &n), true
	}
	if v, ok := jsonscan.ParseDate(text); ok {
		return time.Unix(int64(r.days(v))*86400, 0).UTC().AppendFormat(dst, time.DateOnly), true
	}
	if v, ok := jsonscan.ParseTime(text); ok {
		return time.UnixMicro(r.micros(v)).UTC().AppendFormat(dst, time.RFC3339Nano), true
	}
	return dst, false
}

// maxZeros is the largest exponent that is written out as zeros. A number with a larger exponent, such as 1e500,
// stays unchanged.
const maxZeros = 400

func appendSign(dst []byte, n *jsonscan.Numeral) []byte {
	if n.Negative && len(n.Digits) > 0 {
		return append(dst, '-')
	}
	return dst
}

func (r *rounding) appendNumeral(dst []byte, n *jsonscan.Numeral) []byte {
	gone := n.Scale + r.zeros
	kept := []byte{}
	if gone <= 0 && n.Scale < -maxZeros {
		return append(dst, n.Raw...)
	}
	if gone <= 0 {
		dst = appendSign(dst, n)
		return append(append(dst, n.Digits...), bytes.Repeat([]byte{'0'}, -n.Scale)...)
	}
	up := gone <= len(n.Digits) && n.Digits[len(n.Digits)-gone] >= '5'
	if gone < len(n.Digits) {
		kept = slices.Clone(n.Digits[:len(n.Digits)-gone])
	}
	if up {
		kept = increment(kept)
	}
	if len(kept) == 0 {
		return append(dst, '0')
	}
	dst = appendSign(dst, n)
	return append(append(dst, kept...), bytes.Repeat([]byte{'0'}, r.zeros)...)
}

func increment(digits []byte) []byte {
	for i := len(digits) - 1; i >= 0; i-- {
		if digits[i] < '9' {
			digits[i]++
			return digits
		}
		digits[i] = '0'
	}
	return append([]byte{'1'}, digits...)
}
