package codec

import (
	"encoding/binary"
	"errors"
	"math/big"
	"math/bits"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// In the binary form of a numeric, the decimal digits are in groups of four, aligned at the decimal point. First come
// the number of groups, the weight of the first group (as a power of 10,000), the sign, and the number of digits after
// the point. Then come the groups.
const (
	signPositive = 0x0000
	signNegative = 0x4000
	groupBase    = 10000
)

// digits128 is the greatest number of decimal digits of a 128-bit number.
const digits128 = 39

// ten19 is the greatest power of ten that fits in a uint64.
const ten19 = 10_000_000_000_000_000_000

// appendNumeric appends the decimal v with the given scale in the binary format.
func appendNumeric(b []byte, v decimal128.Num, scale int32) []byte {
	sign := uint16(signPositive)
	if v.Sign() < 0 {
		sign, v = signNegative, v.Negate()
	}
	// The four digits at each end fill up incomplete groups.
	var digits [4 + digits128 + 4]byte
	end := 4 + digits128
	for i, q := end-1, (quotient{uint64(v.HighBits()), v.LowBits()}); q != (quotient{}) && i >= 4; {
		var r uint64
		q, r = q.by19()
		for range 19 {
			if i < 4 {
				break
			}
			digits[i] = byte(r % 10)
			r /= 10
			i--
		}
	}
	point := end - int(scale)
	return appendGroups(b, digits[:], point%4, point, sign, scale)
}

// quotient is an unsigned 128-bit number.
type quotient struct{ hi, lo uint64 }

// by19 divides by 10^19 and returns quotient and remainder.
func (q quotient) by19() (quotient, uint64) {
	hi := q.hi / ten19
	lo, r := bits.Div64(q.hi%ten19, q.lo, ten19)
	return quotient{hi, lo}, r
}

// appendGroups appends digits[first:] in groups of four. It omits groups of zeros at both ends. The first digit after
// the decimal point is digits[point].
func appendGroups(b []byte, digits []byte, first, point int, sign uint16, scale int32) []byte {
	weight := (point-first)/4 - 1
	var groups [(4 + digits128 + 4) / 4]uint16
	n := 0
	for ; len(digits) >= first+4; first += 4 {
		d := digits[first : first+4]
		groups[n] = uint16(d[0])*1000 + uint16(d[1])*100 + uint16(d[2])*10 + uint16(d[3])
		n++
	}
	from := 0
	for from < n && groups[from] == 0 {
		from++
		weight--
	}
	for n > from && groups[n-1] == 0 {
		n--
	}
	if from == n {
		weight = 0
	}
	b = binary.BigEndian.AppendUint16(b, uint16(n-from))
	b = binary.BigEndian.AppendUint16(b, uint16(int16(weight)))
	b = binary.BigEndian.AppendUint16(b, sign)
	b = binary.BigEndian.AppendUint16(b, uint16(scale))
	for _, g := range groups[from:n] {
		b = binary.BigEndian.AppendUint16(b, g)
	}
	return b
}

var errNumeric = errors.New("numeric does not fit the column's decimal type")

// parseNumeric decodes a numeric. It returns the number without its decimal point, and the number of digits after the
// point. For 1.50, it returns 150 and 2.
func parseNumeric(b []byte) (units *big.Int, shown int32, err error) {
	if len(b) < 8 {
		return nil, 0, errNumeric
	}
	n, weight := int(binary.BigEndian.Uint16(b)), int(int16(binary.BigEndian.Uint16(b[2:])))
	sign, scale := binary.BigEndian.Uint16(b[4:]), int32(binary.BigEndian.Uint16(b[6:]))
	if len(b) < 8+2*n || sign != signPositive && sign != signNegative {
		return nil, 0, errNumeric // NaN and infinities have other signs
	}
	units = new(big.Int)
	base := big.NewInt(groupBase)
	for i := range n {
		units.Mul(units, base)
		units.Add(units, big.NewInt(int64(binary.BigEndian.Uint16(b[8+2*i:]))))
	}
	// The last group has the weight 10^(4·(weight-n+1)).
	shift(units, 4*(weight-n+1)+int(scale))
	if sign == signNegative {
		units.Neg(units)
	}
	return units, scale, nil
}

// shift multiplies v by 10^exponent. A negative exponent cuts off the last digits. Callers use it only if these digits
// are zeros.
func shift(v *big.Int, exponent int) {
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exponent, -exponent))), nil)
	if exponent >= 0 {
		v.Mul(v, power)
	} else {
		v.Quo(v, power)
	}
}

// decimalOf decodes a numeric as a decimal with the given scale.
func decimalOf(b []byte, scale int32) (decimal128.Num, error) {
	units, shown, err := parseNumeric(b)
	if err != nil {
		return decimal128.Num{}, err
	}
	if shown > scale {
		return decimal128.Num{}, errNumeric
	}
	shift(units, int(scale-shown))
	if units.BitLen() > 127 {
		return decimal128.Num{}, errNumeric
	}
	return decimal128.FromBigInt(units), nil
}

// numericString decodes a numeric as text.
func numericString(b []byte) (string, error) {
	if len(b) >= 8 {
		switch binary.BigEndian.Uint16(b[4:]) {
		case 0xc000:
			return "NaN", nil
		case 0xd000:
			return "Infinity", nil
		case 0xf000:
			return "-Infinity", nil
		}
	}
	units, shown, err := parseNumeric(b)
	if err != nil {
		return "", err
	}
	digits := new(big.Int).Abs(units).String()
	if n := int(shown) + 1 - len(digits); n > 0 {
		digits = strings.Repeat("0", n) + digits
	}
	if shown > 0 {
		digits = digits[:len(digits)-int(shown)] + "." + digits[len(digits)-int(shown):]
	}
	if units.Sign() < 0 {
		digits = "-" + digits
	}
	return digits, nil
}
