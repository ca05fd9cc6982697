package parquet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	pqfile "github.com/apache/arrow-go/v18/parquet/file"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet/objects"
)

type dirGeneration struct {
	store *dirStore
	work  string // folder of the generation until it is published; created with the first file
}

func (s *dirStore) draft(context.Context) (pendingGeneration, error) {
	if err := s.dir.usable(s.root); err != nil {
		return nil, err
	}
	return &dirGeneration{store: s, work: filepath.Join(s.root, tmpPrefix+randomName())}, nil
}

func (d *dirGeneration) create(t *table, name string) (output, error) {
	return createFile(d.store.dir.disk, filepath.Join(d.work, t.Folder), name)
}

func (d *dirGeneration) assemble(_ context.Context, m *manifest) error {
	folders, wanted := map[string]bool{}, map[string]bool{}
	for _, t := range m.Tables {
		for _, f := range m.files(t) {
			to := filepath.Join(d.work, t.Folder, f.Name)
			folders[filepath.Dir(to)] = true
			folders[filepath.Join(d.work, t.Folder)] = true
			wanted[to] = true
			if f.path() == to {
				continue
			}
			if err := d.keep(m, f.path(), to); err != nil {
				return err
			}
		}
	}
	if err := d.sweep(wanted); err != nil {
		return err
	}
	for dir := range folders {
		if err := d.store.dir.disk.FlushDir(dir); err != nil {
			return err
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := d.store.dir.step("manifest"); err != nil {
		return err
	}
	if err := d.store.dir.disk.Write(filepath.Join(d.work, manifestName), append(text, '\n')); err != nil {
		return err
	}
	return d.store.dir.disk.FlushDir(d.work)
}

func (d *dirGeneration) keep(m *manifest, from, to string) error {
	if err := errors.Join(unlinked(d.store.dir.path, from), d.store.dir.disk.MakeFolders(filepath.Dir(to))); err != nil {
		return err
	}
	copied, err := d.store.dir.disk.Place(from, to)
	if gone(err) {
		return &load.ForeignChange{Table: m.Stream, Diff: []string{fmt.Sprintf("the file %s is missing", from)}}
	}
	if copied {
		d.store.dir.copies.Do(func() {
			d.store.dir.log.Warn("the file system has no hard links: each commit copies all files of its stream", "folder", d.store.root)
		})
	}
	return err
}

func (d *dirGeneration) sweep(wanted map[string]bool) error {
	return filepath.WalkDir(d.work, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || wanted[path] {
			return err
		}
		return os.Remove(path)
	})
}

// publish makes the generation current. The caller must have held the lock since it called checkFence, so that no
// other process can have moved the link. Invariant 13
func (d *dirGeneration) publish(_ context.Context, m *manifest) error {
	gen := genName(m.Sequence)
	if err := os.Rename(d.work, filepath.Join(d.store.root, gen)); err != nil {
		return err
	}
	d.work = filepath.Join(d.store.root, gen)
	if err := d.store.dir.disk.FlushDir(d.store.root); err != nil {
		return err
	}
	if err := d.store.dir.step("publish"); err != nil {
		return err
	}
	link := filepath.Join(d.store.root, tmpPrefix+randomName())
	if err := d.store.dir.disk.Point(gen, link); err != nil {
		return err
	}
	if err := os.Rename(link, filepath.Join(d.store.root, current)); err != nil {
		return errors.Join(err, os.Remove(link))
	}
	d.work = ""
	return d.store.dir.disk.FlushDir(d.store.root)
}

func (d *dirGeneration) discard() error {
	if d.work == "" {
		return nil
	}
	return os.RemoveAll(d.work)
}

type diskFile struct {
	*os.File
	disk *objects.Disk
	dir  string
}

func createFile(d *objects.Disk, dir, name string) (*diskFile, error) {
	path := filepath.Join(dir, name)
	if err := d.MakeFolders(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := d.MakeFile(path)
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, disk: d, dir: dir}, nil
}

func (o *diskFile) finish(_ context.Context, f *file) error {
	if err := errors.Join(o.disk.Flush(o.File), o.Close()); err != nil {
		return err
	}
	f.dir = o.dir
	r, err := pqfile.OpenParquetFile(f.path(), false)
	if err != nil {
		return fmt.Errorf("verify %s: %w", f.path(), err)
	}
	defer r.Close()
	if r.NumRows() != f.Rows {
		return fmt.Errorf("verify %s: the file has %d rows, not %d", f.path(), r.NumRows(), f.Rows)
	}
	info, err := os.Stat(f.path())
	if err == nil {
		f.Size = info.Size()
	}
	return err
}

// abandon closes the file but does not remove it. It is removed together with the transaction's folder.
func (o *diskFile) abandon() { _ = o.Close() }
