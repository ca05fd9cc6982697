package state

import (
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func openInbox(t testing.TB, dir string, o InboxOptions) *InboxFile {
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

func appended(t testing.TB, b *InboxFile, e Event) Appended {
	t.Helper()
	was, err := b.Append(t.Context(), e)
	require.NoError(t, err)
	return was
}

func events(t testing.TB, b *InboxFile, source string, after int64, limit int) []Event {
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
		all, err := b.Backlogs(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(3), all[0].Head)
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

func TestInboxRepetitions(t *testing.T) {
	dir := t.TempDir()
	b := openInbox(t, dir, InboxOptions{})
	appended(t, b, event(1))
	changed := event(1)
	changed.Body = []byte("another body")
	elsewhere := event(1)
	elsewhere.Source = "other"
	nameless := event(0)
	nameless.ID = ""
	check := func(when string) {
		t.Helper()
		require.Equal(t, Duplicate, appended(t, b, event(1)), when)
		require.Equal(t, Duplicate, appended(t, b, changed), when)
		require.Equal(t, Duplicate, appended(t, b, elsewhere), when)
		require.Equal(t, Stored, appended(t, b, nameless), "%s: a delivery without an id is always new", when)
	}
	require.Equal(t, Conflicting, appended(t, b, changed))
	require.Equal(t, Stored, appended(t, b, elsewhere), "the same id of another source is not a repetition")
	check("at once")
	var conflicts []bool
	for _, e := range events(t, b, "main", 0, 3) {
		conflicts = append(conflicts, e.Conflict)
	}
	require.Equal(t, []bool{true, true, false}, conflicts, "both deliveries are marked")

	require.NoError(t, b.Close())
	b = openInbox(t, dir, InboxOptions{})
	check("after a restart")
	require.NoError(t, b.Trim(t.Context(), "main", 1e9))
	require.NoError(t, b.Trim(t.Context(), "other", 1e9))
	require.Empty(t, events(t, b, "main", 0, 10))
	check("after trimming")
	require.NoError(t, b.Close())
	b = openInbox(t, dir, InboxOptions{})
	check("after trimming and a restart")
}

func TestInboxConflictWithinAGroup(t *testing.T) {
	b := openInbox(t, t.TempDir(), InboxOptions{})
	var group []*Delivery
	for _, body := range []string{"a", "b", "a", "b", "c"} {
		d, err := NewDelivery(Event{Source: "main", ID: "evt", Body: []byte(body)})
		require.NoError(t, err)
		group = append(group, d)
	}
	b.commit(group)
	var was []Appended
	for _, d := range group {
		require.NoError(t, d.Err)
		was = append(was, d.Previous)
	}
	require.Equal(t, []Appended{Stored, Conflicting, Duplicate, Duplicate, Conflicting}, was)
	for _, e := range events(t, b, "main", 0, 10) {
		require.True(t, e.Conflict)
	}
}

func TestInboxQuota(t *testing.T) {
	dir := t.TempDir()
	b := openInbox(t, dir, InboxOptions{Quota: 1000})
	appended(t, b, event(1))
	for n := 2; ; n++ {
		_, err := b.Append(t.Context(), event(n))
		if err != nil {
			require.ErrorIs(t, err, ErrInboxFull)
			break
		}
		require.Less(t, n, 10, "a quota of 1000 bytes has no room for ten events")
	}
	require.Equal(t, Duplicate, appended(t, b, event(1)), "a stored event can be acknowledged again")
	require.NoError(t, b.Close())
	b = openInbox(t, dir, InboxOptions{Quota: 1000})
	_, err := b.Append(t.Context(), event(100))
	require.ErrorIs(t, err, ErrInboxFull, "the quota also applies after a restart")
	require.NoError(t, b.Trim(t.Context(), "main", 1))
	require.Equal(t, Stored, appended(t, b, event(100)), "after trimming, there is room again")
	require.NoError(t, b.Trim(t.Context(), "main", 1e9))
	all, err := b.Backlogs(t.Context())
	require.NoError(t, err)
	require.Zero(t, all[0].Bytes, "trimmed events are not counted")
}

func TestInboxDeadLetters(t *testing.T) {
	ctx, b := t.Context(), openInbox(t, t.TempDir(), InboxOptions{})
	for n := 1; n <= 3; n++ {
		appended(t, b, event(n))
	}
	require.NoError(t, b.Quarantine(ctx, 2, "no JSON"))
	require.ErrorIs(t, b.Quarantine(ctx, 77, "x"), ErrNoEvent)
	require.Len(t, events(t, b, "main", 0, 10), 3, "a dead letter is still returned, because another reader may have to apply it")
	require.NoError(t, b.Trim(ctx, "main", 3))
	dead, err := b.DeadLetters(ctx, "main", 0, 10)
	require.NoError(t, err)
	require.Len(t, dead, 1, "trimming keeps dead letters")
	require.Equal(t, "no JSON", dead[0].Reason)
	require.Equal(t, "evt_2", dead[0].ID)
	require.Equal(t, Duplicate, appended(t, b, event(2)))

	next, err := b.AppendAgain(ctx, 2)
	require.NoError(t, err)
	require.Equal(t, int64(4), next)
	require.Equal(t, int64(4), events(t, b, "main", 3, 10)[0].Ordinal)
	next, err = b.AppendAgain(ctx, 4)
	require.NoError(t, err)
	require.Len(t, events(t, b, "main", 3, 10), 2, "a queued event is applied once more")
	require.Equal(t, int64(5), next)
	_, err = b.AppendAgain(ctx, 1)
	require.ErrorIs(t, err, ErrNoEvent, "the event was trimmed")
	require.Equal(t, Stored, appended(t, b, event(9)))
	require.NoError(t, b.Trim(ctx, "main", 1e9))
	all, err := b.Backlogs(ctx)
	require.NoError(t, err)
	require.Equal(t, []SourceBacklog{{Source: "main", Head: 6, Trimmed: 6}}, all)
}

func TestInboxCaptures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, dir := t.Context(), t.TempDir()
		b, err := OpenInbox(ctx, dir, InboxOptions{})
		require.NoError(t, err)
		defer b.Close()
		e := event(1)
		for n := range CaptureLimit {
			e.Received, e.From = time.Now(), fmt.Sprint(n/10)
			e.Body = fmt.Appendf(nil, "%d", n)
			require.NoError(t, b.Capture(ctx, e))
		}
		all, err := b.Captures(ctx, "main")
		require.NoError(t, err)
		require.Len(t, all, CaptureLimit)
		require.Equal(t, "0", string(all[0].Body))
		require.Equal(t, e.Header, all[0].Header)
		require.Empty(t, all[0].Scheme)
		require.Empty(t, events(t, b, "main", 0, 10), "a capture is not an event")

		require.NoError(t, b.Forget(ctx, "main", all[9].Ordinal))
		all, err = b.Captures(ctx, "main")
		require.NoError(t, err)
		require.Len(t, all, CaptureLimit-10)

		time.Sleep(CaptureAge)
		all, err = b.Captures(ctx, "main")
		require.NoError(t, err)
		require.Empty(t, all, "captures are deleted after CaptureAge")
		e.Received = time.Now()
		require.NoError(t, b.Capture(ctx, e))
	})
}

