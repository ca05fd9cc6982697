package state

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks", "nightly.lock")
	first, err := Acquire(t.Context(), path, 0)
	require.NoError(t, err)

	_, err = Acquire(t.Context(), path, 0)
	require.ErrorIs(t, err, ErrLocked)
	require.ErrorContains(t, err, "held by "+filepath.Base(os.Args[0])+" (pid ")

	start := time.Now()
	_, err = Acquire(t.Context(), path, 150*time.Millisecond)
	require.ErrorIs(t, err, ErrLocked)
	require.GreaterOrEqual(t, time.Since(start), 150*time.Millisecond)

	require.NoError(t, first.Release())
	require.NoError(t, first.Release(), "a second release does nothing")
	second, err := Acquire(t.Context(), path, 0)
	require.NoError(t, err)
	require.NoError(t, second.Release())
}

func TestLockWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Acquire(t.Context(), path, 0)
	require.NoError(t, err)
	time.AfterFunc(200*time.Millisecond, func() { _ = first.Release() })
	second, err := Acquire(t.Context(), path, time.Minute)
	require.NoError(t, err)
	require.NoError(t, second.Release())
}

func TestLockCancelled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Acquire(t.Context(), path, 0)
	require.NoError(t, err)
	defer first.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = Acquire(ctx, path, time.Hour)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, ErrLocked)
}

func TestLockUnknownHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Acquire(t.Context(), path, 0)
	require.NoError(t, err)
	defer first.Release()
	require.NoError(t, os.WriteFile(holderPath(path), []byte("{"), 0o600))
	_, err = Acquire(t.Context(), path, 0)
	require.ErrorContains(t, err, "holder unknown")
}

func TestLockOfKilledProcess(t *testing.T) {
	path := os.Getenv("PENSTOCK_TEST_LOCK")
	if path != "" {
		_, err := Acquire(t.Context(), path, 0)
		require.NoError(t, err)
		os.Exit(0)
	}
	path = filepath.Join(t.TempDir(), "lock")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=TestLockOfKilledProcess")
	child.Env = append(os.Environ(), "PENSTOCK_TEST_LOCK="+path)
	require.NoError(t, child.Run())
	l, err := Acquire(t.Context(), path, 0)
	require.NoError(t, err)
	require.NoError(t, l.Release())
}
