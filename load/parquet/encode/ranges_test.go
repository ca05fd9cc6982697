package encode

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestShortBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune{utf8.MaxRune, 0xd7ff, 0xffff, 'a'}))).Draw(t, "text"))
		low, high := below(text), above(text)
		require.LessOrEqual(t, bytes.Compare(low, text), 0)
		require.LessOrEqual(t, utf8.RuneCount(low), longBound)
		require.True(t, utf8.Valid(low))
		if high != nil {
			require.GreaterOrEqual(t, bytes.Compare(high, text), 0)
			require.LessOrEqual(t, utf8.RuneCount(high), longBound)
			require.True(t, utf8.Valid(high))
		} else {
			require.Greater(t, utf8.RuneCount(text), longBound)
		}
	})
}
