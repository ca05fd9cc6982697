//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/state"
)

var steps = []string{"begun", "changed", "committed"}

// The server is killed at each step of an operation. Afterwards, an acknowledged event must be stored. An event that
// was not acknowledged must be stored at most once. A unit, a slot and a lease must have one owner. // Invariant 3
func TestServerKilledAtEveryStep(t *testing.T) {
	if testing.Short() {
		t.Skip("restarts a server many times")
	}
	server := pgtest.Start(t, "fsync=on", "full_page_writes=on")
	url := in(t, server.URL())
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			armed := false
			var mu sync.Mutex
			s := New(Options{URL: url, Keys: key(t), Step: func(name string) error {
				mu.Lock()
				defer mu.Unlock()
				if armed && name == step {
					armed = false
					server.Restart(true)
				}
				return nil
			}})
			defer s.Close()
			arm := func() { mu.Lock(); armed = true; mu.Unlock() }
			b, err := s.OpenInbox(t.Context(), state.InboxOptions{})
			require.NoError(t, err)
			defer b.Close()
			j, err := s.OpenJournal(t.Context())
			require.NoError(t, err)
			defer j.Close()
			appendsWhole(t, b, step, arm)
			units, err := s.OpenUnits(t.Context())
			require.NoError(t, err)
			unitsWhole(t, units, step, arm)
			slotOnce(t, j, step, arm)
			arm()
			l, err := s.Lease(t.Context(), "p", step, time.Minute)
			require.NoError(t, err)
			_, err = s.Lease(t.Context(), "p", step, time.Millisecond)
			require.ErrorIs(t, err, state.ErrLocked)
			require.NoError(t, l.Release())
		})
	}
}

func appendsWhole(t *testing.T, b state.Inbox, step string, arm func()) {
	e := state.Event{Source: step, ID: "evt", Body: []byte("{}"), Received: time.Now()}
	arm()
	was, err := b.Append(t.Context(), e)
	for deadline := time.Now().Add(time.Minute); err != nil && time.Now().Before(deadline); {
		was, err = b.Append(t.Context(), e)
	}
	require.NoError(t, err)
	require.Contains(t, []state.Appended{state.Stored, state.Duplicate}, was)
	all, err := b.Events(t.Context(), step, 0, 10)
	require.NoError(t, err)
	require.Len(t, all, 1)
}

func unitsWhole(t *testing.T, l state.UnitStore, step string, arm func()) {
	ctx := t.Context()
	arm()
	added, err := l.AddUnits(ctx, []state.Unit{{Run: step, Pipeline: step, Part: "a"}, {Run: step, Pipeline: step, Part: "b"}})
	require.NoError(t, err)
	require.Len(t, added, 2)
	arm()
	var mine []state.Unit
	require.Eventually(t, func() bool { // if the answer was lost, the claim must first expire
		mine, err = l.ClaimUnits(ctx, state.Claim{Worker: step, For: 100 * time.Millisecond, Pipeline: step})
		require.NoError(t, err)
		return len(mine) == 2
	}, time.Minute, 10*time.Millisecond)
	arm()
	mine[0].State = state.UnitDone
	require.NoError(t, l.EndAttempts(ctx, mine[:1]))
	all, err := l.Units(ctx, state.UnitFilter{Run: step})
	require.NoError(t, err)
	require.Equal(t, []state.UnitState{state.UnitDone, state.UnitRunning}, []state.UnitState{all[0].State, all[1].State})
}

func slotOnce(t *testing.T, j state.Journal, step string, arm func()) {
	ctx := t.Context()
	due := time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC)
	_, err := j.Seen(ctx, step, "@hourly", due.Add(-time.Hour))
	require.NoError(t, err)
	arm()
	slots, err := j.AddSlots(ctx, step, due, []state.SlotRecord{{Due: due, State: state.SlotWaiting}})
	require.NoError(t, err)
	require.Len(t, slots, 1, "the process knows that it has added the slot, although the answer was lost")
}

// A process was suspended. Meanwhile it has lost its lease, so its writes are refused. // Invariant 13
func TestFrozenHolder(t *testing.T) {
	server := pgtest.Start(t)
	o := Options{URL: in(t, server.URL()), Keys: key(t)}
	a, b := New(o), New(o)
	defer a.Close()
	defer b.Close()
	frozen := a.Vault().Entry("token")
	l, err := frozen.Lock(t.Context(), 0)
	require.NoError(t, err)
	require.NoError(t, frozen.SetSecret([]byte("old")))
	_, err = a.db.Exec(t.Context(), "UPDATE leases SET until = clock_timestamp()") // make the lease expire now
	require.NoError(t, err)
	heir := b.Vault().Entry("token")
	next, err := heir.Lock(t.Context(), time.Minute)
	require.NoError(t, err)
	require.Greater(t, next.Token(), l.Token())
	require.NoError(t, heir.SetSecret([]byte("new")))
	require.ErrorIs(t, frozen.SetSecret([]byte("stale")), state.ErrLocked)
	text, err := heir.Secret()
	require.NoError(t, err)
	require.Equal(t, "new", string(text))
	kept, err := l.(*lease).renew(t.Context())
	require.NoError(t, err)
	require.False(t, kept)
	require.NoError(t, l.Release())
	require.NoError(t, next.Release())
}

