package postgres

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/state"
)

// pass is what this process remembers of one reading of a stream. The keys of
// rows that it has carried and left alone are in a temporary table of a session
// which is kept for it: nothing is written where the rows are, and the memory is
// the server's, which puts it on disk. Of rows that were written, their run
// tells. // Invariant 6
type pass struct {
	run string

	// Guarded by DB.mu.
	session *session // nil while a transaction uses it, or none is kept
	carried *carried // in session; nil for none yet
	lost    bool     // it was lost with its session
	done    bool     // the pass was swept: nobody will ask again, most likely
	order   order    // of the keys of the rows that were committed
	fresh   map[string]bool
}

// carried is a temporary table of keys, k0, k1….
type carried struct {
	session *session
	types   []arrow.DataType
}

// carriedTable is its name. A session has one at most.
const carriedTable = "pg_temp.penstock_carried"

// passOf is the pass of the run; it begins where the last one of the stream was
// another.
func (d *DB) passOf(k state.Key, run string) *pass {
	d.mu.Lock()
	p := d.passes[k]
	if p != nil && p.run == run {
		d.mu.Unlock()
		return p
	}
	// Where a later pass came between, this one was forgotten. // Invariant 12
	fresh := &pass{run: run, fresh: map[string]bool{}, lost: p != nil && run < p.run}
	d.passes[k] = fresh
	d.mu.Unlock()
	if p != nil {
		d.forgo(p)
	}
	return fresh
}

// resume takes the session that is kept for a pass, or another.
func (d *DB) resume(ctx context.Context, p *pass) (*session, *carried, error) {
	d.mu.Lock()
	s, c := p.session, p.carried
	p.session = nil
	d.kept = slices.DeleteFunc(d.kept, func(q *pass) bool { return q == p })
	d.mu.Unlock()
	if s != nil { // should the server have closed it, that will show
		return s, c, nil
	}
	s, err := d.acquire(ctx)
	return s, nil, err
}

// suspend puts a session away that has no transaction any more: for the pass
// where the carried keys c are in it, else into the pool.
func (d *DB) suspend(p *pass, s *session, c *carried) {
	if c == nil || !s.usable() {
		d.mu.Lock()
		if p.carried != nil && p.carried.session == s {
			p.carried, p.lost = nil, true
		}
		d.mu.Unlock()
		s.release(false)
		return
	}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		s.release(true)
		return
	}
	old := p.session
	if p.carried != nil && p.carried.session != s {
		p.lost = true // another transaction of the pass has kept keys elsewhere
	}
	p.session, p.carried = s, c
	d.kept = append(d.kept, p)
	var spare *pass
	if len(d.kept) > maxKept {
		spare = d.kept[max(0, slices.IndexFunc(d.kept, func(q *pass) bool { return q.done }))]
	}
	d.mu.Unlock()
	if old != nil {
		old.release(true)
	}
	if spare != nil {
		d.forgo(spare)
	}
}

// forgo lets go of the session of a pass, and with it of what it knew.
func (d *DB) forgo(p *pass) {
	d.mu.Lock()
	s := p.session
	if s != nil {
		p.session, p.carried, p.lost = nil, nil, true
	}
	d.kept = slices.DeleteFunc(d.kept, func(q *pass) bool { return q == p })
	d.mu.Unlock()
	if s != nil {
		s.release(true)
	}
}

// shed lets go of sessions that are most likely not needed any more, when the
// server may have too many.
func (d *DB) shed() {
	d.mu.Lock()
	var done []*pass
	for _, p := range d.kept {
		if p.done {
			done = append(done, p)
		}
	}
	d.mu.Unlock()
	for _, p := range done {
		d.forgo(p)
	}
}

// carriedBy is what of a pass's keys are in s.
func (d *DB) carriedBy(p *pass, s *session) *carried {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.carried != nil && p.carried.session == s {
		return p.carried
	}
	return nil
}

// lose notes that keys which the pass has carried are not known any more.
func (d *DB) lose(p *pass) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.lost = true
}

// orderOf is how far a pass has come.
func (d *DB) orderOf(p *pass) order {
	d.mu.Lock()
	defer d.mu.Unlock()
	return p.order
}

// advance notes how far a pass has come, by what was committed.
func (d *DB) advance(p *pass, o order) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.order = o
}

// learn remembers which tables have had nothing but new rows, and whether the
// pass has come to its end.
func (d *DB) learn(p *pass, fresh map[string]bool, swept bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.fresh, p.done = fresh, p.done || swept
}
