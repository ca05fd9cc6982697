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

// freshName is the file, in the engine's private folder, in which a database is
// made before it appears under its own name.
const freshName = "fresh.duckdb"

// create makes the file of a database without tables. The engine writes such a
// file in parts, and would never open one of which some are missing, as a crash
// or a full disk leaves it. So it is made elsewhere, and appears at once.
func (d *DB) create(ctx context.Context) error {
	e := d.window.engine
	fresh := filepath.Join(e.temp, freshName)
	defer os.Remove(fresh)
	for _, q := range []string{attachSQL(fresh, "fresh", d.o, writing), "DETACH fresh"} {
		if err := e.write.exec(ctx, q); err != nil {
			return err
		}
	}
	return appear(ctx, fresh, d.o.Path, d.o.Mode)
}

// appear copies a file to a place where there is none. Should another process
// be quicker, its file stays.
func appear(ctx context.Context, from, path string, mode fs.FileMode) (err error) {
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
	case errors.Is(err, fs.ErrNotExist): // another process is about to, and took this for something left
		return errInUse
	case err != nil: // not every file system has links
		err = os.Rename(to.Name(), path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// makeBeside makes a file in the folder of path, under a name by which the file of a
// killed process can be recognized: such files are removed.
func makeBeside(path string, m fileMode) (*os.File, error) {
	dir, prefix := filepath.Dir(path), fmt.Sprintf(".%s.penstock-", filepath.Base(path))
	entries, _ := os.ReadDir(dir) // where that fails, making a file does as well
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
	return f, err
}
