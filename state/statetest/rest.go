package statetest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

func leases(t *testing.T, _ Rig, open func() state.Store) {
	ctx, a, b := t.Context(), opened(t, open), opened(t, open)
	first, err := a.Lease(ctx, "p", "s", 0)
	require.NoError(t, err)
	for _, s := range []state.Store{a, b} {
		_, err = s.Lease(ctx, "p", "s", 10*time.Millisecond)
		require.ErrorIs(t, err, state.ErrLocked)
		require.ErrorContains(t, err, "held by ")
	}
	other, err := b.Lease(ctx, "p", "", 0)
	require.NoError(t, err, "another source has another lease")
	require.NoError(t, other.Release())
	require.NoError(t, first.Release())
	require.NoError(t, first.Release(), "a second release does nothing")
	second, err := b.Lease(ctx, "p", "s", 10*time.Second)
	require.NoError(t, err)
	if first.Token() != 0 {
		require.Greater(t, second.Token(), first.Token())
	}
	select {
	case <-second.Lost():
		t.Fatal("lost")
	default:
	}
	require.NoError(t, second.Release())

	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, s := range []state.Store{a, b, a, b} {
		wg.Go(func() {
			for range 3 {
				l, err := s.Lease(ctx, "p", "crowd", time.Minute)
				require.NoError(t, err)
				require.True(t, mu.TryLock(), "two processes hold the lease at the same time")
				mu.Unlock()
				require.NoError(t, l.Release())
			}
		})
	}
	wg.Wait()
}

func notes(t *testing.T, _ Rig, open func() state.Store) {
	ctx, s := t.Context(), opened(t, open)
	n := s.Notes()
	text, err := n.Note(ctx, "webhooks/main.yaml")
	require.NoError(t, err)
	require.Nil(t, text)
	require.NoError(t, n.SetNote(ctx, "webhooks/main.yaml", nil, []byte("one\x00\xff")))
	require.ErrorIs(t, n.SetNote(ctx, "webhooks/main.yaml", nil, []byte("two")), state.ErrMoved)
	require.ErrorIs(t, n.SetNote(ctx, "webhooks/main.yaml", []byte("other"), []byte("two")), state.ErrMoved)
	require.NoError(t, n.SetNote(ctx, "webhooks/main.yaml", []byte("one\x00\xff"), []byte("two")))
	text, err = opened(t, open).Notes().Note(ctx, "webhooks/main.yaml")
	require.NoError(t, err)
	require.Equal(t, "two", string(text))
	require.NoError(t, n.SetNote(ctx, "webhooks/a.yaml", nil, []byte("a")))
	require.NoError(t, n.SetNote(ctx, "webhooks2/a.yaml", nil, []byte("of another folder")))
	all, err := n.NotesIn(ctx, "webhooks")
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"webhooks/a.yaml": []byte("a"), "webhooks/main.yaml": []byte("two")}, all)
	all, err = n.NotesIn(ctx, "absent")
	require.NoError(t, err)
	require.Empty(t, all)
	require.NoError(t, n.SetNote(ctx, "webhooks/main.yaml", []byte("two"), nil))
	text, err = n.Note(ctx, "webhooks/main.yaml")
	require.NoError(t, err)
	require.Nil(t, text)

	var wg sync.WaitGroup
	for range 4 {
		other := opened(t, open).Notes()
		wg.Go(func() {
			for range 5 {
				count(t, other)
			}
		})
	}
	wg.Wait()
	text, err = n.Note(ctx, "counts/n")
	require.NoError(t, err)
	require.Equal(t, "20", string(text))
}

func count(t *testing.T, n state.Notes) {
	for {
		was, err := n.Note(t.Context(), "counts/n")
		require.NoError(t, err)
		now, _ := strconv.Atoi(string(was))
		err = n.SetNote(t.Context(), "counts/n", was, []byte(strconv.Itoa(now+1)))
		if !errors.Is(err, state.ErrMoved) {
			require.NoError(t, err)
			return
		}
	}
}

func vault(t *testing.T, _ Rig, open func() state.Store) {
	ctx, a, b := t.Context(), opened(t, open), opened(t, open)
	require.NoError(t, a.Vault().Check())
	s := a.Vault().Entry("login-1")
	text, err := s.Secret()
	require.NoError(t, err)
	require.Empty(t, text)
	l, err := s.Lock(ctx, 0)
	require.NoError(t, err)
	_, err = b.Vault().Entry("login-1").Lock(ctx, 10*time.Millisecond)
	require.ErrorIs(t, err, state.ErrLocked)
	for _, want := range []string{"first", "second, which is longer", "3"} {
		require.NoError(t, s.SetSecret([]byte(want)))
		require.NoError(t, s.SetNote([]byte("note of "+want)))
		text, err = b.Vault().Entry("login-1").Secret()
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
	text, err = s.Note()
	require.NoError(t, err)
	require.Equal(t, "note of 3", string(text))
	require.NoError(t, l.Release())
	require.NotEmpty(t, s.Where())
	_, err = a.Vault().Entry("../login-1").Lock(ctx, 0)
	require.ErrorContains(t, err, "is not a valid entry name")

	// Only one process at a time may change the secret. So each change starts from the result of the change before, and
	// none is lost.
	var wg sync.WaitGroup
	for i := range 4 {
		slot := []state.Store{a, b}[i%2].Vault().Entry("rotated")
		wg.Go(func() {
			for range 2 {
				l, err := slot.Lock(ctx, time.Minute)
				require.NoError(t, err)
				was, err := slot.Secret()
				require.NoError(t, err)
				require.NoError(t, slot.SetSecret(fmt.Appendf(nil, "%sx", was)))
				require.NoError(t, l.Release())
			}
		})
	}
	wg.Wait()
	text, err = a.Vault().Entry("rotated").Secret()
	require.NoError(t, err)
	require.Equal(t, "xxxxxxxx", string(text))
}
