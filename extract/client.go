// Package extract knows what a page is: where an answer keeps its records, how
// a list goes on and when it has ended, and which requests a parent's records
// lead to. Bytes come from [wire]; what the values mean is decided elsewhere.
//
// Most payloads of the platform are undocumented, and its modules answer in
// different dialects. So nothing is taken for granted: the catalogue's hints are
// checked against each answer, what they leave open is detected by rules, and
// where no rule fits the stream stops and says what it saw. A list that ends for
// any reason but its own rule is an error, never a shorter list.
//
// Begin with [New]; range over [Client.Pages].
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

// Config says where a [Client] reads and what. One of V2, App and Streams is
// needed; the zero value of the rest works.
type Config struct {
	V2, App *wire.Client            // the two surfaces
	Streams map[string]*wire.Client // of streams with an origin or credential of their own

	// Selected are the streams of this run. A stream whose parent is among them
	// takes its parameters from the last whole pass over the parent, and waits
	// for the first one to end; so begin a parent's pass before its children's.
	Selected []schemas.Stream

	// Find knows the streams that are not selected: a parent that nobody else
	// reads is read for its children alone.
	Find func(name string) (schemas.Stream, bool)

	Parallel int    // requests of one stream at a time; default 16
	MaxBytes int64  // of bodies fetched ahead, all streams together; default 64 MiB
	MaxPages int    // of one list; default 100,000
	Dir      string // for what parents hand to their children; default the system's

	// Now is the time of day by which a stream is read whole again, the same for all
	// that share its cursor: see [state.Store]. nil is this machine's.
	Now func() time.Time
}

// Client reads streams. It is safe for concurrent use, one pass a stream at a
// time. Close it.
type Client struct {
	cfg      Config
	parallel int
	maxBytes int64
	maxPages int
	seed     maphash.Seed
	docs     sync.Pool
	inFlight atomic.Int64

	mu      sync.Mutex
	feeds   map[string]*parentFeed // by parent
	settles func(schemas.Stream) schemas.Stream
}

// New returns a client. It makes no request; it refuses streams that cannot be
// read or whose parents it cannot find.
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

// Settle has the client read those streams as settle says which it reads by
// itself, for streams below them: as they have turned out to answer, and not as
// the configuration alone has them. It is called before the first pass; settle
// may be, from many goroutines, during any.
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

// admit checks one selected stream and prepares its parent to feed it.
func (c *Client) admit(s schemas.Stream) error {
	if !s.Readable() {
		return fmt.Errorf("stream %s: a %s call is never read", s.Name, s.Class)
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

// wireFor is the client that a stream's requests go through.
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

// Close removes what was kept for children. No pass may be under way.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, f := range c.feeds {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}

// Pages reads s from the cursor on: from the beginning for "" or the cursor at
// the end of a pass, else from where a pass was interrupted. The last page has
// End. An error ends the sequence; what came before it stands, and its cursors
// resume behind it. Errors of the source are or wrap [*wire.Error], those of a
// parent [*ParentError]. Leaving the loop early stops every request that is
// still under way before Pages returns.
func (c *Client) Pages(ctx context.Context, s schemas.Stream, from state.Cursor) iter.Seq2[Page, error] {
	return c.PagesOf(ctx, s, from, nil)
}

// PagesOf is [Client.Pages] of some parents: where s hangs from another stream,
// only those are asked for which ask returns true. of is how many there are in
// all. A stream that feeds streams below it is read whole, whatever ask wants:
// they need all of its records.
func (c *Client) PagesOf(ctx context.Context, s schemas.Stream, from state.Cursor, ask func(p Parent, of int) bool) iter.Seq2[Page, error] {
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
		p := &pass{c: c, s: s, mark: m, resumed: resumed, ask: ask}
		f := c.fedBy(s.Name)
		if f != nil {
			p.ask = nil
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
