package state

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

var oneTable = []string{"CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (1)"}

func sum(t *testing.T, f *sqliteFile) (n int) {
	t.Helper()
	require.NoError(t, f.read.QueryRowContext(t.Context(), "SELECT sum(n) FROM t").Scan(&n))
	return n
}

func add(ctx context.Context, f *sqliteFile, n int) error {
	return f.change(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO t VALUES (?)", n)
		return err
	})
}

func TestSQLite(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "a folder?#%", "x.db")
	f, err := openSQLite(ctx, path, 0, oneTable)
	require.NoError(t, err)
	require.NoError(t, add(ctx, f, 2))

	_, err = openSQLite(ctx, path, 0, oneTable)
	require.ErrorIs(t, err, ErrLocked, "only one process can open the file for writing")
	r, err := readSQLite(ctx, path, oneTable)
	require.NoError(t, err, "readers can open the file")
	require.Equal(t, 3, sum(t, r))

	failed := errors.New("failed")
	require.ErrorIs(t, f.change(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO t VALUES (100)")
		require.NoError(t, err)
		return failed
	}), failed)
	require.NoError(t, add(ctx, f, 4))
	require.Equal(t, 7, sum(t, r))
	_, err = r.read.ExecContext(ctx, "INSERT INTO t VALUES (1)")
	require.ErrorContains(t, err, "readonly")

	require.NoError(t, r.Close())
	require.NoError(t, f.Close())
	f, err = openSQLite(ctx, path, 0, append(oneTable, "INSERT INTO t VALUES (10)"))
	require.NoError(t, err)
	require.Equal(t, 17, sum(t, f), "the first migration does not run again")
	require.NoError(t, f.Close())

	_, err = openSQLite(ctx, path, 0, oneTable)
	require.ErrorIs(t, err, ErrNewer)
	_, err = readSQLite(ctx, path, oneTable)
	require.ErrorIs(t, err, ErrNewer)
	_, err = readSQLite(ctx, path, append(oneTable, "", ""))
	require.ErrorContains(t, err, "an older version")
}

func TestSQLitePragmas(t *testing.T) {
	f, err := openSQLite(t.Context(), filepath.Join(t.TempDir(), "x.db"), 0, oneTable)
	require.NoError(t, err)
	defer f.Close()
	for _, db := range []*sql.DB{f.read, f.write} {
		for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "fullfsync": "1", "auto_vacuum": "2", "busy_timeout": "10000"} {
			var got string
			require.NoError(t, db.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
			require.Equal(t, want, got, pragma)
		}
	}
}

func TestSQLiteHalfMigrated(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "x.db")
	_, err := openSQLite(ctx, path, 0, append(oneTable, "INSERT INTO t VALUES (5); nonsense"))
	require.ErrorContains(t, err, "run migration 2")
	f, err := openSQLite(ctx, path, 0, append(oneTable, "INSERT INTO t VALUES (7)"))
	require.NoError(t, err)
	require.Equal(t, 8, sum(t, f), "the failed migration leaves nothing")
	require.NoError(t, f.Close())
}

func TestReadSQLiteMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "x.db")
	_, err := readSQLite(t.Context(), path, oneTable)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoDirExists(t, filepath.Dir(path), "reading creates nothing")
}

func TestSQLiteIsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes do not describe rights here")
	}
	ctx, dir := t.Context(), t.TempDir()
	path := filepath.Join(dir, "made", "x.db")
	f, err := openSQLite(ctx, path, 0, oneTable)
	require.NoError(t, err)
	for name, want := range map[string]fs.FileMode{"": fs.ModeDir | 0o700, "x.db": 0o600, "x.db-wal": 0o600, "x.db-shm": 0o600} {
		info, err := os.Stat(filepath.Join(dir, "made", name))
		require.NoError(t, err)
		require.Equal(t, want, info.Mode(), name)
	}
	require.NoError(t, f.Close())

	require.NoError(t, os.Chmod(path, 0o640))
	_, err = openSQLite(ctx, path, 0, oneTable)
	require.ErrorIs(t, err, ErrExposed)
	_, err = readSQLite(ctx, path, oneTable)
	require.ErrorIs(t, err, ErrExposed)
	require.NoError(t, os.Chmod(path, 0o600))

	for _, ending := range []string{"", "-wal", "-shm"} {
		link := filepath.Join(t.TempDir(), "x.db")
		require.NoError(t, os.Symlink(path, link+ending))
		if ending != "" {
			require.NoError(t, os.WriteFile(link, nil, 0o600))
		}
		_, err = openSQLite(ctx, link, 0, oneTable)
		require.ErrorIs(t, err, ErrExposed, "a link at %s", ending)
	}
	open := filepath.Join(dir, "open")
	require.NoError(t, os.Mkdir(open, 0o700))
	require.NoError(t, os.Chmod(open, 0o777))
	_, err = openSQLite(ctx, filepath.Join(open, "x.db"), 0, oneTable)
	require.ErrorIs(t, err, ErrExposed)
}
