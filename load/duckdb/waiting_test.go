//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
)

// A commit waits for the queries that run, but not for queries that begin later. Invariant 15
func TestCommitsPassQueries(t *testing.T) {
	t.Parallel()
	d := openTest(t, filepath.Join(t.TempDir(), "w.duckdb"), Options{WaitLock: time.Minute})
	require.NoError(t, put(t.Context(), t, d, "run1", "", "1", leadRows("run1", "a", 1)))
	require.Eventually(t, func() bool { return stateOf(d).open == detached }, time.Minute, time.Millisecond)
	query := func(ctx context.Context, each func()) chan error {
		done := make(chan error, 1)
		go func() {
			done <- d.Query(ctx, "FROM crm_leads", func(arrow.RecordBatch) error { each(); return nil })
		}()
		return done
	}
	inside, end := make(chan struct{}), make(chan struct{})
	first := query(t.Context(), func() { close(inside); <-end })
	<-inside
	waiting := func(n int) {
		require.Eventually(t, func() bool { return stateOf(d).waiting == n }, time.Minute, time.Millisecond)
	}

	// A commit that no longer waits holds up no query.
	ctx, cancel := context.WithCancel(t.Context())
	committed := make(chan error, 1)
	go func() { committed <- put(ctx, t, d, "run2", "1", "2", leadRows("run2", "b", 2)) }()
	waiting(1)
	cancel()
	require.ErrorIs(t, <-committed, context.Canceled)
	waiting(0)
	require.NoError(t, <-query(t.Context(), func() {}))

	go func() { committed <- put(t.Context(), t, d, "run2", "1", "2", leadRows("run2", "b", 2)) }()
	waiting(1)
	_, err := d.tryAcquire(t.Context(), querying)
	require.ErrorIs(t, err, errWriterFirst)
	second := query(t.Context(), func() {})
	close(end)
	require.NoError(t, <-first)
	require.NoError(t, <-committed)
	require.NoError(t, <-second)
}

// stateOf returns what a destination knows about its file.
func stateOf(d *DB) (w struct {
	open    mode
	waiting int
}) {
	d.window.gate <- struct{}{}
	defer func() { <-d.window.gate }()
	w.open, w.waiting = d.window.open, d.window.waiting
	return w
}
