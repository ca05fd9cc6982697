package load

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzAppendQuoted(f *testing.F) {
	for c := range 0x80 {
		f.Add(string(rune(c)))
	}
	f.Add("a\"b\\c\u2028é<&>")
	f.Fuzz(func(t *testing.T, text string) {
		var got string
		require.NoError(t, json.Unmarshal(AppendQuoted(nil, text), &got))
		var want string
		encoded, err := json.Marshal(text)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(encoded, &want))
		require.Equal(t, want, got)
	})
}

func TestAppendQuoted(t *testing.T) {
	require.Equal(t, `x"a\"\\\b\t\n\f\r\u0000\u001fé<&/`+"\u2028\x7f"+`"`, string(AppendQuoted([]byte("x"), "a\"\\\b\t\n\f\r\x00\x1fé<&/\u2028\x7f")))
}
