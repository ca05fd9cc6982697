package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// errNoMemory is returned if Request.Take refuses the memory for a body.
var errNoMemory = errors.New("no memory is left for a larger body")

// These errors are final: a retry would get the same body.
var (
	errTooBig   = errors.New("body is larger than allowed")
	errTooDense = errors.New("body decompresses to more than allowed for its size")
	errNested   = errors.New("body is compressed twice")
	errEncoding = errors.New("body has an encoding that was not requested")
)

const (
	firstBuffer = 64 << 10
	trustLength = 4 << 20  // before any bytes arrive, at most this much memory is allocated for a Content-Length
	keepBuffer  = 16 << 20 // larger buffers are not used again
	denseFloor  = 1 << 20  // smaller bodies may have any compression ratio
)

type bufferPool struct {
	buffers   sync.Pool // of *buffer
	inflaters sync.Pool // of *inflater
}

// buffer is the memory of one body. It returns to the pool when the response is released. // Invariant 6
type buffer struct {
	pool   *sync.Pool
	mem    []byte
	text   []byte // the part of mem that is the body
	expect int64  // expected length, from Content-Length or from the previous body

	take func(size int64) bool // see Request.Take; may be nil

	notice string // a PHP warning that preceded the body
}

func (m *bufferPool) buffer(size int64) *buffer {
	b, ok := m.buffers.Get().(*buffer)
	if !ok {
		b = &buffer{pool: &m.buffers}
	}
	b.expect = size
	size = min(max(size, firstBuffer), trustLength)
	if int64(cap(b.mem)) < size {
		b.mem = make([]byte, 0, size+512) // with the extra bytes, the last read sees EOF without a larger buffer
	}
	b.mem = b.mem[:0]
	return b
}

func (b *buffer) release() {
	b.text, b.notice, b.take = nil, "", nil
	if cap(b.mem) <= keepBuffer {
		b.pool.Put(b)
	}
}

// larger returns the next size of the buffer: the expected length if an eighth of it has arrived, otherwise double
// the size.
func (b *buffer) larger() int64 {
	have, all := int64(cap(b.mem)), b.expect+512
	if have < all && all <= 8*have {
		return all
	}
	return 2 * have
}

func (b *buffer) fill(r io.Reader, limit int64, dense func(n int) bool) error {
	for {
		if len(b.mem) == cap(b.mem) {
			size := min(b.larger(), limit+512)
			if b.take != nil && !b.take(size) {
				return errNoMemory
			}
			larger := make([]byte, len(b.mem), size)
			copy(larger, b.mem)
			b.mem = larger
		}
		n, err := r.Read(b.mem[len(b.mem):cap(b.mem)])
		b.mem = b.mem[:len(b.mem)+n]
		b.text = b.mem
		switch {
		case int64(len(b.mem)) > limit:
			return errTooBig
		case dense != nil && dense(len(b.mem)):
			return errTooDense
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

type inflater struct {
	src   io.Reader
	in    *bufio.Reader
	gz    gzip.Reader
	read  int64
	limit int64
}

// Read reads compressed bytes. It fails after more than f.limit bytes.
func (f *inflater) Read(p []byte) (int, error) {
	n, err := f.src.Read(p)
	if f.read += int64(n); f.read > f.limit {
		return n, errTooBig
	}
	return n, err
}

func (c *Client) inflate(b *buffer, r io.Reader) error {
	f, ok := c.buffers.inflaters.Get().(*inflater)
	if !ok {
		f = &inflater{in: bufio.NewReaderSize(nil, 32<<10)}
	}
	defer func() {
		f.src = nil
		c.buffers.inflaters.Put(f)
	}()
	// An endless series of empty gzip members gives no text, so the compressed bytes are limited too.
	f.src, f.read, f.limit = r, 0, c.opts.MaxBody+denseFloor
	f.in.Reset(f)
	if err := f.gz.Reset(f.in); err != nil {
		return err
	}
	dense := func(n int) bool { return n > denseFloor && int64(n) > c.opts.MaxRatio*f.read }
	return b.fill(&f.gz, c.opts.MaxBody, dense)
}

func (c *Client) readBody(resp *http.Response, r io.Reader, file bool, take func(int64) bool) (*buffer, error) {
	encoding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding")))
	if len(resp.Header.Values("Content-Encoding")) > 1 {
		encoding = "several"
	}
	size := resp.ContentLength
	if size <= 0 || encoding != "" && encoding != "identity" {
		size = max(size, c.sizeHint.Load())
	}
	if take != nil && !take(min(max(size, firstBuffer), trustLength)) {
		return nil, errNoMemory
	}
	b := c.buffers.buffer(size)
	b.take = take
	var err error
	switch encoding {
	case "", "identity":
		err = c.readPlain(b, resp, r, file)
	case "gzip", "x-gzip":
		err = c.inflate(b, r)
		if err == nil && !file && isGzip(b.text) {
			err = errNested
		}
	default:
		err = fmt.Errorf("%w: %.40q", errEncoding, encoding)
	}
	if err != nil {
		b.release()
		return nil, err
	}
	c.sizeHint.Store(int64(len(b.text)))
	if !file {
		b.text = stripMark(b.text)
	}
	return b, nil
}

func (c *Client) readPlain(b *buffer, resp *http.Response, r io.Reader, file bool) error {
	if resp.ContentLength > c.opts.MaxBody {
		return errTooBig
	}
	if err := b.fill(r, c.opts.MaxBody, nil); err != nil {
		return err
	}
	if file || !isGzip(b.text) {
		return nil
	}
	// The body begins with gzip's magic number, so the Content-Encoding header is missing.
	packed := bytes.Clone(b.text)
	b.mem = b.mem[:0]
	if err := c.inflate(b, bytes.NewReader(packed)); err != nil {
		return err
	}
	if isGzip(b.text) {
		return errNested
	}
	return nil
}

func isGzip(b []byte) bool { return len(b) > 2 && b[0] == 0x1f && b[1] == 0x8b && b[2] == 8 }

// stripMark removes byte order marks. Some servers send the mark twice.
func stripMark(b []byte) []byte {
	for {
		b = bytes.TrimLeft(b, " \t\r\n")
		rest, ok := bytes.CutPrefix(b, []byte("\xef\xbb\xbf"))
		if !ok {
			return b
		}
		b = rest
	}
}

func charset(contentType string) string {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return ""
	}
	switch name := strings.ToLower(params["charset"]); name {
	case "utf-8", "utf8", "us-ascii", "ascii":
		return ""
	default:
		return name
	}
}
