//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// Callers that lend the same files in different orders, and under several names, do not wait for each other for ever.
func TestLendOrder(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	x, y, link := filepath.Join(dir, "x.duckdb"), filepath.Join(dir, "y.duckdb"), filepath.Join(dir, "link.duckdb")
	require.NoError(t, os.Symlink(x, link))
	var all sync.WaitGroup
	for _, paths := range [][]string{{x, y, link}, {y, dir + "/./x.duckdb", x}} {
		all.Go(func() {
			for range 200 {
				back, err := Lend(ctx, paths...)
				if err != nil {
					t.Errorf("lend %v: %v", paths, err)
					return
				}
				time.Sleep(100 * time.Microsecond)
				back()
			}
		})
	}
	all.Wait()

	back, err := Lend(ctx, y)
	require.NoError(t, err)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = Lend(short, x, y)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	again, err := Lend(ctx, x)
	require.NoError(t, err, "after an error, no file is lent")
	again()
	back()
}

// While a file is lent, the reads of a run wait, and other reads do not. Afterwards the run waits for other processes as
// long as usual.
func TestRunWaitsForLend(t *testing.T) {
	t.Parallel()
	const wait = time.Second
	path := filepath.Join(t.TempDir(), "lent.duckdb")
	d := openTest(t, path, Options{WaitLock: wait})
	_, release, err := d.acquire(t.Context(), writing)
	require.NoError(t, err)
	release()
	back, err := Lend(t.Context(), path)
	require.NoError(t, err)
	read := make(chan error, 1)
	go func() {
		_, release, err := d.acquire(load.ForRun(t.Context()), reading)
		if err == nil {
			release()
		}
		read <- err
	}()
	_, _, err = d.acquire(t.Context(), reading) // takes longer than the wait of the run would
	require.ErrorIs(t, err, state.ErrLocked)
	time.Sleep(wait / 2)
	require.Empty(t, read)
	end := holdElsewhere(t, path, "")
	back()
	time.Sleep(wait / 4)
	require.Empty(t, read)
	end()
	require.NoError(t, <-read)
}
