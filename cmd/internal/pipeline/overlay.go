package pipeline

import (
	"context"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// overlay lets webhook deltas commit to one destination between two commits of a running pass, as part of that pass.
// If a page contains a record that a delta has committed, the page may be older than the delta. So the pass does not
// write the page's row. If that row differs from the delta's, the record is requested once more, because the page may
// also be newer. // Invariants 8, 12
//
// Only the holder of the stream's lock may use the overlay.
type overlay struct {
	dest   load.Destination
	pass   load.Pass
	stamp  string
	inPass *bloom
	closed bool // the destination has dropped out of the pass

	from, to state.Cursor         // the cursor before and after the commits of deltas; "" if there were none
	known    map[string]*deltaRow // records committed by deltas, by key as text
	doubt    *news                // a commit whose outcome is unknown; nil for none
}

type deltaRow struct {
	requestKey string
	hash       string
	event      int64
	inPass     bool
}

// maxDeltaRows limits the records of an overlay. Further events wait for the end of the pass. // Invariant 6
const maxDeltaRows = 50_000

// allowsDeltas reports whether deltas may commit during the pass. Modes that keep versions are excluded: there, one
// pass can write only one version of a record.
func (p *pass) allowsDeltas() bool {
	s := p.stream
	return p.lock != nil && p.lock.watched.Load() && p.parts() && s.Table.Mode.Or(schemas.Merge) == schemas.Merge &&
		len(s.Key) == 1 && s.Parent == "" && p.Options.Backfill == nil && !p.Options.DryRun
}

func (p *pass) allowDeltas() {
	if !p.allowsDeltas() {
		return
	}
	p.keys = newBloom(p.destinations)
	for _, k := range p.destinations {
		if !k.out {
			k.overlay = &overlay{
				dest: k.dest.Destination, inPass: p.keys, stamp: p.stamp(), known: map[string]*deltaRow{},
				pass: p.passOf(p.stream, p.id, !p.resumes),
			}
		}
	}
	p.releaseLock()
}

func (p *pass) hasOverlays() bool { return p.keys != nil }

func (p *pass) releaseLock() {
	overlays := map[string]*overlay{}
	for _, k := range p.streamRun.destinations { // includes destinations whose pass has ended while others catch up
		if k.overlay != nil && !k.overlay.closed && !k.broken {
			overlays[k.dest.Name] = k.overlay
		}
	}
	p.holdsLock = false
	p.lock.allowDeltas(overlays)
}

// retakeLock takes the lock again. The destinations then continue from the cursors that deltas have committed
// meanwhile.
func (p *pass) retakeLock(ctx context.Context) error {
	if !p.holdsLock {
		if err := p.lock.regain(ctx); err != nil {
			return err
		}
		p.holdsLock = true
	}
	for _, k := range p.streamRun.destinations {
		if err := k.follow(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) commitLocked(ctx context.Context, g *group) (left bool) {
	if !p.hasOverlays() {
		return p.commit(ctx, g)
	}
	if err := p.retakeLock(ctx); err != nil {
		return false
	}
	defer p.releaseLock()
	left = p.commit(ctx, g)
	p.keys.add(p.stream, g.batches)
	return left
}

// follow takes over the cursor that deltas of this process have committed. If another process has moved the cursor,
// the next commit of k fails. // Invariant 13
func (k *destinationRun) follow(ctx context.Context) error {
	l := k.overlay
	if l == nil {
		return nil
	}
	if l.doubt != nil {
		if at, err := k.dest.Cursor(ctx, k.key); err == nil { // if the read fails, the commit fails too and reports it
			l.settle(at)
		}
	}
	if l.to == "" || l.from != k.stored {
		return nil
	}
	main, err := cursor.Decode(l.to)
	if err != nil {
		return err
	}
	k.stored, k.main, l.from, l.to = l.to, main, "", ""
	return nil
}

func (l *overlay) full() bool { return len(l.known) >= maxDeltaRows }

// same reports whether d is the connection of the pass. Another connection to the same destination does not know
// which rows the pass has read.
func (l *overlay) same(d load.Destination) bool { return unwrap(l.dest) == unwrap(d) }

func unwrap(d load.Destination) load.Destination {
	if w, ok := d.(interface{ Pooled() load.Destination }); ok {
		return unwrap(w.Pooled())
	}
	return d
}

// addDoubtful adds to pos the records for which the pass and the deltas have different rows. They are requested
// again, because only the source knows which row is newer.
func (k *destinationRun) addDoubtful(pos cursor.Position) (cursor.Position, error) {
	if len(k.held.doubtful) == 0 {
		return pos, nil
	}
	a, err := pos.Applied()
	if err != nil {
		return pos, err
	}
	for _, o := range k.held.doubtful {
		if !slices.ContainsFunc(a.Open, func(have cursor.Record) bool { return have.Key == o.Key }) {
			a.Put(o)
		}
	}
	return pos.WithApplied(a), nil
}

func stampOf(overlays map[string]*overlay) (stamp string) {
	for _, l := range overlays {
		stamp = max(stamp, l.stamp)
	}
	return stamp
}

func (x *delta) passOf(dest, stamp string) load.Pass {
	if l := x.overlays[dest]; l != nil {
		return l.pass
	}
	return x.onceOf(x.q.stream, stamp)
}

// reshapes reports whether a commit of deltas would have to change a table. A running pass maps to the tables as it
// found them. So the pass must make the change itself, or end before the deltas make it. // Invariant 11
func (x *delta) reshapes(ctx context.Context, positions []*destinationPosition, m *mapped) (bool, error) {
	for _, p := range positions {
		tables, err := p.dest.Tables(ctx, x.q.stream.Table.Name)
		if err != nil {
			return false, err
		}
		for _, b := range m.batches {
			i := slices.IndexFunc(tables, func(t schemas.Table) bool { return t.Name == b.Table.Name })
			if i < 0 {
				return true, nil
			}
			want := b.Table
			want.Columns = b.Batch.Schema()
			plan, err := load.Fit(tables[i], want)
			if err != nil || plan.ChangesShape() {
				return true, nil // the pass meets the same error and reports it
			}
		}
	}
	return false, nil
}
