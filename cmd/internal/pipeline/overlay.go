package pipeline

import (
	"context"
	"slices"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// overlay lets webhook deltas commit to one destination between two commits of a running pass, as part of that
// pass. The destination treats their rows as read by the pass. The pass no longer writes a page's row of such a
// record, because the page may be older than the delta. If the page's row differs, the record is requested once
// more, because the page may also be newer. // Invariants 8, 12
//
// Only the holder of the stream's lock may use it.
type overlay struct {
	dest    load.Destination
	pass    load.Pass
	stamp   string // run id of the pass's rows
	carried *bloom // keys that the pass has committed
	closed  bool   // the destination has dropped out of the pass

	from, to state.Cursor         // the deltas have moved the cursor from and to these; "" if they have not
	known    map[string]*deltaRow // records committed by deltas, by key as text
	doubt    *news                // a commit whose outcome is unknown; nil for none
}

// deltaRow is a record that the deltas have committed during the pass.
type deltaRow struct {
	asked   string // the requested key, a JSON scalar
	hash    string // hash of its row; "" if the record is gone
	event   int64  // the event because of which it was requested
	carried bool   // the pass has read the record too
}

// maxBrought is the number of records of a stream that an overlay may hold. Further events wait for the end of
// the pass. // Invariant 6
const maxBrought = 50_000

// lends reports whether deltas may be applied between the commits of the pass. In modes that keep versions, one
// pass has one version of each record, so they may not.
func (p *pass) lends() bool {
	s := p.stream
	return p.turn != nil && p.turn.watched.Load() && p.parts() && s.Table.Mode.Or(schemas.Merge) == schemas.Merge &&
		len(s.Key) == 1 && s.Parent == "" && p.Options.Backfill == nil && !p.Options.DryRun
}

// lend starts to release the lock between the pass's commits, if lends allows it.
func (p *pass) lend() {
	if !p.lends() {
		return
	}
	p.carried = newBloom(p.sinks)
	for _, k := range p.sinks {
		if !k.out {
			k.loan = &overlay{
				dest: k.dest.Destination, carried: p.carried, stamp: p.stamp(), known: map[string]*deltaRow{},
				pass: p.passOf(p.stream, p.id, !p.resumes),
			}
		}
	}
	p.giveTurn()
}

// lending reports whether the pass releases the lock between its commits.
func (p *pass) lending() bool { return p.carried != nil }

func (p *pass) giveTurn() {
	loans := map[string]*overlay{}
	for _, k := range p.streamRun.sinks { // also of a pass that has ended, while others catch up
		if k.loan != nil && !k.loan.closed && !k.broken {
			loans[k.dest.Name] = k.loan
		}
	}
	p.has = false
	p.turn.lend(loans)
}

// takeTurn takes the lock again, and updates the destinations with what deltas have committed meanwhile.
func (p *pass) takeTurn(ctx context.Context) error {
	if !p.has {
		if err := p.turn.regain(ctx); err != nil {
			return err
		}
		p.has = true
	}
	for _, k := range p.streamRun.sinks {
		if err := k.follow(ctx); err != nil {
			return err
		}
	}
	return nil
}

// commitInTurn commits a group while it holds the lock.
func (p *pass) commitInTurn(ctx context.Context, g *group) (left bool) {
	if !p.lending() {
		return p.commit(ctx, g)
	}
	if err := p.takeTurn(ctx); err != nil {
		return false // the run was stopped
	}
	defer p.giveTurn()
	left = p.commit(ctx, g)
	p.carried.add(p.stream, g.batches)
	return left
}

// follow takes over the cursor that deltas have moved. If another process has moved it, the commit fails.
// Invariant 13
func (k *destinationRun) follow(ctx context.Context) error {
	l := k.loan
	if l == nil {
		return nil
	}
	if l.doubt != nil {
		if at, err := k.dest.Cursor(ctx, k.key); err == nil { // else the commit meets the same error
			l.settle(at)
		}
	}
	if l.to == "" || l.from != k.stored {
		return nil
	}
	main, err := decodePosition(l.to)
	if err != nil {
		return err
	}
	k.stored, k.main, l.from, l.to = l.to, main, "", ""
	return nil
}

// full reports whether the overlay can hold no further records.
func (l *overlay) full() bool { return len(l.known) >= maxBrought }

// same reports whether d is the connection that the pass commits to. Another connection to the same destination
// does not know which rows the pass has read.
func (l *overlay) same(d load.Destination) bool { return bare(l.dest) == bare(d) }

// bare returns a destination without its wrappers.
func bare(d load.Destination) load.Destination {
	if w, ok := d.(interface{ Whole() load.Destination }); ok {
		return bare(w.Whole())
	}
	return d
}

// reask returns pos with the records for which the pass and the deltas have different rows: only the source can
// tell which is newer.
func (k *destinationRun) reask(pos position) (position, error) {
	if len(k.held.doubtful) == 0 {
		return pos, nil
	}
	a, err := pos.applied()
	if err != nil {
		return pos, err
	}
	for _, o := range k.held.doubtful {
		if !slices.ContainsFunc(a.Open, func(have open) bool { return have.Key == o.Key }) {
			a.put(o)
		}
	}
	return pos.withEvents(a), nil
}

// stampOf returns the run id for rows that deltas commit during passes: that of the passes' rows.
func stampOf(loans map[string]*overlay) (stamp string) {
	for _, l := range loans {
		stamp = max(stamp, l.stamp)
	}
	return stamp
}

// passOf returns the pass for a commit of deltas: the running pass, else one of its own.
func (x *delta) passOf(dest, stamp string) load.Pass {
	if l := x.loans[dest]; l != nil {
		return l.pass
	}
	return x.onceOf(x.q.stream, stamp)
}

// reshapes reports whether a table would have to change for the mapped records. A running pass maps to the
// tables as it found them, so it must make the change itself, or end first. // Invariant 11
func (x *delta) reshapes(ctx context.Context, places []*placed, m *mapped) (bool, error) {
	for _, p := range places {
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
			if err != nil || plan.Shapes() {
				return true, nil // the pass meets the error and reports it
			}
		}
	}
	return false, nil
}
