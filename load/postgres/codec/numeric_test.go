package codec

import (
	"math/big"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNumericLayout(t *testing.T) {
	for _, c := range []struct {
		units string
		scale int32
		want  []byte
	}{
		{"0", 2, []byte{0, 0, 0, 0, 0, 0, 0, 2}},
		{"150", 2, []byte{0, 2, 0, 0, 0, 0, 0, 2, 0, 1, 0x13, 0x88}},
		{"-1", 4, []byte{0, 1, 0xff, 0xff, 0x40, 0, 0, 4, 0, 1}},
		{"1", 5, []byte{0, 1, 0xff, 0xfe, 0, 0, 0, 5, 0x03, 0xe8}},
		{"10000", 0, []byte{0, 1, 0, 1, 0, 0, 0, 0, 0, 1}},
	} {
		units, _ := new(big.Int).SetString(c.units, 10)
		require.Equal(t, c.want, appendNumeric(nil, decimal128.FromBigInt(units), c.scale), "%s at scale %d", c.units, c.scale)
	}
}

func TestNumericRoundTrip(t *testing.T) {
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(38), nil)
	rapid.Check(t, func(t *rapid.T) {
		scale := rapid.Int32Range(0, 38).Draw(t, "scale")
		units := new(big.Int).SetBytes(rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "units"))
		units.Mod(units, limit)
		if rapid.Bool().Draw(t, "negative") {
			units.Neg(units)
		}
		v, err := decimalOf(appendNumeric(nil, decimal128.FromBigInt(units), scale), scale)
		require.NoError(t, err)
		require.Zero(t, units.Cmp(v.BigInt()), "%s at scale %d came back as %s", units, scale, v.BigInt())
	})
}
