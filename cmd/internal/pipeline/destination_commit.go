package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/batch"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/reject"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/transform"
)

// commit makes g durable together with the position after it. // Invariant 2
func (k *destinationRun) commit(ctx context.Context, p *pass, g *group) error {
	if k.dest.Destination == nil {
		k.dryCommit(p, g)
		return nil
	}
	if g.end != nil && k.parentage != nil && !p.resumes && k.left == nil {
		var err error
		if k.left, err = k.parentTable(p).Review(ctx, p.parents, k.parentage, g.end.Skipped > 0, p.id, p.run.Now()); err != nil {
			return err
		}
	}
	if err := k.folder.Keep(g.files); err != nil {
		return err
	}
	for range 2 { // the second attempt has the answers about the missing rows // Invariant 15
		if again, err := k.attempt(ctx, p, g); err != nil || !again {
			return err
		}
	}
	return errors.New("missing rows were requested twice")
}

// attempt writes g and commits it. If it must first request the missing rows from the source, it does so, commits
// nothing and returns true. The next attempt then has the answers, and requests nothing.
func (k *destinationRun) attempt(ctx context.Context, p *pass, g *group) (again bool, err error) {
	if err := k.write(ctx, p, g); err != nil {
		return false, err
	}
	if g.end == nil && !p.parts() && !g.spill {
		return false, nil // the transaction stays open until the pass is complete
	}
	if err := k.removeLeft(ctx, p, g); err != nil {
		return false, err
	}
	out, err := k.apply(ctx, p.sweep(g, k.found == nil))
	k.counts.Unchanged, k.counts.Deduplicated = k.counts.Unchanged+k.held.Fresh, k.counts.Deduplicated+k.held.Again
	if g.end != nil && g.end.Skipped > 0 {
		out = k.left.Correct(out)
	}
	defer batch.Release(out.Keys)
	if err != nil || g.end == nil && !p.parts() {
		return false, err
	}
	if err := k.balance(g); err != nil {
		return false, err
	}
	if g.end == nil {
		return false, k.seal(ctx, p, g)
	}
	switch e, err := conclude(ctx, k, p, g, out); {
	case err != nil:
		return false, err
	case e.decision.Action == proof.RequestMissing:
		k.requestMissing(ctx, p, g, out.Keys)
		return true, nil
	case e.givesUp():
		k.rollback()
		return false, nil
	}
	return false, k.seal(ctx, p, g)
}

// requestMissing rolls the transaction back and requests the missing records. The transaction must not stay open
// meanwhile, because the requests may take long. The group is then written once more, with the answers.
func (k *destinationRun) requestMissing(ctx context.Context, p *pass, g *group, missing []arrow.RecordBatch) {
	k.rollback()
	k.counts, k.overlooked = k.sealed, k.sealedPast
	p.rowCheck.request(ctx, g.control, keysOf(missing))
	k.found = p.rowCheck.findings(missing)
}

