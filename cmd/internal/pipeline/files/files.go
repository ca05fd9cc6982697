// Package files stores the files of records in the folder of a destination. A file's path depends on its content, so
// files are never overwritten.
package files

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// ColPath is the column with the path of the row's file.
const ColPath = "path"

// orphanAge is how old a file without a row must be before it is removed. A younger file may still get its row, because
// another process may be about to commit that row.
const orphanAge = 24 * time.Hour

// Folder is the path of the folder with the files of one destination. If it is "", no files are stored.
type Folder string

// Stores reports whether the files of the stream's records are stored.
func (d Folder) Stores(s schemas.Stream) bool { return s.Class == schemas.ClassFile && d != "" }

// Keep makes the files durable before a row names them. // Invariant 2
func (d Folder) Keep(files []extract.File) error {
	if d == "" {
		return nil
	}
	for _, f := range files {
		if err := d.write(f); err != nil {
			return fmt.Errorf("keep file: %w", err)
		}
	}
	if err := d.settle(files); err != nil {
		return fmt.Errorf("keep files: %w", err)
	}
	return nil
}

func (d Folder) write(f extract.File) error {
	if !filepath.IsLocal(f.Path) {
		return fmt.Errorf("path %q is outside the folder %s", f.Path, string(d))
	}
	path := filepath.Join(string(d), f.Path)
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == int64(len(f.Body)) {
		now := time.Now()
		return os.Chtimes(path, now, now) // protects the file from removeOrphans in any process
	}
	if err := d.unlinked(f.Path); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return writeDurably(path, f.Body)
}

// The method unlinked() refuses symbolic links below d. The folder d itself may be a link.
func (d Folder) unlinked(path string) error {
	for dir := filepath.Dir(filepath.Clean(path)); dir != "."; dir = filepath.Dir(dir) {
		info, err := os.Lstat(filepath.Join(string(d), dir))
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is a symbolic link and is not followed; set another folder in `files:` of the destination", filepath.Join(string(d), dir))
		}
	}
	return nil
}

// settle syncs the folders of all files. The folders of files that already existed are synced too: the process that
// wrote them may have been killed before it synced.
func (d Folder) settle(files []extract.File) error {
	folders := map[string]bool{}
	for _, f := range files {
		for dir := filepath.Dir(filepath.Clean(f.Path)); !folders[dir]; dir = filepath.Dir(dir) {
			folders[dir] = true // up to and including ".", which is d
		}
	}
	for dir := range folders {
		if err := syncFolder(filepath.Join(string(d), dir)); err != nil {
			return err
		}
	}
	if len(files) == 0 {
		return nil
	}
	err := syncFolder(filepath.Dir(string(d)))
	if errors.Is(err, fs.ErrPermission) {
		return nil // this process has no right to read the parent folder, so it has not created d there
	}
	return err
}

// Has reports whether there is a file with this path.
func (d Folder) Has(path string) bool {
	if !filepath.IsLocal(path) {
		return false
	}
	info, err := os.Lstat(filepath.Join(string(d), path))
	return err == nil && info.Mode().IsRegular()
}

const temporary = ".penstock-"

// writeDurably creates the file atomically. The caller must sync its folder.
func writeDurably(path string, body []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, temporary+"*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Tidy removes the files of a stream that no row names any more. A deleted row still names its files, and so does an
// earlier version of a row.
func (d Folder) Tidy(ctx context.Context, dest load.Destination, s schemas.Stream) error {
	seed, named := maphash.MakeSeed(), []uint64{}
	err := dest.Scan(ctx, s.Table.Name, []string{ColPath}, func(b arrow.RecordBatch) error {
		for row := range int(b.NumRows()) {
			named = append(named, maphash.String(seed, rowhash.Text(b.Column(0), row)))
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(named)
	return d.removeOrphans(s.Table.Name, time.Now().Add(-orphanAge), func(path string) bool {
		_, ok := slices.BinarySearch(named, maphash.String(seed, path))
		return ok
	})
}

func (d Folder) removeOrphans(table string, before time.Time, named func(path string) bool) error {
	root := filepath.Join(string(d), table)
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(string(d), path)
		if err != nil {
			return err
		}
		if named(filepath.ToSlash(rel)) {
			return nil
		}
		if info, err := e.Info(); err != nil || info.ModTime().After(before) {
			return nil
		}
		return os.Remove(path)
	})
}
