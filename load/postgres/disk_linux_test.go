package postgres

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/state/pgerror"
)

// smallDisk returns a folder on a small disk, and the URL of a database there. The test can change how much space is
// free. Only root can create such a disk.
func smallDisk(t *testing.T, server *pgtest.Server) (dir, url string) {
	t.Helper()
	if os.Getenv(pgtest.Env) != "" {
		t.Skipf("cannot change the disk of the server in %s", pgtest.Env)
	}
	info, err := os.Stat(server.Text("SHOW data_directory"))
	require.NoError(t, err)
	dir, err = os.MkdirTemp("", "penstock-disk-") // a folder that the server's user can reach
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=512m"); err != nil {
		t.Skip("mount a small disk:", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	owner := info.Sys().(*syscall.Stat_t)
	require.NoError(t, os.Chown(dir, int(owner.Uid), int(owner.Gid)))
	server.Exec("CREATE TABLESPACE small LOCATION '" + dir + "'")
	server.Exec("CREATE DATABASE small TABLESPACE small")
	return dir, strings.Replace(server.URL(), "/postgres?", "/small?", 1)
}

// leave changes the size of the disk so that n bytes are free.
func leave(t *testing.T, server *pgtest.Server, dir string, n int64) {
	t.Helper()
	server.Exec("CHECKPOINT") // write everything to the disk
	var s syscall.Statfs_t
	require.NoError(t, syscall.Statfs(dir, &s))
	size := int64(s.Blocks-s.Bfree)*s.Bsize + n
	require.NoError(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", size)))
}

// TestFullDisk fills the server's disk during a commit. The commit must fail at once, without retries. The error must
// say that the server's disk is full. When there is space again, the commit succeeds. // Invariants 1, 15
func TestFullDisk(t *testing.T) {
	server := pgtest.Start(t)
	dir, url := smallDisk(t, server)
	d := open(t, Options{URL: url, Schema: "s"})
	loadRows(t, d, 1, faultParts(1, 10)...)

	leave(t, server, dir, 256<<10)
	begin := time.Now()
	_, err := attemptLoad(t, d, 2, "c2", faultParts(2, 5_000)...)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, codeDiskFull, pgerror.Code(err))
	require.ErrorContains(t, err, "the server's disk is full: ")
	require.NotContains(t, err.Error(), "attempts")
	require.Less(t, time.Since(begin), 20*time.Second)
	at, err := d.Cursor(t.Context(), leads)
	require.NoError(t, err)
	require.EqualValues(t, "c1", at, "the failed commit has not changed the cursor")

	leave(t, server, dir, 512<<20)
	loadRows(t, d, 2, faultParts(2, 5_000)...)
}

// In TestFullDiskAtConnect, the disk has no room for the file that the server writes for the first session.
func TestFullDiskAtConnect(t *testing.T) {
	server := pgtest.Start(t)
	dir, url := smallDisk(t, server)
	leave(t, server, dir, 0)
	begin := time.Now()
	_, err := Open(t.Context(), Options{URL: url, Schema: "s"})
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "the server's disk is full: ")
	require.NotContains(t, err.Error(), "failed to")
	require.Less(t, time.Since(begin), 20*time.Second)
}

// TestOtherErrorsNotFull checks that other internal errors do not count as a full disk.
func TestOtherErrorsNotFull(t *testing.T) {
	for _, err := range []error{nil, errors.New("no answer"), &pgconn.PgError{Code: pgerror.Internal, Message: "cache lookup failed"}} {
		require.Equal(t, err, markDiskFull(err))
	}
	require.False(t, transient(markDiskFull(&pgconn.PgError{Code: codeDiskFull})))
}
