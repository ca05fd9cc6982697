package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	wholeBytes = 1 << 20  // a smaller object is read by one request
	tailBytes  = 64 << 10 // the end of a larger object, which is read first: it usually contains the footer
	aheadBytes = 4 << 20  // minimum that one request reads
)

// ErrSize says that an object does not have the expected size.
var ErrSize = errors.New("the object has another size")

// A Reader reads an object at any position.
type Reader interface {
	io.ReaderAt
	io.ReadSeekCloser
}

// OpenReader opens an object with a known size.
func OpenReader(ctx context.Context, b Bucket, key string, size int64) (Reader, error) {
	from := max(0, size-tailBytes)
	if size <= wholeBytes {
		from = 0
	}
	text, found, err := b.Get(ctx, key, from, size-from)
	if err == nil && found != size {
		err = fmt.Errorf("read %s: %w: %d bytes, not %d", key, ErrSize, found, size)
	}
	if err != nil {
		return nil, err
	}
	if from == 0 {
		return nopCloser{io.NewSectionReader(bytes.NewReader(text), 0, size)}, nil
	}
	r := &remote{b: b, ctx: ctx, key: key, size: size, tail: text}
	return nopCloser{io.NewSectionReader(r, 0, size)}, nil
}

// Copy writes an object with a known size to a writer.
func Copy(ctx context.Context, to io.Writer, b Bucket, key string, size int64) error {
	for at := int64(0); at < size; {
		text, found, err := b.Get(ctx, key, at, min(aheadBytes, size-at))
		if err != nil {
			return err
		}
		if found != size || len(text) == 0 {
			return fmt.Errorf("%w: %d bytes, not %d", ErrSize, found, size)
		}
		if _, err := to.Write(text); err != nil {
			return err
		}
		at += int64(len(text))
	}
	return nil
}

type nopCloser struct{ *io.SectionReader }

// Close implements io.Closer.
func (nopCloser) Close() error { return nil }

// remote reads an object by range requests, with read-ahead.
type remote struct {
	b    Bucket
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
		text, _, err := r.b.Get(r.ctx, r.key, off, n)
		if err != nil {
			return 0, err
		}
		r.at, r.ahead = off, text
	}
	return copy(p, r.ahead[off-r.at:]), nil
}
