// Package extract reads lists: it finds the records of an answer, the position of the next page and
// the end of the list, and requests child streams once per record of their parent. Requests go
// through [wire]; package transform interprets the values.
//
// Most payloads of the platform are undocumented, and its modules use different formats. So nothing
// is taken for granted. The catalogue's hints are checked against each answer. Rules detect what
// the hints leave open. If no rule fits, the stream stops and reports what it saw. A pass ends
// without an error only by one of the Rule constants. So a list that was read in part is never
// taken for the whole list.
//
// Begin with [New], then range over [Client.Pages].
package extract

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Config says which sources and streams a [Client] reads. One of V2, App and Streams is required;
// the other fields may be zero.
type Config struct {
	V2, App *wire.Client            // clients of the versioned API and of the application
	Streams map[string]*wire.Client // by name, for streams with their own origin or credential

	// Selected are the streams of this run. A stream whose parent is also selected takes its
	// parameters from the last whole pass over the parent in this run. If none has ended yet, the
	// stream waits for one. If the parent's pass has not begun after 30 seconds, the parent is read
	// for the stream. So begin the parent's pass before its children's.
	Selected []schemas.Stream

	// Find looks up streams that are not selected. A parent that is not selected is read only for
	// its children.
	Find func(name string) (schemas.Stream, bool)

	Parallel int    // requests of one stream at a time; default 16
	MaxBytes int64  // of bodies fetched ahead, all streams together; default 64 MiB
	MaxPages int    // of one list; default 100,000
	Dir      string // folder for the parameters that parents store for their children; default: the system's temporary folder

	// Now is the clock that decides when a stream is due for a whole pass. All processes that share
	// a cursor must use the same one: see [state.Store]. The default is this machine's clock.
	Now func() time.Time
}

// Client reads streams. It is safe for concurrent use, with one pass per stream at a time. Close it
// after use.
type Client struct {
	cfg      Config
	parallel int
	maxBytes int64
	maxPages int
	seed     maphash.Seed
	docs     sync.Pool
	inFlight atomic.Int64

	mu      sync.Mutex
	feeds   map[string]*parentFeed
	settles func(schemas.Stream) schemas.Stream
}

// New returns a client. It sends no request. It refuses streams that cannot be read and streams
// whose parent it cannot find.
func New(cfg Config) (*Client, error) {
	c := &Client{
		cfg:      cfg,
		parallel: cfg.Parallel,
		maxBytes: cfg.MaxBytes,
		maxPages: cfg.MaxPages,
		seed:     maphash.MakeSeed(),
		docs:     sync.Pool{New: func() any { return new(doc) }},
		feeds:    make(map[string]*parentFeed),
	}
	if c.parallel <= 0 {
		c.parallel = 16
	}
	if c.maxBytes <= 0 {
		c.maxBytes = 64 << 20
	}
	if c.maxPages <= 0 {
		c.maxPages = 100_000
	}
	if c.cfg.Now == nil {
		c.cfg.Now = time.Now
	}
	if c.cfg.Dir == "" {
		c.cfg.Dir = os.TempDir()
	}
	var errs []error
	for _, s := range cfg.Selected {
		errs = append(errs, c.admit(s))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, nil
}

// Settle sets a function that completes streams with what earlier runs found out about them. The client
// applies it to the parents that it reads only for their children. Call Settle before the first
// pass. The function may be called from many goroutines during any pass.
func (c *Client) Settle(settle func(schemas.Stream) schemas.Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settles = settle
}

func (c *Client) settled(s schemas.Stream) schemas.Stream {
	c.mu.Lock()
	settle := c.settles
	c.mu.Unlock()
	if settle == nil {
		return s
	}
	return settle(s)
}

func (c *Client) admit(s schemas.Stream) error {
	if !s.Readable() {
		return fmt.Errorf("stream %s: endpoints of class %s cannot be read", s.Name, s.Class)
	}
	if _, err := c.wireFor(s); err != nil {
		return err
	}
	if _, err := constants(s); err != nil {
		return fmt.Errorf("stream %s: %w", s.Name, err)
	}
	if s.Parent == "" {
		return nil
	}
	_, err := c.feedOf(s)
	return err
}

func (c *Client) wireFor(s schemas.Stream) (*wire.Client, error) {
	w := c.cfg.Streams[s.Name]
	if w == nil && s.Surface == schemas.SurfaceV2 {
		w = c.cfg.V2
	}
	if w == nil && s.Surface == schemas.SurfaceApp {
		w = c.cfg.App
	}
	if w == nil {
		return nil, fmt.Errorf("stream %s: the source has no %s surface", s.Name, s.Surface)
	}
	return w, nil
}

// Close removes the stored parameters of child streams. No pass may be running.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, f := range c.feeds {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}

// Pages reads s. It begins at the beginning of the list if from is "" or the cursor of a finished
// pass, or if the request of s has changed since the cursor was made. Otherwise it continues where
// the pass was interrupted. The last page has End. An error ends the sequence; the pages before it
// are valid, and their cursors resume after them. Errors of the source are or wrap [*wire.Error],
// errors of a parent [*ParentError]. When the caller leaves the loop early, Pages stops all its
// requests before it returns.
func (c *Client) Pages(ctx context.Context, s schemas.Stream, from state.Cursor) iter.Seq2[Page, error] {
	return c.PagesOf(ctx, s, from, nil)
}

// PagesOf is [Client.Pages] for some of the parents of a child stream. It requests only the parents
// for which the argument selects, a function, returns true; nil means all. The second argument of that
// function is the number of all parents. The function is not used if s is itself the parent of
// streams in this run, because they need all of its records.
func (c *Client) PagesOf(ctx context.Context, s schemas.Stream, from state.Cursor, selects func(p Parent, count int) bool) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		m, resumed, err := parsePassCursor(from)
		if err == nil {
			err = c.admit(s)
		}
		if err != nil {
			yield(Page{}, err)
			return
		}
		by := c.by(s)
		switch {
		case !resumed || m.Of != pagesOf(s) || m.partial() && m.By != by:
			prev := m
			m, resumed = newPassCursor(s), false
			m.begin(prev, by, s, c.cfg.Now())
		case m.By != by:
			m.recall = recall{}
		}
		p := &pass{c: c, s: s, mark: m, resumed: resumed, selects: selects}
		f := c.fedBy(s.Name)
		if f != nil {
			p.selects = nil
		}
		pages := p.pages(ctx)
		if f != nil {
			pages = f.tap(ctx, pages, resumed || m.partial())
		}
		for page, err := range pages {
			if !yield(page, err) || err != nil {
				return
			}
		}
	}
}
