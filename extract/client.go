// Package extract reads lists. It finds the records of an answer, the position of the next page and the end of the
// list. It requests child streams once per record of their parent. [wire] sends the requests, and package transform
// interprets the values.
//
// Most answers of the platform are undocumented, and its modules use different formats. So each answer is compared with
// the hints of the catalogue, and rules find out what the hints do not say. If no rule fits, the pass stops with an
// error that describes the answer. A pass succeeds only if one of the Rule constants describes its end, so a partly
// read list is never taken for the whole list.
//
// Begin with [New], then range over [Client.Pages].
package extract

import (
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// Config says which sources and streams a [Client] reads. One of V2, App and Streams is required;
// the other fields may be zero.
type Config struct {
	V2, App *wire.Client            // clients of the versioned API and of the application
	Streams map[string]*wire.Client // by name, for streams with their own origin or credential

	// Selected are the streams of this run. If the parent of a selected stream is selected too, the child takes its
	// parameters from the parent's whole pass in this run, and waits for that pass to end. If the parent's pass does
	// not begin within 30 seconds, the child reads the parent itself. So begin the parent's pass before the passes of
	// its children.
	Selected []schemas.Stream

	// Find looks up a stream that is not selected. A parent that is found in this way is read only for its children.
	Find func(name string) (schemas.Stream, bool)

	Parallel int    // limit of the parallel requests of one stream; default: as many as it takes to use the rate limit
	MaxBytes int64  // size of the bodies requested in advance, all streams together; default 64 MiB
	MaxPages int    // pages of one list; default 10 million
	Dir      string // folder for the parameters of child streams; default: the system's temporary folder

	// Now is the clock that decides when a stream needs a whole pass. All processes that share a cursor must use the
	// same clock: see [state.Store]. The default is this machine's clock.
	Now func() time.Time
}

// Client reads streams. Many goroutines may use it, but a stream can have only one pass at a time. Call Close after
// use.
type Client struct {
	cfg       Config
	parallel  int
	maxBytes  int64
	maxPages  int
	seed      maphash.Seed
	docs      sync.Pool
	inFlight  atomic.Int64
	keptBytes atomic.Int64 // size of the kept answers of all streams

	mu      sync.Mutex
	feeds   map[string]*parentFeed
	waiting map[chan struct{}]bool   // channels of the lists that request answers in advance: see listen
	early   map[string]*earlyAnswers // by stream, until the pass of the stream begins
	sizes   map[string]string        // parameters of the page size, by dialect: see negotiation.dialect
	settles func(schemas.Stream) schemas.Stream
}

// New returns a client. It sends no request. It returns an error if a selected stream cannot be read or has no known
// parent.
func New(cfg Config) (*Client, error) {
	c := &Client{
		cfg:      cfg,
		parallel: cfg.Parallel,
		maxBytes: cfg.MaxBytes,
		maxPages: cfg.MaxPages,
		seed:     maphash.MakeSeed(),
		docs:     sync.Pool{New: func() any { return new(jsondoc.Doc) }},
		feeds:    make(map[string]*parentFeed),
		waiting:  make(map[chan struct{}]bool),
		early:    make(map[string]*earlyAnswers),
		sizes:    make(map[string]string),
	}
	if c.maxBytes <= 0 {
		c.maxBytes = 64 << 20
	}
	if c.maxPages <= 0 {
		c.maxPages = 10_000_000
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

// Settle sets a function that adds to a stream what earlier runs found out about it. The client calls this function for
// parents that it reads only for their children. Call Settle before the first pass. Many goroutines may call the
// function at the same time.
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

// reserve adds n bytes to the size of the bodies that are requested in advance. It returns false, and adds nothing, if
// the size would exceed the limit. // Invariant 6
func (c *Client) reserve(n int64) bool {
	for {
		have := c.inFlight.Load()
		if have+n > c.maxBytes {
			return false
		}
		if c.inFlight.CompareAndSwap(have, have+n) {
			return true
		}
	}
}

// room returns how many more requests may be sent in advance now, and how many requests the queue of one stream may
// hold.
func (c *Client) room(s schemas.Stream) (room, most int) {
	w, err := c.wireFor(s)
	if err != nil {
		return 0, 1 // the next request of the stream reports the error
	}
	room, most = w.Governor().Room()
	most *= 2
	if c.parallel > 0 {
		most = min(most, c.parallel)
	}
	return room, most
}

// listen returns a channel that receives a value whenever a request that was sent in advance has been answered. Then
// another request may be sent in advance, for any list.
func (c *Client) listen() chan struct{} {
	answered := make(chan struct{}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[answered] = true
	return answered
}

func (c *Client) forget(answered chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, answered)
}

func (c *Client) wakeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for answered := range c.waiting {
		select {
		case answered <- struct{}{}:
		default:
		}
	}
}

// Close removes the stored parameters of child streams. No pass may be running.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, e := range c.early {
		e.drop()
	}
	for _, f := range c.feeds {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}
