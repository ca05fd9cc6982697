//go:build unix

package parquet

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// A pass without changes makes no generation. Its cursor is durable, and other processes see it.
func TestCursorOnlyCommits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lake")
	l, other := openLake(t, path, Options{}), openLake(t, path, Options{})
	at := must(t, l, 1, "", before...)
	for n := range 4 {
		at = must(t, l, 2+n, at, before...)
		require.Equal(t, []string{positionName, current, genName(1)}, entries(t, l))
		for _, l := range []*Lake{l, other, openLake(t, path, Options{})} {
			now, err := l.Cursor(t.Context(), stream)
			require.NoError(t, err)
			require.Equal(t, at, now)
			states := scanned(t, l, load.State.Name)
			require.Len(t, states, 1)
			require.Equal(t, string(at), states[0]["cursor"])
			require.Equal(t, wanted(before...), names(t, l))
		}
	}
	at = must(t, other, 6, at, after...)
	require.Equal(t, []string{positionName, current, genName(1), genName(2)}, entries(t, l))
	now, err := l.Cursor(t.Context(), stream)
	require.NoError(t, err)
	require.Equal(t, at, now, "a position of an earlier generation is ignored")
	require.Equal(t, wanted(after...), names(t, l))
}

// A commit that stores only a cursor, even the same cursor, makes another open transaction fail with state.ErrMoved.
// Invariant 13
func TestCursorOnlyFence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lake")
	l, other := openLake(t, path, Options{}), openLake(t, path, Options{})
	at := must(t, l, 1, "", before...)
	for range 2 {
		x, err := l.Begin(t.Context(), stream, at, load.Pass{Run: "run", Whole: true})
		require.NoError(t, err)
		y, err := other.Begin(t.Context(), stream, at, load.Pass{Run: "run", Whole: true})
		require.NoError(t, err)
		require.NoError(t, y.Commit(t.Context(), at))
		require.ErrorIs(t, x.Commit(t.Context(), "late"), state.ErrMoved)
	}
	now, err := l.Cursor(t.Context(), stream)
	require.NoError(t, err)
	require.Equal(t, at, now)
}

// A position file that names another generation is ignored, even if the sequence number is the same. A damaged file
// is an error.
func TestPositionOfOther(t *testing.T) {
	l := openLake(t, filepath.Join(t.TempDir(), "lake"), Options{})
	at := must(t, l, 1, "", before...)
	folder := filepath.Join(l.o.Path, "crm.leads")
	moved := must(t, l, 2, at, before...)
	old, err := os.ReadFile(filepath.Join(folder, positionName))
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(folder))
	l = openLake(t, l.o.Path, Options{})
	at = must(t, l, 1, "", after...)
	require.NoError(t, os.WriteFile(filepath.Join(folder, positionName), old, 0o600))
	now, err := l.Cursor(t.Context(), stream)
	require.NoError(t, err)
	require.Equal(t, at, now)
	require.NotEqual(t, moved, now)
	require.NoError(t, os.WriteFile(filepath.Join(folder, positionName), old[:9], 0o600))
	_, err = l.Cursor(t.Context(), stream)
	require.ErrorContains(t, err, positionName)
}

// If a sync fails, the cursor is either the old or the new one, and the next commit succeeds. // Invariant 1
func TestCursorOnlySyncFails(t *testing.T) {
	l := openLake(t, filepath.Join(t.TempDir(), "lake"), Options{})
	at := must(t, l, 1, "", before...)
	for n := 1; ; n++ {
		count := 0
		l.disk.Sync = func(f *os.File) error {
			if count++; count == n {
				return syscall.EIO
			}
			return f.Sync()
		}
		next, err := put(t.Context(), t, l, 1+n, at, before...)
		l.disk.Sync = nil
		now, failed := l.Cursor(t.Context(), stream)
		require.NoError(t, failed)
		if err == nil {
			require.Equal(t, next, now)
			require.Equal(t, 3, n, "a file and its folder are synced")
			return
		}
		require.ErrorIs(t, err, syscall.EIO)
		require.Contains(t, []state.Cursor{at, state.Cursor(fmt.Sprintf(`{"n":%d}`, 1+n))}, now)
		require.Equal(t, []string{current, genName(1)}, entriesButTrash(t, l))
		at = must(t, l, 100+n, now, before...)
		require.Equal(t, wanted(before...), names(t, l))
	}
}
