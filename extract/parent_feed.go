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

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

// ParentError is the error of a child stream whose parent could not be read.
type ParentError struct {
	Parent string
	Err    error
}

// Error returns the parent's name and the error.
func (e *ParentError) Error() string { return fmt.Sprintf("parent %s: %v", e.Parent, e.Err) }

// Unwrap returns Err.
func (e *ParentError) Unwrap() error { return e.Err }

// parentWait is how long a child waits for the pass of its selected parent to begin. Then the child reads the parent
// itself.
const parentWait = 30 * time.Second

// parentFeed collects the values that child streams take from the records of one parent stream. The values come from
// the last complete pass over the parent in this run. Without such a pass, the feed reads the parent itself, only for
// the children.
type parentFeed struct {
	c      *Client
	parent schemas.Stream

	mu      sync.Mutex
	changed chan struct{}              // closed when one of the fields below changes
	wants   map[string][]schemas.Param // parameters that the children need, by tupleKey
	awaited bool                       // the parent is selected, and its pass has not begun yet
	running bool                       // a goroutine reads the parent, and stores the tuples in the field filling
	filling map[string]*paramSpool
	ready   map[string]*paramSpool // tuples of the last complete reading; nil before the first
	err     error
	list    *ParentList   // describes the last complete reading, if it was only for the children
	old     []*paramSpool // tuples of earlier readings, which children may still use
}

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
		// This feed does not collect the values for s. So the loop continues with a second name, which has another
		// feed.
	}
	return nil, fmt.Errorf("stream %s: parent %s is already being read without the values that this stream needs", s.Name, s.Parent)
}

func (f *parentFeed) collects(key string, params []schemas.Param) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wants[key] == nil && !f.running && f.ready == nil {
		f.wants[key] = params
	}
	return f.wants[key] != nil
}

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

func (c *Client) fedBy(name string) *parentFeed {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.feeds[name]
}

func tupleKey(s schemas.Stream) string {
	var b strings.Builder
	for _, p := range s.Params {
		fmt.Fprintf(&b, "%s %s\n", p.In, p.From)
	}
	return b.String()
}

// tap collects the values from a pass over the parent. It does not use a resumed pass, which lacks the earlier
// records.
func (f *parentFeed) tap(ctx context.Context, pages iter.Seq2[Page, error], resumed bool) iter.Seq2[Page, error] {
	if resumed || !f.claim() {
		f.giveUp()
		return pages
	}
	return func(yield func(Page, error) bool) {
		err := errStopped // the result if the caller panics: waiting children then continue. Invariant 15
		defer func() { f.finish(ctx, err, nil) }()
		err = f.drain(pages, yield)
	}
}

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
			return errStopped
		case page.End != nil:
			return nil
		case !more:
			return errStopped
		}
	}
	return errStopped
}

var errStopped = errors.New("reading stopped early")

func (f *parentFeed) add(records []byte) error {
	d := f.c.docs.Get().(*jsondoc.Doc)
	defer f.c.docs.Put(d)
	if err := d.Scan(records); err != nil {
		return err
	}
	for r := range d.Elements(d.Root()) {
		for _, s := range f.filling {
			if err := s.add(d, r); err != nil {
				return fmt.Errorf("store parameters from %s: %w", f.parent.Name, err)
			}
		}
	}
	return d.Err()
}

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

// fill starts an empty set of spools. The caller holds f.mu.
func (f *parentFeed) fill() {
	f.old = slices.AppendSeq(f.old, maps.Values(f.filling))
	f.filling = make(map[string]*paramSpool, len(f.wants))
	for key, params := range f.wants {
		f.filling[key] = newParamSpool(f.c.cfg.Dir, params, f.parent)
	}
}

// finish ends a reading. The argument err is nil if the reading is complete. If the caller stopped the reading early,
// the next child reads the parent again.
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

// NoMorePasses says that no further pass over the stream will begin in this run. Child streams then do not wait 30
// seconds for such a pass, but read the stream themselves if they need it. NoMorePasses may be called at any time.
func (c *Client) NoMorePasses(stream string) {
	if f := c.fedBy(stream); f != nil {
		f.giveUp()
	}
}

func (f *parentFeed) giveUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.change()
}

// change wakes the waiting children. The caller holds f.mu.
func (f *parentFeed) change() {
	f.awaited = false
	close(f.changed)
	f.changed = make(chan struct{})
}

// spool waits until the parent has been read, and returns the tuples of s. If no goroutine reads the parent, it reads
// the parent itself.
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

func (f *parentFeed) parentList() *ParentList {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list
}

// read reads the parent only for the children. A list without a total is read twice, because only two equal readings
// show that it is complete.
func (f *parentFeed) read(ctx context.Context) {
	if !f.claim() {
		return
	}
	err := errStopped // the result if the reading panics: waiting children then continue
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

func (f *parentFeed) refill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fill()
}

type parentReading struct {
	ParentList
	seen map[uint64]bool // hashes of keys
	sum  uint64
}

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

func (r *parentReading) add(c *Client, asm *assembler, page Page) {
	d := c.docs.Get().(*jsondoc.Doc)
	defer c.docs.Put(d)
	if d.Scan(page.Records) != nil {
		return // drain() scans the page too, and reports the error
	}
	for e := range d.Elements(d.Root()) {
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

func (f *parentFeed) close() error {
	var errs []error
	for _, s := range slices.AppendSeq(f.old, maps.Values(f.ready)) {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}
