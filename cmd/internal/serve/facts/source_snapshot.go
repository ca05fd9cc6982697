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

// snapshotsOf returns the last snapshots of the destinations that have data of the source, or of all destinations if
// source is "". At the start, it waits until the destinations were read, but at most firstWithin.
func (f *Facts) snapshotsOf(ctx context.Context, source string) []*snapshot {
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
			b = f.snapshots[p.called()]
			f.mu.Unlock()
		case p.OpenPart != nil:
			b = f.sourceSnapshotOf(p, source).read(ctx, f)
		}
		if b != nil {
			all = append(all, b)
		}
	}
	return all
}

// Invariant 6
const (
	mostSourceSnapshots = 32
	sourceSnapshotFresh = 5 * time.Second
)

// sourceSnapshot is the snapshot of one source in a destination. It is read on request, if each source has a part
// of the destination, or if the destination has too many streams.
type sourceSnapshot struct {
	part DestinationPart
	used time.Time // guarded by Facts.mu

	mu       sync.Mutex
	at       time.Time
	snapshot *snapshot
}

func (f *Facts) sourceSnapshotOf(p DestinationPart, source string) *sourceSnapshot {
	open := p.OpenPart
	p.Source, p.OpenPart = source, nil
	p.Open = func(ctx context.Context) (load.Destination, error) { return open(ctx, source) }
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.sourceSnapshots[p.called()]
	if c == nil {
		c = &sourceSnapshot{part: p}
		f.sourceSnapshots[p.called()] = c
	}
	c.used = time.Now()
	for len(f.sourceSnapshots) > mostSourceSnapshots {
		oldest := c
		for _, one := range f.sourceSnapshots {
			if one.used.Before(oldest.used) {
				oldest = one
			}
		}
		delete(f.sourceSnapshots, oldest.part.called())
	}
	return c
}

func (c *sourceSnapshot) read(ctx context.Context, f *Facts) *snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.snapshot != nil && time.Since(c.at) < sourceSnapshotFresh {
		return c.snapshot
	}
	ctx, cancel := context.WithTimeout(ctx, proofsWithin)
	defer cancel()
	b, err := readSnapshot(ctx, c.part)
	if err != nil {
		if ctx.Err() == nil {
			f.Log.Warn("cannot read destination for the dashboard", "destination", c.part.Name, "source", c.part.Source, "error", err)
		}
		return c.snapshot
	}
	c.snapshot, c.at = b, time.Now()
	return b
}

func separateHint(snapshots []*snapshot) string {
	for _, b := range snapshots {
		if b.part.Open == nil {
			// Cause: each source has its own folder, file or schema in a destination, so no list has the rows of all sources
			return fmt.Sprintf("Each source is stored separately in %s: choose a source to see its data there.", b.part.Name)
		}
	}
	return ""
}

func omittedHint(snapshots []*snapshot) string {
	for _, b := range snapshots {
		if n := len(b.omitted); n > 0 {
			// Cause: a source has more streams than a list of all sources shows
			return fmt.Sprintf("Some streams of %[2]d sources in %[1]s are not listed: choose a source to see all of its streams.", b.part.Name, n)
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
