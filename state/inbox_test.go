package state

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func openInbox(t testing.TB, dir string, o InboxOptions) *Inbox {
	t.Helper()
	b, err := OpenInbox(t.Context(), dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

func event(n int) Event {
	return Event{
		Source: "main", ID: fmt.Sprintf("evt_%d", n), Type: "crm.lead.created", Scheme: "pinned-1",
		Received: time.Unix(1764000000, 123456000).UTC(), Header: map[string]string{"Service-Signature": "t=1"},
		Body: fmt.Appendf(nil, `{"id":"evt_%d"}`, n),
	}
}

func appended(t testing.TB, b *Inbox, e Event) Appended {
	t.Helper()
	was, err := b.Append(t.Context(), e)
	require.NoError(t, err)
	return was
}

func events(t testing.TB, b *Inbox, source string, after int64, limit int) []Event {
	t.Helper()
	es, err := b.Events(t.Context(), source, after, limit)
	require.NoError(t, err)
	return es
}

func TestInboxAppend(t *testing.T) {
	dir := t.TempDir()
	b := openInbox(t, dir, InboxOptions{})
	require.Equal(t, Stored, appended(t, b, event(1)))
	odd := Event{Source: "other\x00\xff", ID: "\x00\xff'", Type: "../../x", Received: event(1).Received, Body: nil}
	require.Equal(t, Stored, appended(t, b, odd))
	require.Equal(t, Stored, appended(t, b, event(2)))

	want := event(1)
	want.Ordinal = 1
	second := event(2)
	second.Ordinal = 3
	odd.Ordinal = 2
	for range 2 {
		require.Equal(t, []Event{want, second}, events(t, b, "main", 0, 10))
		require.Equal(t, []Event{want}, events(t, b, "main", 0, 1))
		require.Equal(t, []Event{second}, events(t, b, "main", 1, 10))
		require.Equal(t, []Event{odd}, events(t, b, odd.Source, 0, 10))
		require.Empty(t, events(t, b, "nobody", 0, 10))
		head, err := b.Head(t.Context(), "main")
		require.NoError(t, err)
		require.Equal(t, int64(3), head)
		require.NoError(t, b.Close())
		b = openInbox(t, dir, InboxOptions{})
	}
}

func TestInboxManyAtOnce(t *testing.T) {
	b := openInbox(t, t.TempDir(), InboxOptions{})
	var wg sync.WaitGroup
	const senders, each = 64, 50
	for s := range senders {
		wg.Go(func() {
			for n := range each {
				was, err := b.Append(t.Context(), event(s*each+n))
				require.NoError(t, err)
				require.Equal(t, Stored, was)
			}
		})
	}
	wg.Wait()
	all := events(t, b, "main", 0, 1e6)
	require.Len(t, all, senders*each)
	for i, e := range all {
		require.Equal(t, int64(i+1), e.Ordinal)
	}
}
