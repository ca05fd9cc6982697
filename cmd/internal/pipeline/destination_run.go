package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// errCommit is the cause with which a pass is cancelled that no sink can take
// any more; the sinks say why.
var errCommit = errors.New("no destination is left to commit to")

// destinationRun is one destination during the passes of one stream.
type destinationRun struct {
	dest     Destination
	key      state.Key
	stored   state.Cursor // what the destination has
	memory   string       // what it knows of the stream: see learn
	learning string       // that, once the open transaction is committed
	main     position     // what the destination has, as k found or left it
	pos      position     // where the next pass starts
	start    position     // where the run found it; the beginning where that was inside a pass
	refuted  bool         // the pass at hand is contradicted: the cursor stays where it was

	parentState
	folder   folder       // of files; "" for none
	tx       load.Tx      // open between two groups only where a pass is one transaction
	tried    state.Cursor // of the last commit, whether it has come off or not
	found    *findings    // about rows that the pass did not carry; nil until somebody asked
	counts   Counts       // of the pass so far
	sealed   Counts       // of what of the pass is committed
	inserted int64
	before   *reading     // the last pass that has ended
	prior    *reading     // before as it was when the pass at hand began
	whole    int          // passes from the beginning, this one included
	most     int64        // records that the longest whole pass so far has found
	steady   bool         // the list had that many again, and some were others
	readings []*digest    // what the whole passes of this run have found
	wanted   bool         // streams that were loaded before hang from this one
	ended    *claim       // by the pass at hand
	over     string       // the last pass that has ended and gone over every record
	anew     bool         // the next pass reads the whole list
	out      bool         // dropped out of the pass at hand
	trouble  error        // why; until it goes on alone
	lagged   error        // why it had to go on alone; once
	broken   bool         // ended by its destination
	begun    string       // what the cursor said of events when the pass at hand began
	resumed  bool         // the pass at hand was begun by an earlier process
	loan     *overlay     // what deltas have of the pass at hand; nil where it lends nothing
	held     withheld     // of the group at hand
	rejects  *openRejects // as k found or left them
	standing *openRejects // after the open transaction
	finished bool         // wants no further pass
	report   StreamReport

	wary       refutation // of incremental reading
	noticed    []Notice   // to be told with the next pass that settles something
	overlooked int64      // rows of the pass that incremental passes before it had missed
	sealedPast int64      // of these, those of what is committed
}

func newSinks(r *run, s schemas.Stream) []*destinationRun {
	dests := r.Destinations
	if r.Options.DryRun {
		dests = []Destination{{}}
	}
	sinks := make([]*destinationRun, len(dests))
	for i, d := range dests {
		k := &destinationRun{dest: d, folder: folder(r.Files[d.Name]), key: r.key(s.Name), report: StreamReport{
			Stream: s.Name, Table: s.Table.Name, Destination: d.Name, Backfill: r.backfill(),
		}}
		k.memory = r.memory[d.Name][s.Name].text()
		if err := r.leftOut(d.Name); err != nil {
			k.fail(err)
		}
		sinks[i] = k
	}
	return sinks
}

// open finds out where k stands. A full reading begins at the beginning,
// wherever the last one was left, and so does one that has to be made at once.
func (k *destinationRun) open(ctx context.Context, st *streamRun) error {
	if k.dest.Destination == nil {
		return nil
	}
	stored, err := k.cursor(ctx, st.run)
	if err != nil {
		return err
	}
	k.stored = stored
	if k.wanted, err = k.children(ctx, st.run); err != nil {
		return err
	}
	pos, err := k.place(stored)
	if err != nil {
		return err
	}
	inPlace, err := k.inPlace(ctx, st)
	if err != nil {
		return err
	}
	switch b := st.Options.Backfill; {
	case b == nil:
	case b.Again:
		pos = position{}
	case pos.end:
		k.wasDone(pos)
		return nil
	}
	k.most, k.steady, k.turn, k.doubt, k.wary, k.over = pos.longest, pos.steady, pos.passes, pos.parentsUnsure, pos.refuted.of(st.stream), pos.over()
	if !inPlace {
		k.unsparing = true
		return nil
	}
	if k.report.Backfill == "" && k.owes() {
		k.unsparing = true
		if !pos.midPass() {
			pos.at = "" // what has changed is not all that an event may be about
		}
	}
	if !pos.midPass() {
		k.start = pos
	}
	switch {
	case st.Options.Full && (!pos.end || st.rules() == ""), pos.midPass() && !st.parts(), pos.midPass() && pos.rules != st.rules():
		return err
	case pos.rules != st.rules():
		pos.at = "" // what has not changed since is to be made anew as well
	case pos.end && pos.rules != "":
		forgotten, failed := k.forgotten(ctx, st)
		if failed != nil {
			return failed
		}
		if forgotten {
			pos.at = ""
		}
	}
	k.pos = pos
	return err
}

