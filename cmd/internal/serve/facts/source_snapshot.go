package facts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/load"
)

// sourceSnapshots holds the snapshots of all destinations that have something of the source, or of any
// ("") as they were last read, in the order of the configuration. A visitor who
// comes before the first look waits for it a moment.
func (f *Facts) shelf(ctx context.Context, source string) []*snapshot {
	if !f.readsAny(source) {
		return nil // a name of the visitor's own becomes no file's
	}
	t := time.NewTimer(firstWithin)
	defer t.Stop()
	select {
	case <-f.first:
	case <-t.C:
	case <-ctx.Done():
	}
	var all []*snapshot
	for _, p := range f.Places() {
		var b *snapshot
		switch {
		case source == "" || p.Of == nil && cmp.Or(p.Source, source) == source:
			f.mu.Lock()
			b = f.books[p.called()]
			f.mu.Unlock()
		case p.Of != nil:
			b = f.corner(p, source).read(ctx, f)
		}
		if b != nil {
			all = append(all, b)
		}
	}
	return all
}

// What is held of single sources that visitors have asked for. // Invariant 6
const (
	mostCorners  = 32
	cornersFresh = 5 * time.Second
)

// sourceSnapshot is what one source has in a place that has those of several: read when a
// visitor asks for it.
type sourceSnapshot struct {
	place Place
	used  time.Time // guarded by Facts.mu

	mu   sync.Mutex
	at   time.Time
	book *snapshot // nil: it was not read yet
}

// corner is that of a source; the one nobody has looked at for the longest makes
// room for it.
func (f *Facts) corner(p Place, source string) *sourceSnapshot {
	open := p.Of
	p.Source, p.Of = source, nil
	p.Open = func(ctx context.Context) (load.Destination, error) { return open(ctx, source) }
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.corners[p.called()]
	if c == nil {
		c = &sourceSnapshot{place: p}
		f.corners[p.called()] = c
	}
	c.used = time.Now()
	for len(f.corners) > mostCorners {
		oldest := c
		for _, one := range f.corners {
			if one.used.Before(oldest.used) {
				oldest = one
			}
		}
		delete(f.corners, oldest.place.called())
	}
	return c
}

// read is its snapshot, read anew where it is too old. One that cannot be read is as it
// was.
func (c *sourceSnapshot) read(ctx context.Context, f *Facts) *snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.book != nil && time.Since(c.at) < cornersFresh {
		return c.book
	}
	ctx, cancel := context.WithTimeout(ctx, proofsWithin)
	defer cancel()
	b, err := readBook(ctx, c.place)
	if err != nil {
		if ctx.Err() == nil {
			f.Log.Warn("destination not read for the dashboard", "destination", c.place.Name, "source", c.place.Source, "error", err)
		}
		return c.book
	}
	c.book, c.at = b, time.Now()
	return b
}

// apart says of which destination a list over all sources has nothing; "" for none.
func apart(shelf []*snapshot) string {
	for _, b := range shelf {
		if b.place.Open == nil {
			return fmt.Sprintf("Each source has a place of its own in %s: choose a source to see what it has there.", b.place.Name)
		}
	}
	return ""
}

// crowded says of which destination a list of the streams of all sources has not
// all; "" for none.
func crowded(shelf []*snapshot) string {
	for _, b := range shelf {
		if n := len(b.left); n > 0 {
			return fmt.Sprintf("%s has more streams than are listed here, of %d sources: choose a source to see all of its streams.", b.place.Name, n)
		}
	}
	return ""
}

// readsAny reports whether some pipeline reads the source, or any ("").
func (f *Facts) readsAny(source string) bool {
	return source == "" || slices.ContainsFunc(f.daemon.Hub().Statuses(), func(s serve.Status) bool { return reads(s.Sources, source) })
}

// reads reports whether a pipeline reads the source, or any ("").
func reads(sources []string, source string) bool {
	return source == "" || slices.Contains(sources, source)
}