func (k *destinationRun) write(ctx context.Context, p *pass, g *group) error {
	if k.tx == nil {
		k.tx = k.unchanged(p, g)
	}
	if k.tx == nil {
		tx, err := k.dest.Begin(ctx, k.key, k.stored, p.run.passOf(p.stream, p.id, !p.resumes))
		if err != nil {
			return err
		}
		k.tx = tx
	}
	k.held.Release()
	var err error
	if k.held, err = k.overlay.Withhold(p.stream, g.batches); err != nil {
		return err
	}
	if err := k.writeOlder(ctx, g); err != nil {
		return err
	}
	k.refute(p, g)
	for _, b := range k.held.Batches {
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
	if err := k.left.Write(ctx, k.tx); err != nil {
		return err
	}
	return k.parentTable(p).Write(ctx, k.tx, p.id, p.run.Now(), g.parents, p.run.limits.batchRows)
}

func (k *destinationRun) seal(ctx context.Context, p *pass, g *group) error {
	pos := g.next
	pos.Rules, pos.LastComplete = p.rules(), k.over
	if g.end != nil && !g.end.Partial && g.end.Skipped == 0 && g.end.Rule != extract.RuleWindows {
		pos.LastComplete = "" // "" means that the pass itself is the last complete one
	}
	if g.end != nil && k.wholeNext {
		pos.Source = "" // the next pass reads the whole list
	}
	if k.refuted {
		pos = k.keep(p)
	}
	pos.Longest, pos.Steady, pos.Passes, pos.ParentsUnsure, pos.Refuted = k.longest, k.steady, k.passes, k.doubt, k.incrementalRefuted
	stored, err := k.storedPosition(p, g, pos)
	if err != nil {
		return err
	}
	stored.Address = p.run.Origins[p.stream.Name].Address
	next := stored.Encode()
	k.tried = next
	if err := k.tx.Commit(ctx, next); err != nil {
		return err
	}
	k.surveyed = false
	if g.end != nil {
		k.report.ended, k.stated = true, stated{k.report.Verdict, k.report.Reasons}
	}
	k.tx, k.stored, k.main, k.pos, k.sealed, k.over = nil, next, stored, pos, k.counts, pos.LastWhole()
	k.memory, k.learning, k.sealedPast = cmp.Or(k.learning, k.memory), "", k.overlooked
	if k.rejectsAfter != nil {
		k.rejects, k.rejectsAfter = k.rejectsAfter, nil
	}
	k.held.Settle(k.overlay, p.lock)
	return nil
}

func (k *destinationRun) dryCommit(p *pass, g *group) {
	k.counts.Fetched, k.counts.Rejected = g.total.fetched, g.total.rejected
	k.sealed = k.counts
	if g.end == nil {
		return
	}
	e := &ending{k: k, p: p, g: g, reading: reading{digest: g.digest}, counts: k.counts}
	e.facts = e.passFacts()
	e.facts.Twin = p.run.twins.compare(p.run.hash(), p.stream, &e.reading)
	e.read = proof.Judge(e.facts)
	e.open = g.met.AsOpen()
	e.facts.Unstored = e.open.Lost()
	e.verdict = proof.Judge(e.facts)
	e.table = proof.Table{Facts: e.facts, Subset: p.stream.Window || e.facts.Partial || e.facts.OfWindows()}
	e.settle()
}

// tidy removes the files that no row names any more. Errors are ignored, because they do not affect the pass.
func (k *destinationRun) tidy(ctx context.Context, p *pass) {
	changed := k.sealed.Written > k.inserted || k.sealed.Deleted > 0 || p.resumes
	if changed && k.folder.Stores(p.stream) {
		_ = k.folder.Tidy(ctx, k.dest, p.stream)
	}
}

func (k *destinationRun) addCosts(p *pass) {
	r := &k.report
	r.Counts = r.Counts.Add(k.sealed)
	r.Passes++
	r.Pages += p.total.pages
	r.Requests += p.requests()
	r.Bytes += p.total.bytes
}

// writeRejects writes the rejects in the same transaction as the rows of the group, so that no value is lost.
// Invariant 11
func (k *destinationRun) writeRejects(ctx context.Context, p *pass, g *group) error {
	now := p.run.Now()
	row := func(r transform.Reject) []any {
		return reject.Values(p.run.Run, p.run.Name, p.stream.Name, p.ordinal(), now, k.rejects.Accepted(r), r)
	}
	for part := range slices.Chunk(g.rejects, rejectsAtOnce) {
		rows := make([][]any, len(part))
		for i, r := range part {
			rows[i] = row(r)
		}
		if err := load.WriteRows(ctx, k.tx, load.Rejects, rows...); err != nil {
			return err
		}
	}
	rows := make([][]any, len(g.gaps))
	for i, gap := range g.gaps {
		rows[i] = row(gapReject(gap))
	}
	return load.WriteRows(ctx, k.tx, load.Rejects, rows...)
}

// rejectsAtOnce is the number of rejects in one batch. // Invariant 6
const rejectsAtOnce = 4096

// balance checks that each record of the pass so far is counted exactly once. // Invariant 14
func (k *destinationRun) balance(g *group) error {
	c := &k.counts
	c.Fetched, c.Rejected = g.total.fetched, g.total.rejected
	if sum := c.Written + c.Unchanged + c.Deduplicated + c.Rejected; c.Fetched != sum {
		return fmt.Errorf("counts do not add up: fetched %d, but written %d + unchanged %d + deduplicated %d + rejected %d = %d",
			c.Fetched, c.Written, c.Unchanged, c.Deduplicated, c.Rejected, sum)
	}
	return nil
}

// conclude decides about the missing rows in the transaction of the last group of a pass. The caller must not commit
// that transaction in two cases: the missing rows must first be requested, or ending.givesUp returns true.
func conclude(ctx context.Context, k *destinationRun, p *pass, g *group, out load.Outcome) (*ending, error) {
	e := newEnding(k, p, g, out)
	defer batch.Release(e.others)
	k.refuted = e.verdict == Contradicted
	e.notePasses()
	s := load.Sweep{Table: p.stream.Table.Name, Delete: true}
	switch e.decision.Action {
	case proof.RequestMissing:
		return e, nil
	case proof.RemoveConfirmed, proof.Remove:
		if s.Keys = e.gone(); s.Keys == nil && g.end.Skipped > 0 {
			return e, errors.New("rows of parents that were not requested would be deleted") // Invariant 12
		}
		swept, err := k.apply(ctx, s)
		if err != nil {
			return e, err
		}
		e.counts.Deleted, e.swept = k.counts.Deleted, swept.Deleted
	}
	e.settle()
	if e.givesUp() {
		return e, nil
	}
	if err := e.note(ctx); err != nil {
		return e, err
	}
	if err := e.resolveRejects(ctx); err != nil {
		return e, err
	}
	k.rejectsAfter = e.open
	return e, e.writeCertificate(ctx)
}
