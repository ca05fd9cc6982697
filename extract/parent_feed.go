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

// ParentError reports that a stream could not be read because its parent could not.
type ParentError struct {
	Parent string
	Err    error
}

// Error returns the parent's name and the error.
func (e *ParentError) Error() string { return fmt.Sprintf("parent %s: %v", e.Parent, e.Err) }

// Unwrap returns Err.
func (e *ParentError) Unwrap() error { return e.Err }

// parentWait is how long a child waits for the pass of its selected parent before it reads the
// parent's list itself.
const parentWait = 30 * time.Second

// parentFeed collects the parameters that a parent's records hold for its children. It takes them
// from whole readings of the parent: the last of its own passes in this run, or else a reading made
// for the children.
type parentFeed struct {
	c      *Client
	parent schemas.Stream // as configured

	mu      sync.Mutex
	changed chan struct{}              // closed when a field below changes
	wants   map[string][]schemas.Param // by tupleKey
	awaited bool                       // the parent is selected and its pass has not begun yet
	running bool                       // a goroutine reads the parent into filling
	filling map[string]*paramSpool
	ready   map[string]*paramSpool // of the last whole reading; nil before the first
	err     error                  // of the last reading, while nothing is ready
	list    *ParentList            // of the last whole reading, if it was made only for the children
	old     []*paramSpool          // of earlier readings; children may still read them
}

// feedOf returns the feed of s's parent, after making it collect what s needs.
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
		if f.collects(key, s.Params) {
			return f, nil
		}
		// The parent is already being read without collecting what s needs.
	}
	return nil, fmt.Errorf("stream %s: parent %s is already being read without its parameters", s.Name, s.Parent)
}

// collects makes the feed collect more parameters. It reports whether it was early enough.
func (f *parentFeed) collects(key string, params []schemas.Param) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wants[key] == nil && !f.running && f.ready == nil {
		f.wants[key] = params
	}
	return f.wants[key] != nil
}

// stream finds a stream by name, first among the selected ones.
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

// fedBy returns the feed that the stream fills; nil if it has no children here.
func (c *Client) fedBy(name string) *parentFeed {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.feeds[name]
}

// tupleKey identifies the set of parameters that a child needs.
func tupleKey(s schemas.Stream) string {
	var b strings.Builder
	for _, p := range s.Params {
		fmt.Fprintf(&b, "%s %s\n", p.In, p.From)
	}
	return b.String()
}

// tap lets the feed collect from the pages of the parent's own pass. A resumed pass is not used,
// because it lacks records.
func (f *parentFeed) tap(ctx context.Context, pages iter.Seq2[Page, error], resumed bool) iter.Seq2[Page, error] {
	if resumed || !f.claim() {
		f.giveUp()
		return pages
	}
	return func(yield func(Page, error) bool) {
		err := errStopped // also if the caller panics: waiting children must continue. Invariant 15
		defer func() { f.finish(ctx, err, nil) }()
		err = f.drain(pages, yield)
	}
}

// drain passes pages on to yield and collects what the children need. It returns why the pages
// ended: nil only at the end of the pass.
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
			return errStopped // the children need what it left out
		case page.End != nil:
			return nil
		case !more:
			return errStopped
		}
	}
	return errStopped
}

// errStopped is the error of a reading whose caller stopped early.
var errStopped = errors.New("reading stopped early")

// add stores the parameters of some records.
func (f *parentFeed) add(records []byte) error {
	d := f.c.docs.Get().(*doc)
	defer f.c.docs.Put(d)
	if err := d.scan(records); err != nil {
		return err
	}
	for r := range d.elements(d.root()) {
		for _, s := range f.filling {
			if err := s.add(d, r); err != nil {
				return fmt.Errorf("store keys of %s: %w", f.parent.Name, err)
			}
		}
	}
	return d.err
}

// claim makes the caller the one that fills the feed. It returns false if another one already does.
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

