package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// localFiles uses a local folder like a bucket: files are created and removed, but never changed.
type localFiles struct {
	root string
	disk *disk
}

var _ objects = (*localFiles)(nil)

func (l *localFiles) path(key string) string { return filepath.Join(l.root, filepath.FromSlash(key)) }

func (l *localFiles) put(_ context.Context, key string, body io.ReadSeeker, _ int64) error {
	return l.write(key, func(f *os.File) error {
		_, err := io.Copy(f, body)
		return err
	})
}

func (l *localFiles) create(_ context.Context, key string, text []byte) error {
	err := l.write(key, func(f *os.File) error {
		_, err := f.Write(text)
		return err
	})
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %w", errTaken, err)
	}
	return err
}

// write makes the file and its name durable.
func (l *localFiles) write(key string, fill func(*os.File) error) error {
	path := l.path(key)
	dir := filepath.Dir(path)
	if err := l.disk.makeAll(dir); err != nil {
		return err
	}
	f, err := l.disk.makeFile(path)
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil {
		err = l.disk.flush(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return l.disk.flushDir(dir)
}

func (l *localFiles) get(_ context.Context, key string, from, n int64) ([]byte, int64, error) {
	f, err := os.Open(l.path(key))
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if n == 0 || from+n > info.Size() {
		n = max(0, info.Size()-from)
	}
	text := make([]byte, n)
	_, err = f.ReadAt(text, from)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return text, info.Size(), err
}

func (l *localFiles) list(_ context.Context, prefix string, _ int, visit func(string, int64) bool) error {
	type object struct {
		key  string
		size int64
	}
	var all []object
	dir := l.path(prefix[:strings.LastIndexByte(prefix, '/')+1])
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return ignoreGone(err)
		}
		info, err := e.Info()
		if err != nil {
			return ignoreGone(err)
		}
		key, err := filepath.Rel(l.root, path)
		if key = filepath.ToSlash(key); strings.HasPrefix(key, prefix) {
			all = append(all, object{key, info.Size()})
		}
		return err
	})
	if err != nil {
		return ignoreGone(err)
	}
	slices.SortFunc(all, func(a, b object) int { return strings.Compare(a.key, b.key) })
	for _, o := range all {
		if !visit(o.key, o.size) {
			return nil
		}
	}
	return nil
}

func (l *localFiles) folders(_ context.Context, prefix string) ([]string, error) {
	entries, err := os.ReadDir(l.path(prefix))
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, ignoreGone(err)
}

func (l *localFiles) remove(_ context.Context, key string) error {
	return ignoreGone(os.Remove(l.path(key)))
}

// uploads returns none. An unfinished file is removed in the same way as other files that no manifest names.
func (l *localFiles) uploads(context.Context, string) ([]unfinishedUpload, error) { return nil, nil }

func (l *localFiles) abortUploads(context.Context, unfinishedUpload) error { return nil }
