package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/zeebo/xxh3"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet/objects"
)

func (s *bucketStore) open(ctx context.Context, f *file) (input, error) {
	in, err := objects.OpenReader(ctx, s.bucket.o, f.key(), f.Size)
	if errors.Is(err, objects.ErrSize) {
		err = &load.ForeignChange{Table: filepath.Base(f.dir), Diff: []string{fmt.Sprintf("the file %s/%s was changed", s.bucket.url, f.key())}}
	}
	if err != nil {
		return nil, err
	}
	return in, nil
}

// Fetch makes the files of the wanted tables available in the file system, and returns their paths by table. The second
// result has the paths of the tables' delete files, which say which rows of the files do not belong to the table: see
// [TableFiles]. Fetch downloads files of a bucket into the folder dir. A file that is already there is not downloaded
// again, because files with the same name always have the same content.
func (l *Lake) Fetch(ctx context.Context, dir string, want func(table string) bool) (files, deletes map[string][]string, err error) {
	all, err := l.manifests(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("fetch files: %w", err)
	}
	files, deletes = map[string][]string{}, map[string][]string{}
	for _, m := range all {
		for _, t := range m.Tables {
			if !want(t.Name) {
				continue
			}
			for i, f := range m.named(t) {
				path, err := f.fetch(ctx, dir)
				if err != nil {
					return nil, nil, fmt.Errorf("fetch files: %w", err)
				}
				if i < len(m.files(t)) {
					files[t.Name] = append(files[t.Name], path)
				} else {
					deletes[t.Name] = append(deletes[t.Name], path)
				}
			}
		}
	}
	return files, deletes, nil
}

func (f *file) fetch(ctx context.Context, dir string) (string, error) {
	s, far := f.store.(*bucketStore)
	if t, tabled := f.store.(*tableStore); tabled {
		s, far = t.bucketStore, true
	}
	if !far {
		return f.path(), nil
	}
	if near, ok := s.bucket.o.(*objects.Local); ok {
		return near.Path(f.key()), nil
	}
	path := filepath.Join(dir, fmt.Sprintf("%016x", xxh3.HashString(s.bucket.url)), filepath.FromSlash(f.key()))
	if info, err := os.Stat(path); err == nil && info.Size() == f.Size {
		return path, nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), tmpPrefix)
	if err != nil {
		return "", err
	}
	err = errors.Join(s.copyTo(ctx, tmp, f), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(tmp.Name()))
	}
	return path, nil
}

func (s *bucketStore) copyTo(ctx context.Context, to io.Writer, f *file) error {
	sum := xxh3.New()
	if err := objects.Copy(ctx, io.MultiWriter(sum, to), s.bucket.o, f.key(), f.Size); err != nil {
		return fmt.Errorf("read %s/%s: %w", s.bucket.url, f.key(), err)
	}
	if got := fmt.Sprintf("%016x", sum.Sum64()); got != f.Sum {
		return fmt.Errorf("read %s/%s: its checksum is %s, not %s", s.bucket.url, f.key(), got, f.Sum)
	}
	return nil
}