// fill starts a new filling. The caller holds f.mu.
func (f *parentFeed) fill() {
	f.old = slices.AppendSeq(f.old, maps.Values(f.filling))
	f.filling = make(map[string]*paramSpool, len(f.wants))
	for key, params := range f.wants {
		f.filling[key] = newParamSpool(f.c.cfg.Dir, params, f.parent)
	}
}

// finish ends a reading. If it stopped early without a fault of the source, the next child that
// needs the feed reads the parent again.
func (f *parentFeed) finish(ctx context.Context, err error, list *ParentList) {
	for _, s := range f.filling {
		if err == nil {
			err = s.seal()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	discarded := f.filling
	if err == nil {
		discarded, f.ready, f.list = f.ready, f.filling, list
	} else if f.ready == nil && ctx.Err() == nil && !errors.Is(err, errStopped) {
		f.err = err
	}
	f.old = slices.AppendSeq(f.old, maps.Values(discarded))
	f.running, f.filling = false, nil
	f.change()
}

// NoMorePasses reports that no further pass over the stream will begin. Child streams then stop waiting
// for one and read the list themselves if necessary; without this call they do so after half a
// minute. It may be called at any time.
func (c *Client) NoMorePasses(stream string) {
	if f := c.fedBy(stream); f != nil {
		f.giveUp()
	}
}

// giveUp reports to waiting children that the parent's pass will not feed them.
func (f *parentFeed) giveUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.change()
}

// change wakes waiting children. The caller holds f.mu.
func (f *parentFeed) change() {
	f.awaited = false
	close(f.changed)
	f.changed = make(chan struct{})
}

// spool waits until the parent has been read, or reads it if no other goroutine does, and returns
// the tuples for s.
func (f *parentFeed) spool(ctx context.Context, s schemas.Stream) (*paramSpool, error) {
	timer := time.NewTimer(parentWait)
	defer timer.Stop()
	for {
		f.mu.Lock()
		ready, running, awaited, err, changed := f.ready, f.running, f.awaited, f.err, f.changed
		f.mu.Unlock()
		var timeout <-chan time.Time
		switch {
		case ready != nil:
			return ready[tupleKey(s)], nil
		case err != nil:
			return nil, &ParentError{f.parent.Name, err}
		case awaited:
			timeout = timer.C
		case !running:
			if f.read(ctx); ctx.Err() == nil {
				continue
			}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-changed:
		case <-timeout:
			f.giveUp()
		}
	}
}

// parentList returns how the parents were read; nil if the parent's own pass provided them.
func (f *parentFeed) parentList() *ParentList {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list
}

// read reads the parent's list only for the children. It reads the settled stream, or the
// configured one if the answers have changed shape. A list without a total is read twice, because
// only equal readings show that it is complete.
func (f *parentFeed) read(ctx context.Context) {
	if !f.claim() {
		return
	}
	err := errStopped // see tap
	var list *ParentList
	defer func() { f.finish(ctx, err, list) }()
	s := f.c.settled(f.parent)
	first, err := f.readWhole(ctx, s)
	if errors.Is(err, ErrShape) {
		s = f.parent
		f.refill()
		first, err = f.readWhole(ctx, s)
	}
	if err != nil {
		return
	}
	list = &first.ParentList
	if e := first.End; e.LastTotal >= 0 || e.Reread || e.Rule == RuleSingle || s.Parent != "" {
		return
	}
	f.refill()
	second, err := f.readWhole(ctx, s)
	if err == nil {
		again := second.Records == first.Records && second.sum == first.sum
		list = &second.ParentList
		list.Repeated = again
	}
}

// refill starts the filling again.
func (f *parentFeed) refill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fill()
}

// parentReading is one reading of the parent, with its records.
type parentReading struct {
	ParentList
	seen map[uint64]bool // hashes of keys
	sum  uint64          // of those hashes
}

// readWhole reads all of s, the parent.
func (f *parentFeed) readWhole(ctx context.Context, s schemas.Stream) (*parentReading, error) {
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
		return // the feed has scanned the page too and reports the error
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

// close removes the spools.
func (f *parentFeed) close() error {
	var errs []error
	for _, s := range slices.AppendSeq(f.old, maps.Values(f.ready)) {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}
