//go:build unix

package postgres

import (
	"context"
	"io"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/state"
)

func TestShared(t *testing.T) {
	server := pgtest.Start(t)
	for name, test := range map[string]func(*testing.T, *pgtest.Server){
		"later commits wait":               laterCommitsWait,
		"slot takeover, answer lost":       slotTakeoverAnswerLost,
		"lease lost while a renewal hangs": leaseLostWhileRenewalHangs,
		"concurrent migration, few rights": concurrentMigration,
	} {
		t.Run(name, func(t *testing.T) { test(t, server) })
	}
}

// A commit waits for an earlier commit that is slow. If it did not wait, a reader could see the later event first, and
// would never read the earlier event. Invariant 3
func laterCommitsWait(t *testing.T, server *pgtest.Server) {
	url := in(t, server.URL())
	reached, goOn := make(chan struct{}), make(chan struct{})
	var armed atomic.Bool
	slow := New(Options{URL: url, Step: func(name string) error {
		if name == "changed" && armed.CompareAndSwap(true, false) {
			close(reached)
			<-goOn
		}
		return nil
	}})
	quick := New(Options{URL: url})
	defer slow.Close()
	defer quick.Close()
	var boxes [2]state.Inbox
	for i, s := range []*Store{slow, quick} {
		b, err := s.OpenInbox(t.Context(), state.InboxOptions{})
		require.NoError(t, err)
		defer b.Close()
		boxes[i] = b
	}
	send := func(b state.Inbox, id string) {
		_, err := b.Append(t.Context(), state.Event{Source: "main", ID: id, Body: []byte("{}"), Received: time.Now()})
		require.NoError(t, err)
	}
	read := func(after int64) (ids []string, last int64) {
		all, err := boxes[1].Events(t.Context(), "main", after, 10)
		require.NoError(t, err)
		for _, e := range all {
			ids, last = append(ids, e.ID), e.Ordinal
		}
		return ids, last
	}
	send(boxes[1], "first")
	_, seen := read(0)
	armed.Store(true)
	var wg sync.WaitGroup
	wg.Go(func() { send(boxes[0], "slow") })
	<-reached
	wg.Go(func() { send(boxes[1], "quick") })
	waits := func() (n int) {
		require.NoError(t, quick.db.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'").Scan(&n))
		return n
	}
	require.Eventually(t, func() bool { return waits() == 1 }, time.Minute, 5*time.Millisecond)
	ids, _ := read(seen)
	require.Empty(t, ids)
	close(goOn)
	wg.Wait()
	ids, _ = read(seen)
	require.Equal(t, []string{"slow", "quick"}, ids)
}

// In this case, a process takes over a slot, but the answer of the database is lost. The call must still return the
// slot, so that the new owner runs it. Invariant 18
func slotTakeoverAnswerLost(t *testing.T, server *pgtest.Server) {
	url := in(t, server.URL())
	ctx, due := t.Context(), time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC)
	var lose atomic.Bool
	gone, heir := New(Options{URL: url}), New(Options{URL: url, Step: func(name string) error {
		if name == "committed" && lose.CompareAndSwap(true, false) {
			return io.ErrUnexpectedEOF
		}
		return nil
	}})
	defer gone.Close()
	defer heir.Close()
	first, err := gone.OpenJournal(ctx)
	require.NoError(t, err)
	_, err = first.Seen(ctx, "p", "@hourly", due.Add(-time.Hour))
	require.NoError(t, err)
	_, err = first.AddSlots(ctx, "p", due, []state.SlotRecord{{Due: due, State: state.SlotWaiting}})
	require.NoError(t, err)
	second, err := heir.OpenJournal(ctx)
	require.NoError(t, err)
	defer second.Close()
	require.NoError(t, first.Close())
	lose.Store(true)
	slots, err := second.Orphans(ctx, "p")
	require.NoError(t, err)
	require.False(t, lose.Load())
	require.Len(t, slots, 1)
	slots, err = second.Orphans(ctx, "p")
	require.NoError(t, err)
	require.Empty(t, slots)
}

// A renewal hangs. The holder must treat its lease as lost before another process gets it. // Invariant 13
func leaseLostWhileRenewalHangs(t *testing.T, server *pgtest.Server) {
	url := in(t, server.URL())
	hang := make(chan struct{})
	var armed atomic.Bool
	s := New(Options{URL: url, Life: 2 * time.Second, Step: func(string) error {
		if armed.Load() {
			<-hang
		}
		return nil
	}})
	defer s.Close()
	l, err := s.take(t.Context(), "x", 0)
	require.NoError(t, err)
	armed.Store(true)
	select {
	case <-l.Lost():
	case <-time.After(30 * time.Second):
		t.Error("another process has the lease before the old holder treats it as lost")
	}
	close(hang)
	require.NoError(t, l.Release())
}

// Several migrations run at the same time, and all of them must succeed. If the schema exists, a role that may create
// tables in it does not need the right to create schemas.
func concurrentMigration(t *testing.T, server *pgtest.Server) {
	ctx := t.Context()
	admin, err := pgx.Connect(ctx, server.URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, admin.Close(context.WithoutCancel(ctx))) }()
	u, err := url.Parse(server.URL())
	require.NoError(t, err)
	q := u.Query()
	q.Set("search_path", "together")
	u.RawQuery = q.Encode()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s := New(Options{URL: u.String()})
			_, to, err := s.Migrate(ctx)
			require.NoError(t, err)
			require.EqualValues(t, latest, to)
			require.NoError(t, s.Close())
		})
	}
	wg.Wait()
	for _, sql := range []string{"CREATE ROLE small LOGIN", "CREATE SCHEMA prepared AUTHORIZATION small"} {
		_, err := admin.Exec(ctx, sql)
		require.NoError(t, err)
	}
	u.User = url.User("small")
	q.Set("search_path", "prepared")
	u.RawQuery = q.Encode()
	s := New(Options{URL: u.String()})
	_, to, err := s.Migrate(ctx)
	require.NoError(t, err)
	require.EqualValues(t, latest, to)
	require.NoError(t, s.Close())
}
