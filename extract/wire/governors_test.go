package wire

import (
	"errors"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

// All parts of a process that use one budget share one governor: it is one member of the record, and its last
// user closes it.
func TestGovernors(t *testing.T) {
	dir := t.TempDir()
	var all Governors
	share := func(g *Governor) error { return g.Share(dir, account) }
	var first *Governor
	var leave []func() error
	for i := range 2 * mostMembers {
		g, done, err := all.Open("one", NewGovernor(Budget{Rate: Rate{100 + i, time.Second}}), share)
		require.NoError(t, err)
		if first == nil {
			first = g
		}
		require.Same(t, first, g)
		leave = append(leave, done)
	}
	require.Equal(t, Rate{100, time.Second}, first.Stats().Limit, "a higher one changes nothing")
	_, done, err := all.Open("one", NewGovernor(Budget{Rate: Rate{7, time.Second}}), share)
	require.NoError(t, err)
	require.Equal(t, Rate{7, time.Second}, first.Stats().Limit, "the lower of two")
	other, otherDone, err := all.Open("another", NewGovernor(Budget{}), share)
	require.NoError(t, err)
	require.NotSame(t, first, other)

	for _, l := range append(leave, otherDone) {
		require.NoError(t, l())
		require.NoError(t, l(), "a second close does nothing")
	}
	s, err := first.acquire(t.Context(), time.Minute)
	require.NoError(t, err, "one user is left")
	s.done()
	require.NoError(t, done())
	_, err = first.acquire(t.Context(), time.Minute)
	require.Error(t, err)
	again, done, err := all.Open("one", NewGovernor(Budget{}), share)
	require.NoError(t, err)
	require.NotSame(t, first, again)
	require.NoError(t, done())

	fault := errors.New("no such folder")
	_, _, err = all.Open("one", NewGovernor(Budget{}), func(*Governor) error { return fault })
	require.ErrorIs(t, err, fault)
	require.Empty(t, all.all)
}

// Members whose process was killed are removed at once, and their unsent requests count as sent.
func TestDeadMembersAreRemoved(t *testing.T) {
	if pidNamespace() == 0 {
		t.Skip("process ids cannot be compared here, so members expire instead")
	}
	dead := exec.CommandContext(t.Context(), "true")
	require.NoError(t, dead.Run())
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		rate := Rate{1000, time.Second}
		for range mostMembers {
			g := join(t, dir, Budget{Rate: rate})
			s, err := g.acquire(t.Context(), time.Minute)
			require.NoError(t, err)
			defer s.done()
		}
		require.ErrorIs(t, NewGovernor(Budget{}).Share(dir, account), errTooManyMembers, "all members are alive")

		g := NewGovernor(Budget{Rate: rate})
		changeRecord(t, dir, func(b *budgetRecord) {
			for i := range b.members {
				b.members[i].pid = int64(dead.Process.Pid)
			}
		})
		require.NoError(t, g.Share(dir, account))
		require.Equal(t, mostMembers, occupied(t, g))
		time.Sleep(time.Second + mostGuard + time.Second)
		require.Zero(t, occupied(t, g))
		s, err := g.acquire(t.Context(), time.Minute)
		require.NoError(t, err)
		s.wrote()
		s.answered(&http.Response{StatusCode: http.StatusOK})
		s.done()
		require.NoError(t, g.Close())
	})
}

// changeRecord runs f on the record stored in dir.
func changeRecord(t *testing.T, dir string, f func(*budgetRecord)) {
	t.Helper()
	g := NewGovernor(Budget{})
	file, err := state.OpenShared(filepath.Join(dir, BudgetName(account)))
	require.NoError(t, err)
	done, err := file.Change(g.record.image(), func() bool {
		f(g.record)
		g.record.written = g.record.checksum()
		return true
	})
	require.NoError(t, errors.Join(err, file.Close()))
	require.True(t, done)
}
