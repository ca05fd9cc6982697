package pipeline

import (
	"context"
	"slices"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// overlay is what a pass that is under way lends the deltas in one destination: its
// place there, so that what they commit between two of its commits is part of the
// pass. The destination takes their rows for carried, and the pass hands over no
// page's row of such a record any more: the page may have been asked for before
// the record was. A row that says something else than the record did has it asked
// for once more, as the page may be later as well. // Invariants 8, 12
//
// It belongs to whoever has the stream's turn.
type overlay struct {
	dest    load.Destination
	pass    load.Pass
	stamp   string // of the pass's rows
	carried *bloom // keys that the pass has committed
	closed  bool   // the destination has dropped out of the pass

	from, to state.Cursor         // what the deltas have moved the cursor from, and to; "" for nothing
	known    map[string]*deltaRow // by the key as text
	doubt    *news                // of a commit without an answer; nil for none
}

// deltaRow is a record that the deltas have committed during the pass.
type deltaRow struct {
	asked   string // the key as it was asked for, a JSON scalar
	hash    string // of its row; "" where it is gone
	event   int64  // that it was asked for after
	carried bool   // the pass has had it as well
}

// maxBrought is how many records of a stream are known so in one destination. What
// comes beyond waits for the end of the pass. // Invariant 6
const maxBrought = 50_000

// lends reports whether deltas may be applied between the commits of the pass. In
// the modes that keep versions, one pass has one version of a record.
func (p *pass) lends() bool {
	s := p.stream
	return p.turn != nil && p.turn.watched.Load() && p.parts() && s.Table.Mode.Or(schemas.Merge) == schemas.Merge &&
		len(s.Key) == 1 && s.Parent == "" && p.Options.Backfill == nil && !p.Options.DryRun
}

// lend begins to give the turn away between the pass's commits, if it does.
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

// lending reports whether the pass lends its turn.
func (p *pass) lending() bool { return p.carried != nil }

func (p *pass) giveTurn() {
	loans := map[string]*overlay{}
	for _, k := range p.streamRun.sinks { // of a pass that has ended as well, while others catch up
		if k.loan != nil && !k.loan.closed && !k.broken {
			loans[k.dest.Name] = k.loan
		}
	}
	p.has = false
	p.turn.lend(loans)
}

// takeTurn has the turn back, and the sinks know what was committed meanwhile.
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

// commitInTurn commits a group while the pass has the turn.
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

// follow takes over the cursor as deltas have left it. Anybody else who has moved
// it is met by the commit. // Invariant 13
func (k *destinationRun) follow(ctx context.Context) error {
	l := k.loan
	if l == nil {
		return nil
	}
	if l.doubt != nil {
		if at, err := k.dest.Cursor(ctx, k.key); err == nil { // else the commit meets it as well
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

// full reports whether no further records can be known.
func (l *overlay) full() bool { return len(l.known) >= maxBrought }

// same reports whether a destination is the one that the pass commits to: what one
// of two that are open has carried, the other does not know.
func (l *overlay) same(d load.Destination) bool { return bare(l.dest) == bare(d) }

// bare is a destination without what is around it.
func bare(d load.Destination) load.Destination {
	if w, ok := d.(interface{ Whole() load.Destination }); ok {
		return bare(w.Whole())
	}
	return d
}

// reask is pos with the records of which the pass has had something else than the
// deltas: one of both is later, and only the source can tell.
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

// stampOf is what rows that are committed during passes bear: what those of the
// passes do.
func stampOf(loans map[string]*overlay) (stamp string) {
	for _, l := range loans {
		stamp = max(stamp, l.stamp)
	}
	return stamp
}

// passOf is the pass that a commit of deltas is part of: one of its own, unless one
// is under way.
func (x *delta) passOf(dest, stamp string) load.Pass {
	if l := x.loans[dest]; l != nil {
		return l.pass
	}
	return x.onceOf(x.q.stream, stamp)
}

// reshapes reports whether a table would have to change for what was mapped. The
// pass that is under way maps to the tables as it has found them; it makes the
// change itself, or is waited for. // Invariant 11
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
				return true, nil // the pass meets it, and says so
			}
		}
	}
	return false, nil
}
