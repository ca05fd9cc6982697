//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Publish writes a copy of the file to path, for readers that may keep it open for any length of time. A rename
// replaces the previous copy. Readers that have the previous copy open continue to read it. Readers that open the path
// later get the whole new copy. // Invariant 7
//
// Publish does nothing if the copy is up to date. It returns an error if a log exists beside the copy: another program
// has written to the copy, and the engine would replay that log into the new copy.
func (d *DB) Publish(ctx context.Context, path string) error {
	if err := d.publish(ctx, path); err != nil {
		return fmt.Errorf("publish %s: %w", path, err)
	}
	return nil
}

func (d *DB) publish(ctx context.Context, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if !d.exists() {
		return nil // nothing was ever committed
	}
	if same, err := d.published(path); same || err != nil {
		return err
	}
	select { // no commit of this process may run meanwhile
	case d.writer <- struct{}{}:
		defer func() { <-d.writer }()
	case <-ctx.Done():
		return ctx.Err()
	}
	e, release, err := d.acquire(ctx, writing) // and no other process may write to the file
	if err != nil {
		return err
	}
	defer release()
	if d.logSize() > 0 {
		if err := e.write.Exec(ctx, "CHECKPOINT db"); err != nil {
			return err
		}
		d.window.changed = false
	}
	return d.replace(ctx, path)
}

// published() reports whether the copy at path is up to date. A copy has the modification time of its original.
func (d *DB) published(path string) (same bool, err error) {
	if _, err := os.Stat(path + ".wal"); err == nil {
		return false, fmt.Errorf("%s.wal exists: another program has written to the copy; remove both files to publish a new copy", path)
	}
	original, err := os.Stat(d.o.Path)
	if err != nil {
		return false, err
	}
	there, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if os.SameFile(original, there) {
		return false, errors.New("the path is the database itself")
	}
	return d.logSize() == 0 && original.Size() == there.Size() && original.ModTime().Equal(there.ModTime()), nil
}

// replace makes a copy of the file, and renames it to path once the copy is durable. The caller ensures that the file
// does not change while it is copied.
func (d *DB) replace(ctx context.Context, path string) (err error) {
	to, err := makeBeside(path, d.copyMode(path))
	if err != nil {
		return err
	}
	defer func() {
		_ = to.Close()
		if err != nil {
			_ = os.Remove(to.Name())
		}
	}()
	for _, step := range []func() error{
		func() error { return d.step("publish") },
		func() error { return copyFile(ctx, to, d.o.Path) },
		to.Sync,
		func() error { return d.step("published") },
		func() error { _, err := d.published(path); return err }, // a log may have appeared meanwhile
		func() error { return os.Rename(to.Name(), path) },
		func() error { return syncDir(filepath.Dir(path)) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// copyPart is the number of bytes copied between two checks of ctx.
const copyPart = 256 << 20

// copyFile copies a file and its modification time. The kernel makes the copy. If the file system supports it, the copy
// shares its blocks with the original.
func copyFile(ctx context.Context, to *os.File, path string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	for n := int64(copyPart); n == copyPart; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if n, err = to.ReadFrom(io.LimitReader(from, copyPart)); err != nil {
			return err
		}
	}
	return os.Chtimes(to.Name(), time.Time{}, info.ModTime())
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
