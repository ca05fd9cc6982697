package objects

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

// Local uses a local folder like a bucket: files are created and removed, but never changed.
type Local struct {
	Root string
	Disk *Disk
}

var _ Bucket = (*Local)(nil)

// Path returns the path of an object in the file system.
func (l *Local) Path(key string) string { return filepath.Join(l.Root, filepath.FromSlash(key)) }

// Put implements [Bucket].
func (l *Local) Put(_ context.Context, key string, body io.ReadSeeker, _ int64) error {
	return l.write(key, func(f *os.File) error {
		_, err := io.Copy(f, body)
		return err
	})
}

// Create implements [Bucket].
func (l *Local) Create(_ context.Context, key string, text []byte) error {
	err := l.write(key, func(f *os.File) error {
		_, err := f.Write(text)
		return err
	})
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %w", ErrTaken, err)
	}
	return err
}

// write creates a file, calls fill() to write its content, and makes the file and its name durable.
func (l *Local) write(key string, fill func(*os.File) error) error {
	path := l.Path(key)
	dir := filepath.Dir(path)
	if err := l.Disk.MakeAll(dir); err != nil {
		return err
	}
	f, err := l.Disk.MakeFile(path)
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil {
		err = l.Disk.Flush(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return l.Disk.FlushDir(dir)
}

// Get implements [Bucket].
func (l *Local) Get(_ context.Context, key string, from, n int64) ([]byte, int64, error) {
	f, err := os.Open(l.Path(key))
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

// List implements [Bucket].
func (l *Local) List(_ context.Context, prefix string, _ int, visit func(string, int64) bool) error {
	type object struct {
		key  string
		size int64
	}
	var all []object
	dir := l.Path(prefix[:strings.LastIndexByte(prefix, '/')+1])
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return ignoreMissing(err)
		}
		info, err := e.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		key, err := filepath.Rel(l.Root, path)
		if key = filepath.ToSlash(key); strings.HasPrefix(key, prefix) {
			all = append(all, object{key, info.Size()})
		}
		return err
	})
	if err != nil {
		return ignoreMissing(err)
	}
	slices.SortFunc(all, func(a, b object) int { return strings.Compare(a.key, b.key) })
	for _, o := range all {
		if !visit(o.key, o.size) {
			return nil
		}
	}
	return nil
}

// Folders implements [Bucket].
func (l *Local) Folders(_ context.Context, prefix string) ([]string, error) {
	entries, err := os.ReadDir(l.Path(prefix))
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, ignoreMissing(err)
}

// Remove implements [Bucket].
func (l *Local) Remove(_ context.Context, key string) error {
	return ignoreMissing(os.Remove(l.Path(key)))
}

// Uploads returns none. An unfinished file is removed in the same way as any file that is in no manifest.
func (l *Local) Uploads(context.Context, string) ([]Upload, error) { return nil, nil }

// AbortUpload implements [Bucket].
func (l *Local) AbortUpload(context.Context, Upload) error { return nil }

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
