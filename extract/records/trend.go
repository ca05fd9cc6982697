package records

import (
	"cmp"
	"math/big"
	"strings"
)

type fieldTrend int

// The trends of a field.
const (
	Uneven fieldTrend = iota
	Rising
	Falling
)

// Trend reports whether a field rises or falls from row to row. It returns Uneven if the field does neither, or if a
// row lacks the field. It also returns Uneven if all values are equal, or if there are fewer than three rows.
func Trend(rows []Row, name string) fieldTrend {
	up, down, moved := true, true, false
	for i, r := range rows {
		v, ok := r[name]
		if !ok || v == "null" {
			return Uneven
		}
		if i == 0 {
			continue
		}
		c := compareJSON(rows[i-1][name], v)
		up, down, moved = up && c <= 0, down && c >= 0, moved || c != 0
	}
	switch {
	case len(rows) < 3 || !moved || up == down:
		return Uneven
	case up:
		return Rising
	}
	return Falling
}

func compareJSON(a, b string) int {
	x, ok := Decimal(a)
	y, also := Decimal(b)
	if ok && also {
		return x.Cmp(y)
	}
	return cmp.Compare(a, b)
}

// Decimal returns the value of a number. The number may be in quotes.
func Decimal(v string) (*big.Rat, bool) {
	v = strings.Trim(v, `"`)
	if v == "" || strings.Trim(v, "-.0123456789") != "" {
		return nil, false // a number with an exponent could be huge
	}
	return new(big.Rat).SetString(v)
}
