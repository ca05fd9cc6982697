//go:build cgo && duckdb_arrow

package duckdb

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// smallDisk mounts a folder of the given size. Only root can do that.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skip("mount a small disk:", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// TestFullDisk tries a commit on a full disk, and frees more and more room until the commit succeeds. Each commit
// before must store nothing, and report that the disk is full. // Invariants 1, 2
func TestFullDisk(t *testing.T) {
	path := filepath.Join(smallDisk(t, "8m"), "full.duckdb")
	d := openTest(t, path, Options{})
	require.NoError(t, put(t.Context(), t, d, "run000000001", "", "a", leadRows("run000000001", "v1", 1000)))
	d.detachIdle()
	full, failed := fillDisk(t, filepath.Dir(path)), 0
	for size := int64(0); ; size += 16 << 10 {
		full.leave(size)
		err := put(t.Context(), t, d, "run000000002", "a", "b", leadRows("run000000002", "v2", 5000))
		d.detachIdle() // detaching may make a checkpoint, for which there may be no room
		if err == nil {
			break
		}
		failed++
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorContains(t, err, "disk is full")
		c, err := d.Cursor(t.Context(), stream)
		require.NoError(t, err)
		require.EqualValues(t, "a", c, "a failed commit stores nothing")
		require.Equal(t, "v1", rowsOf(t, d, "crm_leads")[0]["name"])
	}
	require.Greater(t, failed, 2)
	full.leave(8 << 20)
	require.NoError(t, d.Close())
	rows := namesOf(t, path)
	require.Len(t, rows, 5000)
	require.Equal(t, "v2", rows[0])
}

// TestFullDiskOfFirstCommit is like TestFullDisk, for a file that does not exist yet.
func TestFullDiskOfFirstCommit(t *testing.T) {
	dir := smallDisk(t, "4m")
	full := fillDisk(t, dir)
	path := filepath.Join(dir, "new.duckdb")
	for size := int64(0); ; size += 32 << 10 {
		full.leave(size)
		d := openTest(t, path, Options{})
		from, err := d.Cursor(t.Context(), stream)
		require.NoError(t, err)
		require.EqualValues(t, "", from)
		err = put(t.Context(), t, d, "run000000001", from, "a", leadRows("run000000001", "v1", 1000))
		_ = d.Close()
		if err == nil {
			break
		}
		require.ErrorIs(t, err, syscall.ENOSPC, "with %d bytes left", size)
	}
	full.leave(4 << 20)
	require.Len(t, namesOf(t, path), 1000)
}

// TestFullDiskOfPublish is like TestFullDisk, for a published copy.
func TestFullDiskOfPublish(t *testing.T) {
	r := newPublishRig(t)
	r.load("v1")
	dir := smallDisk(t, "8m")
	r.copy = filepath.Join(dir, "copy.duckdb")
	require.NoError(t, r.Publish(t.Context(), r.copy))
	full := fillDisk(t, dir)
	full.leave(64 << 10)
	r.load("v2")
	require.ErrorIs(t, r.Publish(t.Context(), r.copy), syscall.ENOSPC)
	full.leave(8 << 20)
	require.Equal(t, []string{"v1", "v1", "v1"}, r.versions())
	require.NoError(t, r.Publish(t.Context(), r.copy))
	require.Equal(t, []string{"v2", "v2", "v2"}, r.versions())
	_, err := os.Stat(r.copy + ".wal")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// filler is a file that fills a disk.
type filler struct {
	testing.TB
	dir, name string
}

func fillDisk(t testing.TB, dir string) filler {
	return filler{TB: t, dir: dir, name: filepath.Join(dir, "filler")}
}

// leave fills the disk, so that only the given number of bytes stays free.
func (f filler) leave(size int64) {
	f.Helper()
	_ = os.Remove(f.name)
	var s syscall.Statfs_t
	require.NoError(f, syscall.Statfs(f.dir, &s))
	free := int64(s.Bavail) * s.Bsize
	if size < free {
		require.NoError(f, os.WriteFile(f.name, make([]byte, free-size), 0o600))
	}
}