func TestReadInbox(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	_, err := ReadInbox(ctx, dir)
	require.ErrorIs(t, err, fs.ErrNotExist)
	b := openInbox(t, dir, InboxOptions{})
	_, err = OpenInbox(ctx, dir, InboxOptions{})
	require.ErrorIs(t, err, ErrLocked)
	r, err := ReadInbox(ctx, dir)
	require.NoError(t, err)
	appended(t, b, event(1))
	require.Len(t, events(t, r, "main", 0, 10), 1)
	_, err = r.Append(ctx, event(2))
	require.ErrorIs(t, err, ErrInboxClosed)
	require.ErrorContains(t, r.Quarantine(ctx, 1, "x"), "opened for reading")
	require.NoError(t, r.Close())
}

func TestInboxClosed(t *testing.T) {
	b := openInbox(t, t.TempDir(), InboxOptions{})
	require.NoError(t, b.Close())
	_, err := b.Append(t.Context(), event(1))
	require.ErrorIs(t, err, ErrInboxClosed)
}

func TestInboxForgetsOldIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		b, err := OpenInbox(ctx, t.TempDir(), InboxOptions{})
		require.NoError(t, err)
		defer b.Close()
		const n = 2000
		fill := func(from int) {
			var group []*Delivery
			for i := range n {
				d, err := NewDelivery(event(from + i))
				require.NoError(t, err)
				group = append(group, d)
			}
			b.commit(group)
			require.NoError(t, b.Trim(ctx, "main", 1e9))
		}
		ids := func() (n int) {
			require.NoError(t, b.file.read.QueryRowContext(ctx, "SELECT count(*) FROM ids").Scan(&n))
			return n
		}
		fill(0)
		require.Equal(t, n, ids())
		time.Sleep(keepIDs - 24*time.Hour)
		for range 256 / sweeps {
			require.NoError(t, b.file.change(ctx, func(tx *sql.Tx) error { return b.account.file(ctx, inboxTx{tx, b.compiled}) }))
		}
		require.Equal(t, n, ids(), "no id is forgotten before 90 days have passed")
		time.Sleep(3 * 24 * time.Hour)
		fill(n)
		for range 256 / sweeps {
			require.NoError(t, b.file.change(ctx, func(tx *sql.Tx) error { return b.account.file(ctx, inboxTx{tx, b.compiled}) }))
		}
		require.Equal(t, n, ids())
		require.Equal(t, Stored, appended(t, b, event(0)), "the id is forgotten")
		require.Equal(t, Duplicate, appended(t, b, event(n)))
	})
}

func TestInboxShrinks(t *testing.T) {
	dir := t.TempDir()
	b := openInbox(t, dir, InboxOptions{})
	var group []*Delivery
	for n := range 40 {
		e := event(n)
		e.Body = make([]byte, 1<<20)
		d, err := NewDelivery(e)
		require.NoError(t, err)
		group = append(group, d)
	}
	b.commit(group)
	require.NoError(t, group[0].Err)
	require.LessOrEqual(t, len(events(t, b, "main", 0, 100)), eventsBytes>>20, "a call returns at most eventsBytes")
	require.NoError(t, b.Trim(t.Context(), "main", 1e9))
	require.NoError(t, b.Close()) // merges the WAL into the file
	info, err := os.Stat(inboxPath(dir))
	require.NoError(t, err)
	require.LessOrEqual(t, info.Size(), int64(spareBytes+1<<20))
}

func TestInboxFileRemoved(t *testing.T) {
	dir := t.TempDir()
	b := openInbox(t, dir, InboxOptions{})
	appended(t, b, event(1))
	require.NoError(t, os.Rename(inboxPath(dir), inboxPath(dir)+".away"))
	b.file.looked = time.Time{}
	_, err := b.Append(t.Context(), event(2))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, os.WriteFile(inboxPath(dir), nil, 0o600))
	_, err = b.Append(t.Context(), event(2))
	require.ErrorContains(t, err, "was replaced")
}
