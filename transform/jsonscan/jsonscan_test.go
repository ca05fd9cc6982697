package jsonscan

import (
	"encoding/json"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func FuzzValue(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e3,null,true],"b":{"c":"x\u00e9\n"}}`, `[]`, `[{}]`, `"\ud83d\ude00"`, `01`, `[1,]`, `{"a" 1}`, `-`, `"x`, `tru`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var w Walker
		b := Pad([]byte(s))
		i := Space(b, 0)
		end, _, ok := w.Value(b, i)
		require.Equal(t, json.Valid([]byte(s)), ok && Space(b, end) == len(s))
		if !ok || b[i] != '"' || Space(b, end) != len(s) {
			return
		}
		var sc Scanner
		if content, end := sc.String(b, i); end > 0 {
			var want string
			require.NoError(t, json.Unmarshal([]byte(s), &want))
			require.Equal(t, want, string(content))
		}
	})
}

func TestNumerals(t *testing.T) {
	for _, s := range []string{"0", "-0", "7", "-7.50", "1e3", "12.5e-4", "123456789012345678901234567890.12", "-99999999999999999999"} {
		require.True(t, IsNumber([]byte(s)), s)
		n := ParseNumeral([]byte(s), nil)
		high, low := n.Int128(10)
		got := new(big.Int).Lsh(big.NewInt(high), 64)
		got.Add(got, new(big.Int).SetUint64(low))
		want, _ := new(big.Rat).SetString(s)
		want.Mul(want, new(big.Rat).SetInt64(1e10))
		if n.Scale > 10 || len(n.Digits) > 28 {
			continue // more than 128 bits
		}
		require.Equal(t, want.Num().String(), got.String(), s)
	}
	for _, s := range []string{"", "-", "01", "1.", ".5", "1e", "1 ", "0x1"} {
		require.False(t, IsNumber([]byte(s)), s)
	}
}

func TestTimes(t *testing.T) {
	for _, s := range []string{"0001-01-01T00:00:00Z", "2024-02-29T23:59:59.123456+05:30", "9999-12-31T00:00:00-23:59"} {
		want, err := time.Parse(time.RFC3339Nano, s)
		require.NoError(t, err)
		got, ok := ParseTime([]byte(s))
		require.True(t, ok, s)
		require.Equal(t, want.UnixMicro(), got, s)
	}
	for _, s := range []string{"2023-02-29T00:00:00Z", "2024-01-01T00:00:60Z", "2024-01-01 00:00:00Z", "2024-01-01T00:00:00.1234567Z", "2024-01-01T00:00:00"} {
		_, ok := ParseTime([]byte(s))
		require.False(t, ok, s)
	}
}
