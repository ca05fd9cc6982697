//go:build cgo && duckdb_arrow

package duckdb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/state"
)

// publishRig is a database, and the path of its copy.
type publishRig struct {
	*testing.T
	*DB
	at   state.Cursor
	runs int
	copy string
	step func(string) error
}

func newPublishRig(t *testing.T) *publishRig {
	folder := filepath.Join(t.TempDir(), "readers [1]")
	require.NoError(t, os.Mkdir(folder, 0o700))
	r := &publishRig{T: t, copy: filepath.Join(folder, "analysts.duckdb")}
	r.DB = openTest(t, filepath.Join(t.TempDir(), "private.duckdb"), Options{Step: func(name string) error {
		if r.step == nil {
			return nil
		}
		return r.step(name)
	}})
	return r
}

// load stores three rows in one commit. The name of each row is the version.
func (r *publishRig) load(version string) {
	r.Helper()
	r.runs++
	run := fmt.Sprintf("run%09d", r.runs)
	require.NoError(r, put(r.Context(), r, r.DB, run, r.at, state.Cursor(run), leadRows(run, version, 3)))
	r.at = state.Cursor(run)
}

// versions returns the names in the copy.
func (r *publishRig) versions() (names []string) {
	r.Helper()
	d := openTest(r, r.copy, Options{})
	for _, row := range rowsOf(r, d, "crm_leads") {
		names = append(names, row["name"])
	}
	require.NoError(r, d.Close())
	return names
}

func (r *publishRig) tidy() {
	r.Helper()
	left, err := os.ReadDir(filepath.Dir(r.copy))
	require.NoError(r, err)
	for _, f := range left {
		require.Equal(r, filepath.Base(r.copy), f.Name())
	}
}

func TestPublish(t *testing.T) {
	r := newPublishRig(t)
	require.NoError(t, r.Publish(t.Context(), r.copy), "nothing is loaded yet")
	require.NoFileExists(t, r.copy)
	r.load("v1")
	require.NoError(t, r.Publish(t.Context(), r.copy))
	require.Equal(t, []string{"v1", "v1", "v1"}, r.versions())
	first, err := os.Stat(r.copy)
	require.NoError(t, err)
	require.NoError(t, r.Publish(t.Context(), r.copy))
	again, err := os.Stat(r.copy)
	require.NoError(t, err)
	require.True(t, os.SameFile(first, again), "an unchanged file is not copied")

	reader := holdElsewhere(t, r.copy, "(READ_ONLY)") // keeps its copy open
	r.load("v2")
	require.NoError(t, r.Publish(t.Context(), r.copy))
	require.Equal(t, []string{"v2", "v2", "v2"}, r.versions())
	reader()
	r.load("v3")
	r.detachIdle()
	require.NoError(t, r.Publish(t.Context(), r.copy), "a detached file can be published")
	require.Equal(t, []string{"v3", "v3", "v3"}, r.versions())
	r.tidy()
	require.Error(t, r.Publish(t.Context(), r.o.Path), "a file cannot replace itself")
	r.load("v4")
}

func TestPublishRefuses(t *testing.T) {
	r := newPublishRig(t)
	r.load("v1")
	require.NoError(t, r.Publish(t.Context(), r.copy))
	log := r.copy + ".wal"
	require.NoError(t, os.WriteFile(log, []byte("of a copy that is no more"), 0o600))
	r.load("v2")
	require.ErrorContains(t, r.Publish(t.Context(), r.copy), log)
	require.NoError(t, os.Remove(log))
	require.Equal(t, []string{"v1", "v1", "v1"}, r.versions())
	r.step = func(name string) error { // the log appears while the copy is made
		if name == "published" {
			return os.WriteFile(log, []byte("late"), 0o600)
		}
		return nil
	}
	require.ErrorContains(t, r.Publish(t.Context(), r.copy), log)
	require.NoError(t, os.Remove(log))
	require.Equal(t, []string{"v1", "v1", "v1"}, r.versions())
	require.ErrorIs(t, r.Publish(t.Context(), filepath.Join(t.TempDir(), "no", "folder.duckdb")), os.ErrNotExist)
}

// TestPublishFails breaks Publish at each of its steps. The copy stays unchanged, and the next Publish succeeds.
func TestPublishFails(t *testing.T) {
	r := newPublishRig(t)
	r.load("v1")
	require.NoError(t, r.Publish(t.Context(), r.copy))
	broken := errors.New("broken on purpose")
	for _, at := range []string{"publish", "published"} {
		r.load(at)
		r.step = func(name string) error {
			if name == at {
				return broken
			}
			return nil
		}
		require.ErrorIs(t, r.Publish(t.Context(), r.copy), broken)
		require.Equal(t, []string{"v1", "v1", "v1"}, r.versions())
		r.tidy()
	}
	r.step = nil
	left := filepath.Join(filepath.Dir(r.copy), ".analysts.duckdb.penstock-123")
	require.NoError(t, os.WriteFile(left, []byte("of a process that was killed"), 0o600))
	require.NoError(t, r.Publish(t.Context(), r.copy))
	require.Equal(t, []string{"published", "published", "published"}, r.versions())
	r.tidy()
}

// TestPublishUnderReaders opens the copy repeatedly while it is replaced. Each time, the copy must have one complete
// commit.
// Invariant 7
func TestPublishUnderReaders(t *testing.T) {
	r := newPublishRig(t)
	r.load("v0")
	require.NoError(t, r.Publish(t.Context(), r.copy))
	stop, done := make(chan struct{}), make(chan [][]loadtest.Row)
	go func() {
		var seen [][]loadtest.Row
		defer func() { done <- seen }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			d, err := Open(r.Context(), Options{Path: r.copy, WaitLock: time.Second})
			if err != nil {
				return
			}
			seen = append(seen, rowsOf(r, d, "crm_leads")) //nolint:testifylint // if it fails, this goroutine ends, and the deferred call sends seen
			_ = d.Close()
		}
	}()
	for i := range 10 {
		r.load(fmt.Sprint("v", i+1))
		require.NoError(t, r.Publish(t.Context(), r.copy))
	}
	close(stop)
	seen := <-done
	require.Greater(t, len(seen), 3)
	for _, rows := range seen {
		require.Len(t, rows, 3)
		require.Equal(t, rows[0]["name"], rows[2]["name"])
	}
}
