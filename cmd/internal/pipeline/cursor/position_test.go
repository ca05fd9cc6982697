package cursor

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
			p := Position{Pass: "0123456789ab#2", Source: at, Ended: end}
			got, err := Decode(p.Encode())
			require.NoError(t, err, "cursor %q", p.Encode())
			require.Equal(t, p, got, "cursor %q", p.Encode())
		}
	}
}

func TestPositionOfTheBeginningIsEmpty(t *testing.T) {
	require.Empty(t, Position{}.Encode())
	p, err := Decode("")
	require.NoError(t, err)
	require.Equal(t, Position{}, p)
	require.False(t, p.MidPass())
}

func TestDecodePositionRefusesInvalidCursors(t *testing.T) {
	for _, c := range []state.Cursor{"17", "{}", `{"pass":"a"}`, `{"pass":"","at":{}}`, "null", "{", `{"pass":"a","at":"\x"}`, "{\"pass\":\"a\",\"at\":{\"b\xe7\":1}}"} {
		_, err := Decode(c)
		require.Error(t, err, "cursor %q", c)
	}
}

func FuzzDecodePosition(f *testing.F) {
	f.Add(`{"pass":"0123456789ab","at":{"page":3},"end":true}`)
	f.Add(`{"pass":"0123456789ab","at":"x"}`)
	f.Fuzz(func(t *testing.T, stored string) {
		p, err := Decode(state.Cursor(stored))
		if err != nil {
			return
		}
		again, err := Decode(p.Encode())
		require.NoError(t, err)
		require.Equal(t, p, again)
	})
}
