package sqlmerge

import (
	"context"
	"maps"

	"github.com/penstock-data/penstock/state"
)

// pass is what this process remembers of one pass over a stream, after its last commit.
type pass struct {
	run  string
	seen seen
}

// passOf returns the pass of a stream with the given run. If it is a new pass, the carried keys of the stream's
// previous pass are lost. The caller holds d.mu.
func (d *Store) passOf(k state.Key, run string) *pass {
	p := d.passes[k]
	if p != nil && p.run == run {
		return p
	}
	next := &pass{run: run, seen: seen{fresh: map[string]bool{}, tables: &d.tables}}
	if p != nil {
		d.dropLater(p.seen.carried)
		p.seen.lose()
		next.seen.lost = run < p.run // a later pass ran in between, so the keys of this pass are lost
	}
	d.passes[k] = next
	return next
}

// resume returns a copy of what the pass has seen.
func (d *Store) resume(p *pass) seen {
	d.mu.Lock()
	defer d.mu.Unlock()
	return p.seen.clone()
}

// The method lost() reports whether carried keys of the pass are lost.
func (d *Store) lost(p *pass) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return p.seen.lost
}

// The method advance() records what the pass has seen when it commits. The caller holds d.mu.
func (d *Store) advance(p *pass, s seen) {
	if c := p.seen.carried; c != nil && (s.carried == nil || s.carried.table != c.table) {
		d.dropLater(c)
	}
	s.lost = s.lost || p.seen.lost
	p.seen = s
}

// LoseCarried is called when the database has lost its temporary tables. It forgets the carried keys of all passes,
// because these keys were stored in temporary tables.
func (d *Store) LoseCarried() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.passes {
		p.seen.lose()
	}
	d.droppable = nil
}

// Forget forgets what is known about a source's passes; see [load.Sharer].
func (d *Store) Forget(pipeline, source string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, p := range d.passes {
		if k.Pipeline == pipeline && k.Source == source {
			d.dropLater(p.seen.carried)
			p.seen.lose()
			delete(d.passes, k)
		}
	}
	for k := range d.positions {
		if k.Pipeline == pipeline && k.Source == source {
			delete(d.positions, k)
			delete(d.claimed, k)
		}
	}
	maps.DeleteFunc(d.surveyed, func(k state.Key, _ surveyed) bool { return k.Pipeline == pipeline && k.Source == source })
}

// dropLater makes the next transaction drop a table of carried keys, or gives the table to the backend, which drops it
// later. The caller holds d.mu.
func (d *Store) dropLater(c *carried) {
	switch {
	case c == nil:
	case d.pooled != nil:
		d.pooled.Discard(c.table)
	default:
		d.droppable = append(d.droppable, c.table)
	}
}

// dropCarried drops the tables of carried keys that are no longer needed, and returns them. A long-running process
// would otherwise collect the keys of all its passes. // Invariant 6
func (d *Store) dropCarried(ctx context.Context, s Session) ([]string, error) {
	d.mu.Lock()
	dropped := d.droppable
	d.droppable = nil
	d.mu.Unlock()
	for _, table := range dropped {
		if err := s.Exec(ctx, "DROP TABLE IF EXISTS "+table); err != nil {
			return dropped, err
		}
	}
	return dropped, nil
}
