package pipeline

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
)

func newArchive(t *testing.T, n int) (e *estate, dir string) {
	e = newEstate(t, n)
	dir = filepath.Join(t.TempDir(), "warehouse.files")
	e.papers, e.reread = true, 10_000
	e.config.Files = map[string]string{"warehouse": dir}
	return e, dir
}

func kept(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, path)
		if d.IsDir() {
			return nil
		}
		body, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		out[rel] = string(body)
		return err
	}))
	return out
}

func (e *estate) named(dir string) {
	e.t.Helper()
	files := kept(e.t, dir)
	n := 0
	for _, row := range e.memory.Rows("x_paper") {
		require.Contains(e.t, files, row["path"])
		require.Equal(e.t, row["size"], fmt.Sprint(len(files[row["path"]])))
		n++
	}
	require.Positive(e.t, n)
}

func TestFilesAreKept(t *testing.T) {
	e, dir := newArchive(t, 30)
	n, child := e.complete(Options{})
	require.Equal(t, 30, n)
	require.Equal(t, Proven, child.Verdict)
	require.Len(t, kept(t, dir), 30)
	e.named(dir)
	for _, row := range e.memory.Rows("x_paper") {
		require.NotContains(t, fmt.Sprint(row), "%PDF", "the bytes are in the table")
	}

	n, _ = e.complete(Options{})
	require.Less(t, n, 5)
	e.parents[4]++
	e.secret[4]++
	e.parents[5]++
	delete(e.parents, 6)
	n, child = e.complete(Options{})
	require.Less(t, n, 7)
	require.EqualValues(t, 1, child.Counts.Written)
	require.EqualValues(t, 1, child.Counts.Deleted)
	require.Len(t, kept(t, dir), 31, "files that may be in use are not removed at once")
	e.named(dir)

	// Only a missing file is fetched again.
	rows := e.memory.Rows("x_paper")
	lost := slices.IndexFunc(rows, func(row loadtest.Row) bool { return row["_context__id"] == "9" })
	require.NoError(t, os.Remove(filepath.Join(dir, rows[lost]["path"])))
	n, _ = e.complete(Options{})
	require.Less(t, n, 7)
	e.named(dir)
}

func TestOrphansAreRemoved(t *testing.T) {
	e, dir := newArchive(t, 5)
	e.complete(Options{})
	old := time.Now().Add(-2 * (24 * time.Hour))
	orphan, half := filepath.Join(dir, "x_paper", "ab", "abcd.pdf"), filepath.Join(dir, "x_paper", ".penstock-1")
	require.NoError(t, os.MkdirAll(filepath.Dir(orphan), 0o700))
	for _, path := range []string{orphan, half} {
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	}
	for path := range kept(t, dir) {
		require.NoError(t, os.Chtimes(filepath.Join(dir, path), old, old))
	}
	e.parents[1]++
	e.secret[1]++
	delete(e.parents, 2)
	_, child := e.complete(Options{})
	require.EqualValues(t, 1, child.Counts.Deleted)
	require.NoFileExists(t, orphan)
	require.NoFileExists(t, half)
	require.Len(t, kept(t, dir), 5, "the earlier file of parent 1 is removed, the earlier file of parent 2 is kept")
	e.named(dir)
}

// If an answer is not a file, the stream is held and the earlier file is kept.
func TestInvalidFileAffectsOnlyItself(t *testing.T) {
	e, dir := newArchive(t, 12)
	e.complete(Options{})
	e.parents[3]++
	e.secret[3] = -1
	e.parents[4]++
	e.secret[4]++
	_, child := e.sync(Options{})
	require.Equal(t, StatusHeld, child.Status)
	require.EqualValues(t, 1, child.Counts.Written)
	require.Zero(t, child.Counts.Deleted)
	e.named(dir)
	e.secret[3] = 7
	_, child = e.complete(Options{})
	require.EqualValues(t, 1, child.Counts.Written)
}

// If the user has no right to read a file, each run requests it again, and nothing is deleted.
func TestRefusedFileAffectsOnlyItself(t *testing.T) {
	e, dir := newArchive(t, 300)
	e.refused = map[int]bool{7: true}
	e.secret[8] = -1
	for i := range 2 {
		n, child := e.sync(Options{})
		require.Equal(t, StatusHeld, child.Status)
		require.Equal(t, Unproven, child.Verdict)
		require.Len(t, e.memory.Rows("x_paper"), 298)
		require.Len(t, kept(t, dir), 298)
		if i > 0 {
			require.Less(t, n, 10)
		}
	}
	e.named(dir)
	var open []string
	for _, row := range e.memory.Rows(load.Rejects.Name) {
		if row["resolved_at"] == "" {
			open = append(open, row["reason"])
		}
	}
	require.Len(t, open, 2)
	require.Contains(t, strings.Join(open, "\n"), "the server did not return parent [7]: 403: This action is unauthorized.")
	require.Contains(t, strings.Join(open, "\n"), "the server did not return parent [8]: 200: text/html")

	e.refused, e.secret[8] = nil, 1
	n, child := e.complete(Options{})
	require.EqualValues(t, 2, child.Counts.Written)
	require.Less(t, n, 10)
	require.Len(t, kept(t, dir), 300)
	e.named(dir)
}

func TestFilesWithoutFolder(t *testing.T) {
	e, dir := newArchive(t, 3)
	e.config.Files = nil
	e.complete(Options{})
	require.Len(t, e.memory.Rows("x_paper"), 3)
	require.NoDirExists(t, dir)
}
