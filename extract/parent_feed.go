package extract

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-data/penstock/schemas"
)

// ParentError says that a stream could not be read because its parent could
// not.
type ParentError struct {
	Parent string
	Err    error
}

// Error names the parent and what was wrong with it.
func (e *ParentError) Error() string { return fmt.Sprintf("parent %s: %v", e.Parent, e.Err) }

// Unwrap returns Err.
func (e *ParentError) Unwrap() error { return e.Err }

// parentWait is how long a child waits for its selected parent's pass to begin
// before it reads the parent's list itself.
const parentWait = 30 * time.Second

// parentFeed takes the parameters that a parent's records hold for its children, from
// whole readings of the parent: its own passes of this run, of which the last
// counts, or, where there is none, one made for the children.
type parentFeed struct {
	c      *Client
	parent schemas.Stream // as the configuration has it

	mu      sync.Mutex
	changed chan struct{}              // closed when what follows changes
	wants   map[string][]schemas.Param // by tupleKey
	awaited bool                       // the parent is selected and has not begun yet
	running bool                       // someone reads the parent and fills:
	filling map[string]*paramSpool
	ready   map[string]*paramSpool // of the last whole reading; nil before the first
	err     error                  // of the last reading, while none is ready
	list    *ParentList            // of the last whole reading, where it was made for the children alone
	old     []*paramSpool          // of readings before; children may still be at them
}

// feedOf is the feed of s's parent, which from now on gathers what s needs.
func (c *Client) feedOf(s schemas.Stream) (*parentFeed, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := tupleKey(s)
	for _, name := range []string{s.Parent, s.Parent + "\n" + key} {
		f := c.feeds[name]
		if f == nil {
			parent, selected, ok := c.stream(s.Parent)
			if !ok {
				return nil, fmt.Errorf("stream %s: no parent %s", s.Name, s.Parent)
			}
			awaited := selected && name == s.Parent
			f = &parentFeed{c: c, parent: parent, changed: make(chan struct{}), awaited: awaited, wants: make(map[string][]schemas.Param)}
			c.feeds[name] = f
		}
		if f.gathers(key, s.Params) {
			return f, nil
		}
		// The parent is being read already, without a look at what s needs.
	}
	return nil, fmt.Errorf("stream %s: parent %s is read without it", s.Name, s.Parent)
}

// gathers makes the feed keep the parameters too, and reports whether it is
// early enough to do so.
func (f *parentFeed) gathers(key string, params []schemas.Param) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wants[key] == nil && !f.running && f.ready == nil {
		f.wants[key] = params
	}
	return f.wants[key] != nil
}

// stream finds a stream by name, among the selected ones first.
func (c *Client) stream(name string) (s schemas.Stream, selected, ok bool) {
	for _, s := range c.cfg.Selected {
		if s.Name == name {
			return s, true, true
		}
	}
	if c.cfg.Find != nil {
		s, ok = c.cfg.Find(name)
	}
	return s, false, ok
}

// fedBy is the feed that the stream fills, nil if it has no children here.
func (c *Client) fedBy(name string) *parentFeed {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.feeds[name]
}

// tupleKey tells apart the sets of parameters that children ask for.
func tupleKey(s schemas.Stream) string {
	var b strings.Builder
	for _, p := range s.Params {
		fmt.Fprintf(&b, "%s %s\n", p.In, p.From)
	}
	return b.String()
}

// tap lets the feed look at the pages of the parent's own pass. A resumed pass
// does not carry all records, and is of no use here.
func (f *parentFeed) tap(ctx context.Context, pages iter.Seq2[Page, error], resumed bool) iter.Seq2[Page, error] {
	if resumed || !f.claim() {
		f.giveUp()
		return pages
	}
	return func(yield func(Page, error) bool) {
		err := errLeft // of a reader that panics, too: who waits is let go. Invariant 15
		defer func() { f.finish(ctx, err, nil) }()
		err = f.drain(pages, yield)
	}
}

// drain passes pages on to yield and keeps what the children need of them. It
// returns what ended them: nil only for the end of the pass.
func (f *parentFeed) drain(pages iter.Seq2[Page, error], yield func(Page, error) bool) error {
	for page, err := range pages {
		if err == nil {
			err = f.add(page.Records)
		}
		more := yield(page, err)
		switch {
		case err != nil:
			return err
		case page.End != nil && (page.End.Partial || page.End.Skipped > 0):
			return errLeft // what it has left out, the children need
		case page.End != nil:
			return nil
		case !more:
			return errLeft
		}
	}
	return errLeft
}

// errLeft is why a reading ended whose reader lost interest.
var errLeft = errors.New("reader left")

// add keeps the parameters that these records hold.
func (f *parentFeed) add(records []byte) error {
	d := f.c.docs.Get().(*doc)
	defer f.c.docs.Put(d)
	if err := d.scan(records); err != nil {
		return err
	}
	for r := range d.elements(d.root()) {
		for _, s := range f.filling {
			if err := s.add(d, r); err != nil {
				return fmt.Errorf("keep keys of %s: %w", f.parent.Name, err)
			}
		}
	}
	return d.err
}

