package transform

import (
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

func FuzzCompare(f *testing.F) {
	for _, s := range []string{"", "1", "-0", "1.50", "1e3", "1e999999999", "99999999999999999999999", "2026-01-31", "2026-01-31T12:00:00+02:00", "true", "open", "0x10", "1_000", "٣"} {
		f.Add(s, "1.5")
		f.Add("2026-02-01", s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if !utf8.ValidString(a) || !utf8.ValidString(b) {
			return
		}
		la, lb := newLimit(a), newLimit(b)
		order, ok := compareText([]byte(a), &lb)
		quoted, err := jsontext.AppendQuote(nil, a)
		require.NoError(t, err)
		same, sameOK := compareJSON(quoted, &lb)
		require.Equal(t, [2]any{order, ok}, [2]any{same, sameOK})
		if number, _ := numberIn([]byte(a)), numberIn([]byte(b)); number != nil {
			bare, _ := compareJSON([]byte(a), &lb)
			require.Equal(t, order, bare)
		}
		if a == "true" || a == "false" || b == "true" || b == "false" {
			return
		}
		back, backOK := compareText([]byte(b), &la)
		require.Equal(t, ok, backOK)
		require.Equal(t, order, -back)
		if a == b {
			require.True(t, ok && order == 0)
		}
	})
}
