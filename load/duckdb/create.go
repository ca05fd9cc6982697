//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// freshName is the name of a file in the engine's private folder. A new database is created under this name, and then
// moved to the path of the destination.
const freshName = "fresh.duckdb"

// create creates a database file without tables. The engine writes such a file in several steps. It cannot open a file
// that a crash or a full disk has left incomplete. So create builds the file elsewhere, and then moves it to its path
// in one step.
func (d *DB) create(ctx context.Context) error {
	e := d.window.engine
	fresh := filepath.Join(e.temp, freshName)
	defer os.Remove(fresh)
	for _, q := range []string{
		// An existing file keeps its block size, and the engine refuses to attach it with another size. So only this
		// statement states the size.
		fmt.Sprintf("ATTACH %s AS fresh (STORAGE_VERSION %s, BLOCK_SIZE %d)", literal(fresh), literal(d.o.StorageVersion), d.o.BlockSize),
		"DETACH fresh",
	} {
		if err := e.write.Exec(ctx, q); err != nil {
			return err
		}
	}
	return installCopy(ctx, fresh, d.o.Path, d.o.Mode)
}

// installCopy copies a file to a path that does not exist yet. If another process creates a file at the path first,
// installCopy keeps that file.
func installCopy(ctx context.Context, from, path string, mode fs.FileMode) (err error) {
	to, err := makeBeside(path, newMode(mode))
	if err != nil {
		return err
	}
	defer func() {
		_ = to.Close()
		_ = os.Remove(to.Name())
	}()
	if err := copyFile(ctx, to, from); err != nil {
		return err
	}
	if err := to.Sync(); err != nil {
		return err
	}
	switch err = os.Link(to.Name(), path); {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist): // another process is creating the file, and has removed our temporary file, which it took for a leftover
		return errInUse
	case err != nil: // some file systems have no hard links
		err = os.Rename(to.Name(), path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// makeBeside creates a file in the folder of path. It first removes the files that killed processes have left there. It
// recognizes these files by their names.
func makeBeside(path string, m fileMode) (*os.File, error) {
	dir, prefix := filepath.Dir(path), fmt.Sprintf(".%s.penstock-", filepath.Base(path))
	entries, _ := os.ReadDir(dir) // if this fails, OpenFile fails too
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	f, err := os.OpenFile(filepath.Join(dir, prefix+rand.Text()), os.O_RDWR|os.O_CREATE|os.O_EXCL, m.mode)
	if err == nil && m.exact {
		err = f.Chmod(m.mode)
	}
	if err != nil && f != nil {
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err // callers name the path, and users do not know the name of the temporary file
	}
	return f, err
}
