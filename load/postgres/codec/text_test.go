package codec

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFits(t *testing.T) {
	for _, c := range []struct {
		doc          string
		json, binary bool
	}{
		{`{"a":[1,2.50,null],"b":"\u00e9"}`, true, true},
		{` "text" `, true, true},
		{`12345678901234567890.5`, true, true},
		{`-0.5e3`, true, true},
		{`"\ud83d\ude00"`, true, true},
		{`{"a":"\u0000"}`, true, false},
		{`{"\u0000":1}`, true, false},
		{`"\ud800"`, true, false},
		{`{"a":1,"\u0061":2}`, true, false},
		{`-0.0`, true, false},
		{`1e400000`, true, false},
		{strings.Repeat("9", 20000), true, false},
		{"{\"a\":\"x\x00\"}", false, false},
		{"\"\xff\"", false, false},
		{`{"a":1} 2`, false, false},
		{`-0[]`, false, false},
		{`{"a":`, false, false},
		{`nope`, false, false},
		{``, false, false},
		{strings.Repeat("[", 2000) + strings.Repeat("]", 2000), false, false},
	} {
		require.Equal(t, c.json, fits([]byte(c.doc), false), "json %.50q", c.doc)
		require.Equal(t, c.binary, fits([]byte(c.doc), true), "jsonb %.50q", c.doc)
	}
}

func TestVisible(t *testing.T) {
	require.Equal(t, `a\u0000b\xffü`, EscapeText("a\x00b\xffü"))
	require.Equal(t, "\ufffd", EscapeText("\ufffd"), "a replacement character in the input stays")
}

// FuzzFits compares the fast check of documents with the slow one.
func FuzzFits(f *testing.F) {
	for _, doc := range []string{`{"a":[1,2.5e3,null,"\u0000"]}`, `-0`, `"\ud800"`, `{"a":1,"\u0061":2}`, ` [] `, `[1] 2`, `5[]`, "\"\xff\"", ``} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		for _, binary := range []bool{false, true} {
			if plain(doc) {
				require.Equal(t, fitsSlowly(doc, binary), fits(doc, binary), "%q as jsonb %t", doc, binary)
			}
		}
	})
}