// claim makes the caller the one who fills the feed.
func (f *parentFeed) claim() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running {
		return false
	}
	f.running, f.err = true, nil
	f.fill()
	f.change()
	return true
}

// fill begins with nothing. f.mu is held.
func (f *parentFeed) fill() {
	f.old = slices.AppendSeq(f.old, maps.Values(f.filling))
	f.filling = make(map[string]*paramSpool, len(f.wants))
	for key, params := range f.wants {
		f.filling[key] = newParamSpool(f.c.cfg.Dir, params, f.parent)
	}
}

// finish ends a reading. One that was broken off without a fault of the source
// leaves the feed to whoever needs it next.
func (f *parentFeed) finish(ctx context.Context, err error, list *ParentList) {
	for _, s := range f.filling {
		if err == nil {
			err = s.seal()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	spent := f.filling
	if err == nil {
		spent, f.ready, f.list = f.ready, f.filling, list
	} else if f.ready == nil && ctx.Err() == nil && !errors.Is(err, errLeft) {
		f.err = err
	}
	f.old = slices.AppendSeq(f.old, maps.Values(spent))
	f.running, f.filling = false, nil
	f.change()
}

// Ended says that no pass over the stream is to come: streams below it wait for
// none, and read its list by themselves if there was none. Without it they do so
// after half a minute. It may be called at any time.
func (c *Client) Ended(stream string) {
	if f := c.fedBy(stream); f != nil {
		f.giveUp()
	}
}

// giveUp tells waiting children that the parent's pass will not feed them.
func (f *parentFeed) giveUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.change()
}

// change wakes who waits for the feed. f.mu is held.
func (f *parentFeed) change() {
	f.awaited = false
	close(f.changed)
	f.changed = make(chan struct{})
}

// spool waits for the parent to have been read, reads it where nobody else
// does, and returns what it holds for s.
func (f *parentFeed) spool(ctx context.Context, s schemas.Stream) (*paramSpool, error) {
	patience := time.NewTimer(parentWait)
	defer patience.Stop()
	for {
		f.mu.Lock()
		ready, running, awaited, err, changed := f.ready, f.running, f.awaited, f.err, f.changed
		f.mu.Unlock()
		var late <-chan time.Time
		switch {
		case ready != nil:
			return ready[tupleKey(s)], nil
		case err != nil:
			return nil, &ParentError{f.parent.Name, err}
		case awaited:
			late = patience.C
		case !running:
			if f.read(ctx); ctx.Err() == nil {
				continue
			}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-changed:
		case <-late:
			f.giveUp()
		}
	}
}

// own is how the list was read for the children alone, nil where the parent's own
// pass gave the parents.
func (f *parentFeed) own() *ParentList {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list
}

// read reads the parent's list for the children alone: as it is known to answer,
// or, if it does not answer so any more, as if nothing were known. A list that
// states no total is read a second time, as its own pass would: only that shows
// whether it came whole.
func (f *parentFeed) read(ctx context.Context) {
	if !f.claim() {
		return
	}
	err := errLeft // see tap
	var list *ParentList
	defer func() { f.finish(ctx, err, list) }()
	s := f.c.settled(f.parent)
	first, err := f.through(ctx, s)
	if errors.Is(err, ErrShape) {
		s = f.parent
		f.refill()
		first, err = f.through(ctx, s)
	}
	if err != nil {
		return
	}
	list = &first.ParentList
	if e := first.End; e.LastTotal >= 0 || e.Reread || e.Rule == RuleSingle || s.Parent != "" {
		return
	}
	f.refill()
	second, err := f.through(ctx, s)
	if err == nil {
		again := second.Records == first.Records && second.sum == first.sum
		list = &second.ParentList
		list.Again = again
	}
}

// refill begins the filling anew.
func (f *parentFeed) refill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fill()
}

// parentReading is a reading of the parent, and which records it found.
type parentReading struct {
	ParentList
	seen map[uint64]bool // hashes of keys
	sum  uint64          // of those hashes
}

// through reads all of s, which is the parent.
func (f *parentFeed) through(ctx context.Context, s schemas.Stream) (*parentReading, error) {
	p := &pass{c: f.c, s: s, mark: newPassCursor(s)}
	r := &parentReading{seen: map[uint64]bool{}}
	asm := assembler{stream: s, seed: f.c.seed}
	err := f.drain(p.pages(ctx), func(page Page, err error) bool {
		if err == nil {
			r.add(f.c, &asm, page)
		}
		return true
	})
	return r, err
}

// add counts the records of a page.
func (r *parentReading) add(c *Client, asm *assembler, page Page) {
	d := c.docs.Get().(*doc)
	defer c.docs.Put(d)
	if d.scan(page.Records) != nil {
		return // the feed has read it, and reports the error
	}
	for e := range d.elements(d.root()) {
		h, ok := asm.key(d, e)
		if !ok {
			h = asm.content(d, e)
		}
		if r.Records++; r.seen[h] {
			r.Repeats++
		}
		r.seen[h] = true
		r.sum += scatter(h)
	}
	if page.End != nil {
		r.End = *page.End
	}
}

// close removes what was kept.
func (f *parentFeed) close() error {
	var errs []error
	for _, s := range slices.AppendSeq(f.old, maps.Values(f.ready)) {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}
