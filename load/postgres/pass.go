package postgres

import (
	"github.com/penstock-data/penstock/state"
)

// pass is what this process remembers of one reading of a stream. Rows that the pass
// has written bear its run. The keys of rows that it has carried and left alone are in
// a table of the server, see [carried]: nothing is written where the rows are, and the
// memory is the server's, which puts it on disk. // Invariant 6
type pass struct {
	run string

	// Guarded by DB.mu.
	carried *carried // as of the last commit; nil for none
	lost    bool     // some of what the pass has carried is not known any more
	order   order    // of the keys of the rows that were committed
	fresh   map[string]bool
}

// passOf is the pass of the run; it begins where the last one of the stream was
// another.
func (d *DB) passOf(k state.Key, run string) *pass {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.passes[k]
	if p != nil && p.run == run {
		return p
	}
	// Where a later pass came between, this one was forgotten. // Invariant 12
	fresh := &pass{run: run, fresh: map[string]bool{}, lost: p != nil && run < p.run}
	d.passes[k] = fresh
	d.discard(p)
	return fresh
}

// discard has the table of a pass dropped that nobody goes on with. d.mu is held.
func (d *DB) discard(p *pass) {
	if p != nil && p.carried != nil {
		d.garbage = append(d.garbage, p.carried.table)
		p.carried, p.lost = nil, true
	}
}

// resume is how far a pass has come: what it has carried, and in which order.
func (d *DB) resume(p *pass) (*carried, order) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.carried == nil {
		return nil, p.order
	}
	c := *p.carried
	return &c, p.order
}

// lose notes that keys which the pass has carried are not known any more.
func (d *DB) lose(p *pass) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.lost = true
}

// advance notes how far a pass has come, by what was committed. A sweep ends it: the
// keys that it has carried are of no more use.
func (d *DB) advance(p *pass, o order, c *carried, swept bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.order, p.carried = o, c
	if c != nil && !c.kept {
		p.carried, p.lost = nil, true // it ended with its transaction
	}
	if swept {
		d.discard(p)
	}
}

// learn remembers which tables have had nothing but new rows.
func (d *DB) learn(p *pass, fresh map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.fresh = fresh
}
