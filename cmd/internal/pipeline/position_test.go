package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

func TestPositionKeepsTheSourcesCursorByteForByte(t *testing.T) {
	for _, at := range []state.Cursor{
		"", "17", `{"page":3}`, `{ "page" : 3, "q":"<&>" }`, `"quoted"`, `["a"]`, "{not json", "a\"b\\c\n\u2028", `{"a":1}{"b":2}`,
	} {
		for _, end := range []bool{false, true} {
			p := position{pass: "0123456789ab#2", at: at, end: end}
			got, err := decodePosition(p.encode())
			require.NoError(t, err, "cursor %q", p.encode())
			require.Equal(t, p, got, "cursor %q", p.encode())
		}
	}
}

func TestPositionOfTheBeginningIsEmpty(t *testing.T) {
	require.Empty(t, position{}.encode())
	p, err := decodePosition("")
	require.NoError(t, err)
	require.Equal(t, position{}, p)
	require.False(t, p.midPass())
}

func TestDecodePositionRefusesInvalidCursors(t *testing.T) {
	for _, c := range []state.Cursor{"17", "{}", `{"pass":"a"}`, `{"pass":"","at":{}}`, "null", "{", `{"pass":"a","at":"\x"}`} {
		_, err := decodePosition(c)
		require.Error(t, err, "cursor %q", c)
	}
}

func FuzzDecodePosition(f *testing.F) {
	f.Add(`{"pass":"0123456789ab","at":{"page":3},"end":true}`)
	f.Add(`{"pass":"0123456789ab","at":"x"}`)
	f.Fuzz(func(t *testing.T, stored string) {
		p, err := decodePosition(state.Cursor(stored))
		if err != nil {
			return
		}
		again, err := decodePosition(p.encode())
		require.NoError(t, err)
		require.Equal(t, p, again)
	})
}
