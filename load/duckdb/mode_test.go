//go:build unix && cgo && duckdb_arrow

package duckdb

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

// TestFileModes checks the modes of the database, its log and its copy: readable as the umask says, and writable by
// others only if the configured mode says so.
func TestFileModes(t *testing.T) {
	for _, c := range []struct {
		umask      int
		mode, want fs.FileMode
		copied     fs.FileMode // mode of an existing copy; 0: no copy
		wantCopy   fs.FileMode
	}{
		{umask: 0o000, want: 0o644, wantCopy: 0o644},
		{umask: 0o002, want: 0o644, wantCopy: 0o644},
		{umask: 0o022, want: 0o644, wantCopy: 0o644},
		{umask: 0o027, want: 0o640, wantCopy: 0o640},
		{umask: 0o077, want: 0o600, wantCopy: 0o600},
		{umask: 0o077, want: 0o600, copied: 0o640, wantCopy: 0o640},
		{umask: 0o022, want: 0o644, copied: 0o666, wantCopy: 0o644},
		{umask: 0o077, mode: 0o664, want: 0o664, wantCopy: 0o664},
		{umask: 0o000, mode: 0o600, want: 0o600, wantCopy: 0o600},
	} {
		t.Run(fmt.Sprintf("%03o %03o %03o", c.umask, c.mode, c.copied), func(t *testing.T) {
			dir := t.TempDir()
			old := syscall.Umask(c.umask)
			defer syscall.Umask(old)
			path, reader := filepath.Join(dir, "w.duckdb"), filepath.Join(dir, "copy.duckdb")
			if c.copied != 0 {
				require.NoError(t, os.WriteFile(reader, nil, c.copied))
				require.NoError(t, os.Chmod(reader, c.copied))
			}
			d := openTest(t, path, Options{Mode: c.mode})
			from := state.Cursor("")
			for _, run := range []string{"run000000001", "run000000002"} {
				require.NoError(t, put(t.Context(), t, d, run, from, state.Cursor(run), leadRows(run, run, 3)))
				from = state.Cursor(run)
			}
			d.detachIdle()
			requireMode(t, path, c.want)
			require.NoError(t, put(t.Context(), t, d, "run000000003", from, "run000000003", leadRows("run000000003", "run000000003", 3)))
			d.detachIdle() // no table has changed, so the log stays
			requireMode(t, path+".wal", c.want)
			require.NoError(t, d.Publish(t.Context(), reader))
			requireMode(t, reader, c.wantCopy)
			require.NoError(t, d.Close())
		})
	}
}

func requireMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, want, info.Mode().Perm(), path)
}

// TestSymbolicLink opens the database through symbolic links: before the file exists and afterwards, through a link to
// a link, and through a link with a relative target. The links must stay links.
func TestSymbolicLink(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"real", "deep/down"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, sub), 0o700))
	}
	path := filepath.Join(dir, "real", "w.duckdb")
	for link, target := range map[string]string{"first.duckdb": "real/w.duckdb", "second.duckdb": "first.duckdb", "abs.duckdb": path, "deep/down/up.duckdb": "../../real/w.duckdb"} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	require.NoError(t, os.Symlink(filepath.Join(dir, "deep", "down"), filepath.Join(dir, "folder")))
	from := state.Cursor("")
	for i, name := range []string{"first.duckdb", "first.duckdb", "second.duckdb", "abs.duckdb", "folder/up.duckdb", "real/w.duckdb"} {
		d := openTest(t, filepath.Join(dir, name), Options{})
		run := fmt.Sprintf("run%09d", i+1)
		require.NoError(t, put(t.Context(), t, d, run, from, state.Cursor(run), leadRows(run, run, 3)), name)
		from = state.Cursor(run)
		require.NoError(t, d.Close())
	}
	d := openTest(t, path, Options{})
	require.Len(t, rowsOf(t, d, "crm_leads"), 3)
	for _, link := range []string{"first.duckdb", "second.duckdb"} {
		info, err := os.Lstat(filepath.Join(dir, link))
		require.NoError(t, err)
		require.NotZero(t, info.Mode()&fs.ModeSymlink, "a link stays a link")
	}

	require.NoError(t, os.Symlink("real", filepath.Join(dir, "linked")))
	for _, name := range []string{"linked/w.duckdb", "linked/new.duckdb"} {
		through := openTest(t, filepath.Join(dir, name), Options{})
		require.Equal(t, filepath.Join(dir, "real", filepath.Base(name)), through.o.Path, "the folder's link is resolved once")
	}
	none := openTest(t, filepath.Join(dir, "none", "w.duckdb"), Options{})
	require.Equal(t, filepath.Join(dir, "none", "w.duckdb"), none.o.Path, "control: a folder that does not exist yet")

	loop := filepath.Join(dir, "loop.duckdb")
	require.NoError(t, os.Symlink("loop.duckdb", loop))
	_, err := Open(t.Context(), Options{Path: loop, TempDir: t.TempDir()})
	require.ErrorContains(t, err, "symbolic links")
}
