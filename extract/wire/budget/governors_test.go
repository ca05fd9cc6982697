package budget

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// All callers in a process that open the same budget get the same governor. In the stored record of the budget, this
// governor is one member. It is closed when its last user closes it.
func TestGovernors(t *testing.T) {
	dir := t.TempDir()
	var all Governors
	share := func(g *Governor) error { return g.ShareFile(dir, Name(account)) }
	var first *Governor
	var leave []func() error
	for i := range 64 {
		g, done, err := all.Open("one", New(Plan{Rate: Rate{100 + i, time.Second}}), share)
		require.NoError(t, err)
		if first == nil {
			first = g
		}
		require.Same(t, first, g)
		leave = append(leave, done)
	}
	require.Len(t, first.record.members, 1)
	require.Equal(t, Rate{100, time.Second}, first.Stats().Limit, "a higher limit changes nothing")
	_, done, err := all.Open("one", New(Plan{Rate: Rate{7, time.Second}}), share)
	require.NoError(t, err)
	require.Equal(t, Rate{7, time.Second}, first.Stats().Limit, "the lower of the two limits applies")
	other, otherDone, err := all.Open("another", New(Plan{}), share)
	require.NoError(t, err)
	require.NotSame(t, first, other)

	for _, l := range append(leave, otherDone) {
		require.NoError(t, l())
		require.NoError(t, l(), "a second close does nothing")
	}
	s, err := first.Take(t.Context(), time.Minute)
	require.NoError(t, err, "one user is left")
	s.Done()
	require.NoError(t, done())
	_, err = first.Take(t.Context(), time.Minute)
	require.Error(t, err)
	again, done, err := all.Open("one", New(Plan{}), share)
	require.NoError(t, err)
	require.NotSame(t, first, again)
	require.NoError(t, done())

	fault := errors.New("no such folder")
	_, _, err = all.Open("one", New(Plan{}), func(*Governor) error { return fault })
	require.ErrorIs(t, err, fault)
	require.Empty(t, all.all)
}
