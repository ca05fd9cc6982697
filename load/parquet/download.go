package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/zeebo/xxh3"

	"github.com/penstock-data/penstock/load"
)

const (
	wholeBytes = 1 << 20  // a smaller file is read by one request
	tailBytes  = 64 << 10 // the end of a larger file, which is read first: it usually contains the footer
	aheadBytes = 4 << 20  // minimum that one request reads
)

func (s *bucketStore) open(ctx context.Context, f *file) (input, error) {
	from := max(0, f.Size-tailBytes)
	if f.Size <= wholeBytes {
		from = 0
	}
	text, size, err := s.o.get(ctx, f.key(), from, f.Size-from)
	if err == nil && size != f.Size {
		err = &load.ForeignChange{Table: filepath.Base(f.dir), Diff: []string{fmt.Sprintf("the file %s/%s was changed", s.url, f.key())}}
	}
	if err != nil {
		return nil, err
	}
	if from == 0 {
		return nopCloser{bytes.NewReader(text)}, nil
	}
	r := &remote{o: s.o, ctx: ctx, key: f.key(), size: f.Size, tail: text}
	return nopCloser{io.NewSectionReader(r, 0, f.Size)}, nil
}

type nopCloser struct{ parquet.ReaderAtSeeker }

// Close implements io.Closer.
func (nopCloser) Close() error { return nil }

// remote reads an object by range requests, with read-ahead.
type remote struct {
	o    objects
	ctx  context.Context
	key  string
	size int64
	tail []byte // the end of the object

	mu    sync.Mutex
	at    int64 // offset of ahead
	ahead []byte
}

// ReadAt implements io.ReaderAt.
func (r *remote) ReadAt(p []byte, off int64) (n int, err error) {
	if off >= r.size {
		return 0, io.EOF
	}
	if start := r.size - int64(len(r.tail)); off >= start {
		n = copy(p, r.tail[off-start:])
	} else if n, err = r.readAhead(p, off); err != nil {
		return n, err
	}
	if n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (r *remote) readAhead(p []byte, off int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	want := min(int64(len(p)), r.size-off)
	if off < r.at || off+want > r.at+int64(len(r.ahead)) {
		n := min(max(want, aheadBytes), r.size-off)
		text, _, err := r.o.get(r.ctx, r.key, off, n)
		if err != nil {
			return 0, err
		}
		r.at, r.ahead = off, text
	}
	return copy(p, r.ahead[off-r.at:]), nil
}

// Fetch makes the files of the wanted tables available in the file system, and returns their paths by table. It
// downloads files of a bucket into the folder dir. A file that is already there is not downloaded again: a file name
// always has the same content.
func (l *Lake) Fetch(ctx context.Context, dir string, want func(table string) bool) (map[string][]string, error) {
	all, err := l.manifests(ctx)
	if err != nil {
		return nil, fmt.Errorf("fetch files: %w", err)
	}
	out := map[string][]string{}
	for _, m := range all {
		for _, t := range m.Tables {
			if !want(t.Name) {
				continue
			}
			for _, f := range m.files(t) {
				path, err := f.fetch(ctx, dir)
				if err != nil {
					return nil, fmt.Errorf("fetch files: %w", err)
				}
				out[t.Name] = append(out[t.Name], path)
			}
		}
	}
	return out, nil
}

func (f *file) fetch(ctx context.Context, dir string) (string, error) {
	s, far := f.store.(*bucketStore)
	if t, tabled := f.store.(*tableStore); tabled {
		s, far = t.bucketStore, true
	}
	if !far {
		return f.path(), nil
	}
	if near, ok := s.o.(*localFiles); ok {
		return near.path(f.key()), nil
	}
	path := filepath.Join(dir, fmt.Sprintf("%016x", xxh3.HashString(s.url)), filepath.FromSlash(f.key()))
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
	for at := int64(0); at < f.Size; {
		text, size, err := s.o.get(ctx, f.key(), at, min(aheadBytes, f.Size-at))
		if err != nil {
			return err
		}
		if size != f.Size || len(text) == 0 {
			return fmt.Errorf("read %s/%s: the object has %d bytes, not %d", s.url, f.key(), size, f.Size)
		}
		_, _ = sum.Write(text)
		if _, err := to.Write(text); err != nil {
			return err
		}
		at += int64(len(text))
	}
	if got := fmt.Sprintf("%016x", sum.Sum64()); got != f.Sum {
		return fmt.Errorf("read %s/%s: its checksum is %s, not %s", s.url, f.key(), got, f.Sum)
	}
	return nil
}