// keep is the position of a pass that is contradicted: that of the last one
// before which was not, as no cursor may cover what did not come.
func (k *destinationRun) keep(p *pass) position {
	pos := k.start
	pos.touchedBy = p.id // the same place, and not the same cursor
	return pos
}

// children reports whether there are rows that hang from this stream: they can
// be deleted only if the list of their parents is proven.
func (k *destinationRun) children(ctx context.Context, r *run) (bool, error) {
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
func (k *destinationRun) fail(err error) {
	k.finished, k.broken = true, true
	k.report.Status, k.report.Err = "", fmt.Errorf("%s to %s: %w", k.key.Stream, k.dest.Name, err)
}

// close ends the sink and returns its report. err is what ended the stream.
func (k *destinationRun) close(ctx context.Context, err error, d time.Duration) StreamReport {
	k.rollback()
	r := k.report
	r.Duration = d
	if a, err := k.main.applied(); err == nil && k.main.events != "" {
		w := a.webhooks()
		r.Webhooks = &w
	}
	if r.Err == nil && !k.finished {
		r.Err = err
		if k.lagged != nil {
			r.Err = errors.Join(err, k.lagged)
		}
	}
	if r.Status == "" {
		r.Status, r.NotBefore = classify(ctx, r.Err)
	}
	if next := advice(r.Err); next != "" {
		r.Err = fmt.Errorf("%w; %s", r.Err, next)
	}
	return r
}

func (k *destinationRun) rollback() {
	k.learning, k.standing = "", nil
	k.held.release()
	if k.tx != nil {
		_ = k.tx.Rollback() // nothing of it was promised to anyone
		k.tx = nil
	}
}

// enter readies k for a pass and returns the stream's tables as they are.
func (k *destinationRun) enter(ctx context.Context, p *pass) ([]schemas.Table, error) {
	k.counts, k.sealed, k.inserted, k.out = Counts{}, Counts{}, 0, false
	k.prior, k.found, k.refuted = k.before, nil, false
	k.overlooked, k.sealedPast = 0, 0
	k.parentage, k.left, k.loan = nil, nil, nil
	k.begun, k.resumed = k.main.events, p.resumes
	if !p.resumes {
		k.whole++
	}
	if k.pos.pass != "" {
		k.turn, k.doubt = k.pos.passes, k.pos.parentsUnsure
	}
	if k.dest.Destination == nil {
		return nil, nil
	}
	tables, err := k.dest.Tables(ctx, p.stream.Table.Name)
	if err == nil && k.rejects == nil {
		k.rejects, err = p.openRejects(ctx, k.dest, p.stream.Name)
	}
	if err == nil && p.kin != nil {
		k.parentage, err = k.recall(ctx, p, tables)
	}
	return tables, err
}

// commit makes g durable together with the position after it. // Invariant 2
func (k *destinationRun) commit(ctx context.Context, p *pass, g *group) error {
	if k.dest.Destination == nil {
		k.rehearse(p, g)
		return nil
	}
	if err := k.review(ctx, p, g); err != nil {
		return err
	}
	if err := k.keepFiles(g); err != nil {
		return err
	}
	if err := k.write(ctx, p, g); err != nil {
		return err
	}
	if g.end == nil && !p.parts() && !g.spill {
		return nil // the transaction stays open until the pass is complete
	}
	if err := k.removeLeft(ctx, p, g); err != nil {
		return err
	}
	out, err := k.apply(ctx, p.sweep(g, k.found == nil))
	k.counts.Unchanged, k.counts.Deduplicated = k.counts.Unchanged+k.held.fresh, k.counts.Deduplicated+k.held.again
	out = k.outcome(g, out)
	defer releaseAll(out.Keys)
	if err != nil || g.end == nil && !p.parts() {
		return err
	}
	if err := k.balance(g); err != nil {
		return err
	}
	if g.end == nil {
		return k.seal(ctx, p, g)
	}
	switch e, err := k.conclude(ctx, p, g, out); {
	case err != nil:
		return err
	case e.decision.Action == proof.Ask:
		k.ask(ctx, p, g, out.Keys)
		return k.commit(ctx, p, g)
	case e.givesUp():
		k.rollback()
		return nil
	}
	return k.seal(ctx, p, g)
}

// ask asks the source for the rows that are missing, one by one. That may take
// long, so it gives the transaction up; the group is written again with what
// was found.
func (k *destinationRun) ask(ctx context.Context, p *pass, g *group, missing []arrow.RecordBatch) {
	k.rollback()
	k.counts, k.overlooked = k.sealed, k.sealedPast
	p.inquest.hear(ctx, g.control, keysOf(missing))
	k.found = p.inquest.findings(missing)
}

// write opens the transaction, if need be, and puts the group's rows into it.
func (k *destinationRun) write(ctx context.Context, p *pass, g *group) error {
	if k.tx == nil {
		tx, err := k.dest.Begin(ctx, k.key, k.stored, p.passOf(p.stream, p.id, !p.resumes))
		if err != nil {
			return err
		}
		k.tx = tx
	}
	if err := k.withhold(p.stream, g.batches); err != nil {
		return err
	}
	if err := k.writeOlder(ctx, g); err != nil {
		return err
	}
	k.refute(p, g)
	for _, b := range k.held.batches {
		if err := k.tx.Write(ctx, b.Table, b.Batch); err != nil {
			return err
		}
	}
	if g.end == nil && p.parts() {
		if err := k.learn(ctx, p, p.known); err != nil {
			return err
		}
	}
	if err := k.writeRejects(ctx, p, g); err != nil {
		return err
	}
	return k.writeParents(ctx, p, g)
}

// apply merges what was written and counts what came of it.
func (k *destinationRun) apply(ctx context.Context, s load.Sweep) (load.Outcome, error) {
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
func (k *destinationRun) balance(g *group) error {
	c := &k.counts
	c.Fetched, c.Rejected = g.total.fetched, g.total.rejected
	if sum := c.Written + c.Unchanged + c.Deduplicated + c.Rejected; c.Fetched != sum {
		return fmt.Errorf("counts do not add up: fetched %d, but written %d + unchanged %d + deduplicated %d + rejected %d = %d",
			c.Fetched, c.Written, c.Unchanged, c.Deduplicated, c.Rejected, sum)
	}
	return nil
}

// seal commits the open transaction at the position after g.
func (k *destinationRun) seal(ctx context.Context, p *pass, g *group) error {
	pos := g.next
	pos.rules, pos.lastComplete = p.rules(), k.over
	if g.end != nil && !g.end.Partial && g.end.Skipped == 0 && g.end.Rule != extract.RuleWindows {
		pos.lastComplete = "" // this one
	}
	if g.end != nil && k.anew {
		pos.at = "" // the next pass reads the whole list
	}
	if k.refuted {
		pos = k.keep(p)
	}
	pos.longest, pos.steady, pos.passes, pos.parentsUnsure, pos.refuted = k.most, k.steady, k.turn, k.doubt, k.wary
	stored, err := k.beside(p, g, pos)
	if err != nil {
		return err
	}
	stored.address = p.Origins[p.stream.Name].Address
	next := stored.encode()
	k.tried = next
	if err := k.tx.Commit(ctx, next); err != nil {
		return err
	}
	k.tx, k.stored, k.main, k.pos, k.sealed, k.over = nil, next, stored, pos, k.counts, pos.over()
	k.memory, k.learning, k.sealedPast = cmp.Or(k.learning, k.memory), "", k.overlooked
	if k.standing != nil {
		k.rejects, k.standing = k.standing, nil
	}
	k.settleHeld(p.turn)
	return nil
}

// rehearse is commit where nothing is to be written.
func (k *destinationRun) rehearse(p *pass, g *group) {
	k.counts.Fetched, k.counts.Rejected = g.total.fetched, g.total.rejected
	k.sealed = k.counts
	if g.end == nil {
		return
	}
	e := &ending{reading: reading{facts: p.facts(g, k.counts, k), digest: g.digest}, counts: k.counts}
	e.facts.Twin = p.agreement(&e.reading)
	e.read = proof.Judge(e.facts)
	e.open = &openRejects{all: g.met.all, more: g.met.more}
	e.facts.Unstored = e.open.lost()
	e.verdict = proof.Judge(e.facts)
	e.table = proof.Table{Facts: e.facts, Subset: p.stream.Window || e.facts.Partial || e.facts.OfWindows()}
	k.settle(p, e)
}
