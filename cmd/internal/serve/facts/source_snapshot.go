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

// shelf returns the last snapshots of the destinations that have data of the source, or of all destinations if
// source is "". At the start, it waits until the destinations were read, but at most firstWithin.
func (f *Facts) shelf(ctx context.Context, source string) []*snapshot {
	if !f.readsAny(source) {
		return nil // no pipeline reads this source, so do not open its file
	}
	t := time.NewTimer(firstWithin)
	defer t.Stop()
	select {
	case <-f.first:
	case <-t.C:
	case <-ctx.Done():
	}
	var all []*snapshot
	for _, p := range f.Destinations() {
		var b *snapshot
		switch {
		case source == "" || p.OpenPart == nil && cmp.Or(p.Source, source) == source:
			f.mu.Lock()
			b = f.books[p.called()]
			f.mu.Unlock()
		case p.OpenPart != nil:
			b = f.corner(p, source).read(ctx, f)
		}
		if b != nil {
			all = append(all, b)
		}
	}
	return all
}

// Invariant 6
const (
	mostCorners  = 32
	cornersFresh = 5 * time.Second
)

// sourceSnapshot is the snapshot of one source in a destination. It is read on request, if each source has a part
// of the destination, or if the destination has too many streams.
type sourceSnapshot struct {
	place DestinationPart
	used  time.Time // guarded by Facts.mu

	mu   sync.Mutex
	at   time.Time
	book *snapshot
}

func (f *Facts) corner(p DestinationPart, source string) *sourceSnapshot {
	open := p.OpenPart
	p.Source, p.OpenPart = source, nil
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
			f.Log.Warn("cannot read destination for the dashboard", "destination", c.place.Name, "source", c.place.Source, "error", err)
		}
		return c.book
	}
	c.book, c.at = b, time.Now()
	return b
}

func apart(shelf []*snapshot) string {
	for _, b := range shelf {
		if b.place.Open == nil {
			return fmt.Sprintf("Each source is stored separately in %s: choose a source to see its data there.", b.place.Name)
		}
	}
	return ""
}

func crowded(shelf []*snapshot) string {
	for _, b := range shelf {
		if n := len(b.left); n > 0 {
			return fmt.Sprintf("Some streams of %[2]d sources in %[1]s are not listed: choose a source to see all of its streams.", b.place.Name, n)
		}
	}
	return ""
}

func (f *Facts) readsAny(source string) bool {
	return source == "" || slices.ContainsFunc(f.daemon.Hub().Statuses(), func(s serve.Status) bool { return reads(s.Sources, source) })
}

func reads(sources []string, source string) bool {
	return source == "" || slices.Contains(sources, source)
}
