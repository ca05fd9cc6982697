//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

// While a file is lent, this process keeps it closed: another process can open it, reads fail as for a locked file, and a
// commit waits until the file is given back, however long that takes.
func TestLend(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "lent.duckdb")
	d := openTest(t, path, Options{WaitLock: 50 * time.Millisecond})
	_, release, err := d.acquire(ctx, writing)
	require.NoError(t, err)

	lending := make(chan func(), 1)
	go func() {
		back, err := Lend(ctx, path)
		if err != nil {
			back = nil
		}
		lending <- back
	}()
	require.Never(t, func() bool { return len(lending) > 0 }, 100*time.Millisecond, 10*time.Millisecond, "a file in use is not lent")
	_, again, err := d.acquire(ctx, reading)
	require.NoError(t, err, "a user of the file can finish")
	again()
	release()
	back := <-lending
	require.NotNil(t, back)
	end := holdElsewhere(t, path, "") // another program can open the file
	end()
	_, _, err = d.acquire(ctx, reading)
	require.ErrorIs(t, err, state.ErrLocked)
	require.ErrorContains(t, err, "a command of `after` uses it")

	committed := make(chan error, 1)
	go func() {
		_, release, err := d.acquire(ctx, writing)
		if err == nil {
			release()
		}
		committed <- err
	}()
	select {
	case err := <-committed:
		require.Fail(t, "a commit did not wait", "%v", err)
	case <-time.After(200 * time.Millisecond): // four times WaitLock
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err = Lend(short, path)
	require.ErrorIs(t, err, context.DeadlineExceeded, "only one caller lends a file")
	back()
	require.NoError(t, <-committed)
}