// No secret may be in plain text in the database or in an error. // Invariant 5
func TestNoClearText(t *testing.T) {
	server := pgtest.Start(t)
	url := in(t, server.URL())
	s := New(Options{URL: url, Keys: key(t)})
	defer s.Close()
	entry := s.Vault().Entry("token")
	l, err := entry.Lock(t.Context(), 0)
	require.NoError(t, err)
	require.NoError(t, entry.SetSecret([]byte("tok_in_clear")))
	require.NoError(t, l.Release())
	var kept string
	require.NoError(t, s.db.QueryRow(t.Context(), "SELECT encode(secret, 'escape') FROM secrets").Scan(&kept))
	require.True(t, strings.HasPrefix(kept, "age-encryption.org/v1"))
	require.NotContains(t, kept, "tok_in_clear")

	other := New(Options{URL: url, Keys: key(t)})
	defer other.Close()
	_, err = other.Vault().Entry("token").Secret()
	require.ErrorContains(t, err, "another key")
	none := New(Options{URL: url})
	defer none.Close()
	_, err = none.Vault().Entry("token").Lock(t.Context(), 0)
	require.ErrorIs(t, err, ErrNoKey)

	require.ErrorIs(t, entry.Remove(), state.ErrLocked, "the caller does not hold the lock of the entry")
	l, err = entry.Lock(t.Context(), 0)
	require.NoError(t, err)
	require.NoError(t, entry.SetNote([]byte("note")))
	require.NoError(t, entry.Remove())
	require.NoError(t, l.Release())
	text, err := entry.Secret()
	require.NoError(t, err)
	require.Nil(t, text)
	text, err = entry.Note()
	require.NoError(t, err)
	require.Equal(t, "note", string(text))
	var left int
	require.NoError(t, s.db.QueryRow(t.Context(), "SELECT count(secret) FROM secrets").Scan(&left))
	require.Zero(t, left, "after Remove, the database has no part of the secret")

	for _, at := range []string{"postgres://u:hushhush@127.0.0.1:1/x?sslmode=disable", "postgres://u:hushhush@:x:1/%zz"} {
		away := New(Options{URL: at})
		_, _, err := away.Migrate(t.Context())
		require.NoError(t, away.Close())
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hushhush")
	}
}

func BenchmarkInboxAppend(b *testing.B) {
	server := pgtest.Start(b, "fsync=on", "full_page_writes=on")
	s := New(Options{URL: server.URL() + "&search_path=bench"})
	defer s.Close()
	_, _, err := s.Migrate(b.Context())
	require.NoError(b, err)
	in, err := s.OpenInbox(b.Context(), state.InboxOptions{})
	require.NoError(b, err)
	defer in.Close()
	body := []byte(`{"id":"evt","data":"` + strings.Repeat("x", 900) + `"}`)
	var wg sync.WaitGroup
	work := make(chan int)
	for range 64 {
		wg.Go(func() {
			for n := range work {
				_, err := in.Append(b.Context(), state.Event{Source: "main", ID: fmt.Sprint(n), Body: body, Received: time.Now()})
				if err != nil && !errors.Is(err, state.ErrInboxFull) {
					b.Error(err)
				}
			}
		})
	}
	n := 0
	for b.Loop() {
		n++
		work <- n
	}
	close(work)
	wg.Wait()
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
}

// The owner of the database forges the secret of an entry: first with a copy of another entry's secret, and then with
// an encrypted text that names no entry. The store must refuse both. // Invariant 10
func TestSecretsAreBound(t *testing.T) {
	server := pgtest.Start(t)
	o := Options{URL: in(t, server.URL()), Keys: key(t)}
	s := New(o)
	defer s.Close()
	for _, name := range []string{"a", "b"} {
		entry := s.Vault().Entry(name).For("https://" + name + ".test")
		l, err := entry.Lock(t.Context(), time.Second)
		require.NoError(t, err)
		require.NoError(t, entry.SetSecret([]byte("of "+name)))
		require.NoError(t, l.Release())
	}
	b := s.Vault().Entry("b").For("https://b.test")
	text, err := b.Secret()
	require.NoError(t, err)
	require.Equal(t, "of b", string(text), "control")
	_, err = s.db.Exec(t.Context(), "UPDATE secrets SET secret = (SELECT secret FROM secrets WHERE name = 'a') WHERE name = 'b'")
	require.NoError(t, err)
	_, err = b.Secret()
	require.ErrorIs(t, err, state.ErrBound)
	_, err = s.Vault().Entry("a").For("https://b.test").Secret()
	require.ErrorIs(t, err, state.ErrBound)
	sealed, err := state.Seal(o.Keys, []byte("of an older version"))
	require.NoError(t, err)
	_, err = s.db.Exec(t.Context(), "UPDATE secrets SET secret = $1 WHERE name = 'b'", sealed)
	require.NoError(t, err)
	_, err = b.Secret()
	require.ErrorIs(t, err, state.ErrBound)
}
