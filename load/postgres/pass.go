package postgres

import (
	"github.com/penstock-data/penstock/state"
)

// pass is what this process remembers of one pass over a stream. Rows that the pass has written have the run of the
// pass. The keys of records that the pass has found unchanged are in a table on the server; see [carried]. So unchanged
// rows need not be written, and this process needs no memory for the keys. // Invariant 6
type pass struct {
	run string

	// Guarded by DB.mu.
	carried *carried // as of the last commit; nil: none
	lost    bool     // some carried keys are no longer known
	order   order    // order of the keys of the committed rows
	fresh   map[string]bool
}

// passOf returns the pass with the given id. If the stream's last pass has another id, it starts a new pass.
func (d *DB) passOf(k state.Key, run string) *pass {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.passes[k]
	if p != nil && p.run == run {
		return p
	}
	// If a later pass ran in between, what was known of this pass is lost. // Invariant 12
	fresh := &pass{run: run, fresh: map[string]bool{}, lost: p != nil && run < p.run}
	d.passes[k] = fresh
	d.discard(p)
	return fresh
}

// discard makes dropGarbage drop the table of an ended pass. The caller holds d.mu.
func (d *DB) discard(p *pass) {
	if p != nil && p.carried != nil {
		d.garbage = append(d.garbage, p.carried.table)
		p.carried, p.lost = nil, true
	}
}

// resume returns the carried keys of a pass so far, and the order of the keys.
func (d *DB) resume(p *pass) (*carried, order) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.carried == nil {
		return nil, p.order
	}
	c := *p.carried
	return &c, p.order
}

// markLost records that some carried keys of the pass are no longer known.
func (d *DB) markLost(p *pass) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.lost = true
}

// advance records the progress of a pass after a commit. A sweep ends the pass: its carried keys are no longer
// needed.
func (d *DB) advance(p *pass, o order, c *carried, swept bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.order, p.carried = o, c
	if c != nil && !c.kept {
		p.carried, p.lost = nil, true // the temporary table was dropped with its transaction
	}
	if swept {
		d.discard(p)
	}
}

// recordFresh records, for each table, whether the pass's last rows for it were all new.
func (d *DB) recordFresh(p *pass, fresh map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.fresh = fresh
}
