package postgres

import (
	"github.com/penstock-data/penstock/state"
)

// pass is what this process remembers of one pass over a stream. Rows that the pass has written contain its run. The
// keys of records that the pass has found unchanged are in a table on the server: see [carried]. So unchanged rows
// need not be written, and this process needs no memory for the keys. // Invariant 6
type pass struct {
	run string

	// DB.mu guards these fields.
	carried *carried // state of the carried keys after the last commit; nil: none
	lost    bool     // some of the carried keys are lost
	order   order    // order of the keys of committed rows
	fresh   map[string]bool
}

// passOf returns the pass with the given run. If the stream's last pass has another run, passOf begins a new pass.
func (d *DB) passOf(k state.Key, run string) *pass {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.passes[k]
	if p != nil && p.run == run {
		return p
	}
	// If a later pass ran in the meantime, the carried keys of this pass are lost. // Invariant 12
	fresh := &pass{run: run, fresh: map[string]bool{}, lost: p != nil && run < p.run}
	d.passes[k] = fresh
	d.discard(p)
	return fresh
}

// discard marks the table of an ended pass, so that dropGarbage drops it. The caller holds d.mu.
func (d *DB) discard(p *pass) {
	if p != nil && p.carried != nil {
		d.garbage = append(d.garbage, p.carried.table)
		p.carried, p.lost = nil, true
	}
}

// resume returns what the pass has after its last commit: the carried keys and the order.
func (d *DB) resume(p *pass) (*carried, order) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.carried == nil {
		return nil, p.order
	}
	c := *p.carried
	return &c, p.order
}

// markLost records that some carried keys of the pass are lost.
func (d *DB) markLost(p *pass) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.lost = true
}

// advance records the progress of a pass after a commit. A sweep ends the pass, so its carried keys are no longer
// needed.
func (d *DB) advance(p *pass, o order, c *carried, swept bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.order, p.carried = o, c
	if c != nil && !c.kept {
		p.carried, p.lost = nil, true // the temporary table ended with its transaction
	}
	if swept {
		d.discard(p)
	}
}

// recordFresh records for each table whether the pass's last rows for it were all new.
func (d *DB) recordFresh(p *pass, fresh map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.fresh = fresh
}
