//go:build cgo && duckdb_arrow

package duckdb

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A panic on the thread reaches the caller, which can recover. A call after the end of the thread runs on the thread of
// the caller, so that it gets the error of a closed connection.
func TestThread(t *testing.T) {
	x := newThread()
	calls := 0
	x.run(func() { calls++ })
	require.PanicsWithValue(t, "boom", func() { x.run(func() { panic("boom") }) })
	x.run(func() { calls++ })
	x.end()
	x.run(func() { calls++ })
	require.Equal(t, 3, calls)
}

// A transaction that is still open when the destination is closed gets an error, and its end changes nothing.
// Then the same process can open the file again.
func TestCloseDuringTransaction(t *testing.T) {
	d, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "a.duckdb")})
	require.NoError(t, err)
	_, release, err := d.acquire(t.Context(), writing)
	require.NoError(t, err)
	s := d.window.engine.write
	require.NoError(t, d.Close())
	require.Error(t, s.Exec(t.Context(), "SELECT 1"))
	release()

	again, err := Open(t.Context(), d.o)
	require.NoError(t, err)
	_, release, err = again.acquire(t.Context(), writing)
	require.NoError(t, err)
	release()
	require.NoError(t, again.Close())
}
