//go:build cgo && duckdb_arrow

package duckdb

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

// withLog returns a database file and its log. The last commit in the file has the cursor "a". The log has one later
// commit, with the cursor "b".
func withLog(t *testing.T) (file, log []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log.duckdb")
	d := openTest(t, path, Options{})
	require.NoError(t, put(t.Context(), t, d, "run000000001", "", "a", leadRows("run000000001", "v1", 3)))
	d.detachIdle()
	require.NoError(t, put(t.Context(), t, d, "run000000002", "a", "b", leadRows("run000000002", "v2", 3)))
	require.NoError(t, d.Close())
	return contents(t, path), contents(t, path+".wal")
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

// recovered() opens a database with a damaged log, repeats the second commit if the damaged log has lost it, and checks
// the rows. It reports whether the log was moved aside.
func recovered(t *testing.T, file, log []byte) (aside bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "damaged.duckdb")
	require.NoError(t, os.WriteFile(path, file, 0o600))
	require.NoError(t, os.WriteFile(path+".wal", log, 0o600))
	var said bytes.Buffer
	d := openTest(t, path, Options{Log: slog.New(slog.NewTextHandler(&said, nil))})
	c, err := d.Cursor(t.Context(), stream)
	require.NoError(t, err)
	require.Contains(t, []state.Cursor{"a", "b"}, c, "rows and cursor belong to one commit")
	want := map[state.Cursor]string{"a": "v1", "b": "v2"}[c]
	for _, r := range rowsOf(t, d, "crm_leads") {
		require.Equal(t, want, r["name"])
	}
	if c == "a" {
		require.NoError(t, put(t.Context(), t, d, "run000000002", "a", "b", leadRows("run000000002", "v2", 3)))
	}
	require.NoError(t, d.Close())
	require.Equal(t, []string{"v2", "v2", "v2"}, namesOf(t, path))
	moved, err := filepath.Glob(path + ".wal.unreadable-*")
	require.NoError(t, err)
	require.Equal(t, len(moved), strings.Count(said.String(), "level=ERROR"), said.String())
	if len(moved) == 0 {
		return false
	}
	require.Len(t, moved, 1)
	require.Equal(t, log, contents(t, moved[0]), "the log that was moved aside is kept")
	require.Contains(t, said.String(), moved[0])
	return true
}

func namesOf(t *testing.T, path string) (names []string) {
	t.Helper()
	d := openTest(t, path, Options{})
	for _, r := range rowsOf(t, d, "crm_leads") {
		names = append(names, r["name"])
	}
	require.NoError(t, d.Close())
	return names
}

// TestTruncatedLog cuts the log, as a crash during a write does.
func TestTruncatedLog(t *testing.T) {
	file, log := withLog(t)
	for i := range 40 {
		if testing.Short() && i%2 > 0 {
			continue
		}
		at := len(log) * i / 40
		if i >= 30 {
			at = len(log) - (i - 29) // and byte by byte near the end
		}
		recovered(t, file, log[:at])
	}
}

// TestUnreadableLog flips a bit in each part of the log.
func TestUnreadableLog(t *testing.T) {
	file, log := withLog(t)
	aside := 0
	flips := 40
	if testing.Short() {
		flips = 16
	}
	for i := range flips {
		broken := bytes.Clone(log)
		broken[i*len(log)/flips] ^= 1 << (i % 8)
		if recovered(t, file, broken) {
			aside++
		}
	}
	require.Greater(t, aside, flips/2)
	recovered(t, file, bytes.Repeat([]byte("no log "), 1000))
}

// In TestLogOfForeignDefault, a process adds a column whose default calls a function, and is killed. Then the file is
// opened. Older engines could not replay its log.
func TestLogOfForeignDefault(t *testing.T) {
	for _, change := range []string{
		"ALTER TABLE crm_leads ADD COLUMN seen TIMESTAMPTZ DEFAULT current_timestamp",
		"ALTER TABLE crm_leads ADD COLUMN label VARCHAR DEFAULT lower('X')",
		"CREATE SEQUENCE theirs; ALTER TABLE crm_leads ADD COLUMN n BIGINT DEFAULT nextval('theirs')",
	} {
		path := filepath.Join(t.TempDir(), "default.duckdb")
		d := openTest(t, path, Options{})
		require.NoError(t, put(t.Context(), t, d, "run000000001", "", "a", leadRows("run000000001", "v1", 3)))
		require.NoError(t, d.Close())
		exec, done := plainSession(t, path)
		exec(change)
		file, log := contents(t, path), contents(t, path+".wal")
		done()
		recovered(t, file, log)
	}
}

// TestReplayedLog opens a file with a log repeatedly, like a process that commits from time to time. The log, however
// short, must be merged into the file after a limited number of replays.
func TestReplayedLog(t *testing.T) {
	file, log := withLog(t)
	path := filepath.Join(t.TempDir(), "replayed.duckdb")
	require.NoError(t, os.WriteFile(path, file, 0o600))
	require.NoError(t, os.WriteFile(path+".wal", log, 0o600))
	d := openTest(t, path, Options{})
	look := func() {
		_, release, err := d.acquire(t.Context(), reading)
		require.NoError(t, err)
		release()
		d.detachIdle()
	}
	look()
	require.EqualValues(t, len(log), d.window.replayed)
	require.Equal(t, log, contents(t, path+".wal"), "a short log stays where it is")
	d.window.replayed += longReplay
	look()
	require.Zero(t, d.logSize(), "the log was merged into the file")
	require.Zero(t, d.window.replayed)
	look()
	require.Zero(t, d.window.replayed, "there is nothing to replay")
	require.NoError(t, d.Close())
	require.Equal(t, []string{"v2", "v2", "v2"}, namesOf(t, path))
}
