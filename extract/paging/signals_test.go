package paging

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

// If some signals were not examined, the pass is not proven. // Invariants 6, 14 and 15
func TestSignalsOfManyMembers(t *testing.T) {
	read := func(n int, format string) (Signals, signalReader) {
		var b strings.Builder
		b.WriteString(`{"data":[{"id":1}]`)
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		d := new(jsondoc.Doc)
		require.NoError(t, d.Scan([]byte(b.String()+`,"next_cursor":"abc"}`)))
		s := NoSignals
		r := signalReader{words: schemas.Paging(), d: d, n: 1, s: &s, skip: map[int]bool{8: true}}
		r.object(d.Root(), "", scope{trusted: true, top: true})
		s.settle()
		return s, r
	}
	for _, format := range []string{`,"m%07d":87`, `,"m%07d":"x"`, `,"next%07d":"x y"`} {
		s, r := read(50_000, format)
		require.LessOrEqual(t, len(s.Unread), maxUnread+1)
		last := s.Unread[len(s.Unread)-1]
		require.Equal(t, "beside the records: not all read", last.String(), format)
		require.Contains(t, s.Doubts(1<<40), last, "the signal is a number: a text that is the same on each page is ignored")
		require.Equal(t, "abc", s.Token, "the cursor after these members is found")
		require.Greater(t, r.doubted, maxDoubted)
	}
	s, _ := read(20, `,"m%07d":"x"`)
	require.Empty(t, s.Unread)
	s, _ = read(20, `,"m%07d":87`)
	require.Len(t, s.Unread, 20)
	s, _ = read(1, `,"next%07d":"`+strings.Repeat("y", 1<<20)+`"`)
	require.Len(t, s.Unread, 1)
	other, _ := read(1, `,"next%07d":"`+strings.Repeat("y", 1<<20)+`z"`)
	require.Less(t, len(s.Unread[0].Value), 1000)
	require.NotEqual(t, s.Unread[0].Value, other.Unread[0].Value, "two long values with the same beginning stay different")
}

func TestTwoHeadersForTheNextPage(t *testing.T) {
	h := http.Header{"X-Next-Cursor": {"abc"}, "X-Next-Page": {"2"}}
	for range 50 {
		s := NoSignals
		r := signalReader{words: schemas.Paging(), s: &s}
		r.header(h)
		require.Equal(t, "abc", s.Token)
	}
}
