package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// errCommit is the cause with which a pass is cancelled that no sink can take
// any more; the sinks say why.
var errCommit = errors.New("no destination is left to commit to")

// sink is one destination during the passes of one stream.
type sink struct {
	dest   Destination
	key    state.Key
	stored state.Cursor // what the destination has
	pos    position     // where the next pass starts

	tx       load.Tx // open between two groups only where the table has no key
	counts   Counts  // of the pass so far
	sealed   Counts  // of what of the pass is committed
	inserted int64
	before   *reading // the pass just before this one
	whole    int      // passes from the beginning, this one included
	most     int64    // records that the longest whole pass so far has found
	wanted   bool     // streams that were loaded before hang from this one
	finished bool     // wants no further pass
	report   StreamReport
}

func newSinks(r *run, s schemas.Stream) []*sink {
	dests := r.Destinations
	if r.Options.DryRun {
		dests = []Destination{{}}
	}
	sinks := make([]*sink, len(dests))
	for i, d := range dests {
		sinks[i] = &sink{dest: d, key: r.key(s.Name), report: StreamReport{
			Stream: s.Name, Table: s.Table.Name, Destination: d.Name,
		}}
	}
	return sinks
}

// open finds out where k stands. A full reading begins at the beginning,
// wherever the last one was left.
func (k *sink) open(ctx context.Context, r *run) error {
	if k.dest.Destination == nil {
		return nil
	}
	stored, err := k.dest.Cursor(ctx, k.key)
	if err != nil {
		return err
	}
	k.stored = stored
	if k.wanted, err = k.children(ctx, r); err != nil {
		return err
	}
	pos, err := decodePosition(stored)
	k.most = pos.most
	if r.Options.Full {
		return nil
	}
	k.pos = pos
	return err
}

// children reports whether there are rows that hang from this stream: they can
// be deleted only if the list of their parents is proven.
func (k *sink) children(ctx context.Context, r *run) (bool, error) {
	for _, s := range r.Streams {
		if s.Parent != k.key.Stream {
			continue
		}
		at, err := k.dest.Cursor(ctx, r.key(s.Name))
		if err != nil {
			return false, err
		}
		if at != "" {
			return true, nil
		}
	}
	return false, nil
}

// fail ends k with an error of its own. Whatever the pass had come to was not
// committed.
func (k *sink) fail(err error) {
	k.finished = true
	k.report.Status, k.report.Err = "", fmt.Errorf("%s to %s: %w", k.key.Stream, k.dest.Name, err)
}

// close ends the sink and returns its report. err is what ended the stream.
func (k *sink) close(ctx context.Context, err error, d time.Duration) StreamReport {
	k.rollback()
	r := k.report
	r.Duration = d
	if r.Err == nil && !k.finished {
		r.Err = err
	}
	if r.Status == "" {
		r.Status, r.NotBefore = classify(ctx, r.Err)
	}
	return r
}

func (k *sink) rollback() {
	if k.tx != nil {
		_ = k.tx.Rollback() // nothing of it was promised to anyone
		k.tx = nil
	}
}

// commit makes g durable together with the position after it. // Invariant 2
func (k *sink) commit(ctx context.Context, p *pass, g *group) error {
	if k.dest.Destination == nil {
		k.rehearse(p, g)
		return nil
	}
	if err := k.write(ctx, p, g); err != nil {
		return err
	}
	if g.end == nil && !p.keyed() && !g.spill {
		return nil // the transaction stays open until the pass is complete
	}
	out, err := k.apply(ctx, p.sweep(g))
	if err != nil || g.end == nil && !p.keyed() {
		return err
	}
	if err := k.balance(g); err != nil {
		return err
	}
	if g.end != nil {
		if done, err := k.conclude(ctx, p, g, out); done || err != nil {
			return err
		}
	}
	return k.seal(ctx, g)
}

// write opens the transaction, if need be, and puts the group's rows into it.
func (k *sink) write(ctx context.Context, p *pass, g *group) error {
	if k.tx == nil {
		tx, err := k.dest.Begin(ctx, k.key, k.stored, load.Pass{Run: p.id, Whole: !p.resumes})
		if err != nil {
			return err
		}
		k.tx = tx
	}
	for _, b := range g.batches {
		if err := k.tx.Write(ctx, b.Table, b.Batch); err != nil {
			return err
		}
	}
	return k.writeRejects(ctx, p, g)
}

// apply merges what was written and counts what came of it.
func (k *sink) apply(ctx context.Context, s load.Sweep) (load.Outcome, error) {
	out, err := k.tx.Apply(ctx, s)
	if err != nil {
		return out, err
	}
	k.counts.Written += out.Written
	k.counts.Unchanged += out.Unchanged
	k.counts.Deduplicated += out.Deduplicated
	k.counts.Deleted += out.Deleted
	k.inserted += out.Inserted
	return out, nil
}

// balance checks that every record of the pass so far has become something, in
// the table or among the rejects. // Invariant 14
func (k *sink) balance(g *group) error {
	c := &k.counts
	c.Fetched, c.Rejected = g.total.fetched, g.total.rejected
	if sum := c.Written + c.Unchanged + c.Deduplicated + c.Rejected; c.Fetched != sum {
		return fmt.Errorf("counts do not add up: fetched %d, but written %d + unchanged %d + deduplicated %d + rejected %d = %d",
			c.Fetched, c.Written, c.Unchanged, c.Deduplicated, c.Rejected, sum)
	}
	return nil
}

// seal commits the open transaction at the position after g.
func (k *sink) seal(ctx context.Context, g *group) error {
	pos := g.next
	pos.most = k.most
	next := pos.encode()
	if err := k.tx.Commit(ctx, next); err != nil {
		return err
	}
	k.tx, k.stored, k.pos, k.sealed = nil, next, pos, k.counts
	return nil
}

// rehearse is commit where nothing is to be written.
func (k *sink) rehearse(p *pass, g *group) {
	k.counts.Fetched, k.counts.Rejected = g.total.fetched, g.total.rejected
	k.sealed = k.counts
	if g.end == nil {
		return
	}
	r := reading{end: *g.end, whole: true, counts: k.counts, digest: g.digest, parent: p.proofOf(k.dest.Name, p.stream.Parent)}
	k.settle(p, ending{reading: r, verdict: r.verdict(nil)}, decision{}, false)
}
