package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// commitAll takes the groups one after the other. Once ctx is done, or no sink
// is left, it only lets go of them. A commit that is under way when ctx is
// cancelled may still be finished, within its grace. // Invariant 15
func (p *pass) commitAll(ctx context.Context, groups <-chan *group, cancel context.CancelCauseFunc) {
	late, release := WithGrace(ctx, commitGrace)
	defer release()
	for g := range groups {
		if ctx.Err() == nil && !p.commitInTurn(late, g) {
			cancel(errCommit)
		}
		p.kept += g.held
		g.held = 0
		if p.parts() || g.spill {
			p.forgo()
		}
		p.drop(g)
		p.open.Done()
	}
	for _, k := range p.sinks {
		k.rollback()
		k.found.release()
		k.left.release()
		if !k.out {
			k.tidy(late, p)
		}
		k.leave(p)
	}
	p.asked.Add(int64(p.requests()))
	p.forgo()
}

// forgo gives the budget back what the transaction no longer takes in memory.
func (p *pass) forgo() {
	p.budget.release(p.kept)
	p.kept = 0
}

// commit gives g to the destinations that are in the pass, all at once, and reports
// whether any is left. One that the others have to wait for drops out.
//
// A group that is applied in a transaction which stays open goes to one after
// the other: streams that held on to one destination each, and waited for the
// other's, would wait for ever.
func (p *pass) commit(ctx context.Context, g *group) (left bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var first sync.Once
	var patience *time.Timer
	errs := make([]error, len(p.sinks))
	var sinks sync.WaitGroup
	for i, k := range p.sinks {
		if k.out {
			continue
		}
		sinks.Go(func() {
			errs[i] = guard("commit", func() error { return k.commit(ctx, p, g) })
			if errs[i] == nil {
				first.Do(func() { patience = time.AfterFunc(p.limits.patience, func() { cancel(errSlow) }) })
			}
		})
		if g.spill {
			sinks.Wait()
		}
	}
	sinks.Wait()
	if patience != nil {
		patience.Stop()
	}
	for i, k := range p.sinks {
		switch {
		case k.out:
		case errs[i] != nil && context.Cause(ctx) == errSlow && errors.Is(errs[i], context.Canceled):
			k.drop(p, errSlow)
		case errs[i] != nil:
			k.drop(p, errs[i])
		default:
			p.committed(k)
			left = true
		}
	}
	return left
}

// committed tells of a sink's commit, and the other streams of a pass's end.
func (p *pass) committed(k *destinationRun) {
	if k.ended != nil {
		p.prove(k.dest.Name, *k.ended)
		k.ended = nil
	}
	if k.tx == nil { // else the pass is one transaction, and goes on
		p.tell(Event{Kind: EventCommit, Stream: p.stream.Name, Total: -1, Counts: k.sealed})
	}
}

// sweep is what the end of a pass asks: which rows did it not carry? Some of
// them by name, if somebody can be asked for them yet, or if they may be records
// that were rejected.
func (p *pass) sweep(g *group, names bool) load.Sweep {
	if g.end == nil || g.end.Skipped > 0 || g.end.Partial {
		return load.Sweep{} // what a pass has left out says nothing
	}
	s := load.Sweep{Table: p.stream.Table.Name}
	if p.inquest != nil && names || g.total.rejected > 0 {
		s.List = maxAsked
	}
	return s
}

// conclude ends a pass: it weighs what was found, deletes what is proven to be
// gone and writes the certificate, all in the transaction of the last group. Of
// an ending that asks or gives up nothing is done yet, and the transaction must
// not be committed.
func (k *destinationRun) conclude(ctx context.Context, p *pass, g *group, out load.Outcome) (*ending, error) {
	e := k.ending(p, g, out)
	defer releaseAll(e.others)
	k.refuted = e.verdict == Contradicted
	k.turns(p, e)
	s := load.Sweep{Table: p.stream.Table.Name, Delete: true}
	switch e.decision.Action {
	case proof.Ask:
		return e, nil
	case proof.Bury, proof.Remove:
		if s.Keys = e.gone(); s.Keys == nil && g.end.Skipped > 0 {
			return e, errors.New("rows of parents that were not asked would be deleted") // Invariant 12
		}
		swept, err := k.apply(ctx, s)
		if err != nil {
			return e, err
		}
		e.counts.Deleted, e.swept = k.counts.Deleted, swept.Deleted
	}
	k.settle(p, e)
	if e.givesUp() {
		return e, nil
	}
	if err := k.note(ctx, p, g, e); err != nil {
		return e, err
	}
	if err := k.resolveRejects(ctx, p, e.resolved); err != nil {
		return e, err
	}
	k.standing = e.open
	w := e.witnesses(p, g.end)
	w.Note = notes(w.Note, k.wary.note(p.stream))
	return e, k.writeCertificate(ctx, p, g, w)
}

// ending is all that is known at the end of a pass in one destination, and what
// follows from it.
type ending struct {
	reading
	table    proof.Table
	verdict  Verdict
	decision proof.Decision
	counts   Counts
	swept    int64 // of the missing rows, those that were deleted
	found    *findings
	others   []arrow.RecordBatch // keys of the missing rows, where only those with these keys may be deleted
	read     Verdict             // on what was read, whatever the table could take of it
	open     *openRejects        // after the pass
	resolved map[rejectID]bool   // rejects that are none any more
}

// givesUp reports whether nothing of the pass is kept.
func (e *ending) givesUp() bool { return proof.Mixed(e.table, e.decision) }

// gone are the keys of the rows to delete; nil for all that are missing.
func (e *ending) gone() []arrow.RecordBatch {
	if e.decision.Action == proof.Bury {
		return e.found.keys
	}
	return e.others
}

// ending is what k knows at the end of p.
func (k *destinationRun) ending(p *pass, g *group, out load.Outcome) *ending {
	e := &ending{reading: reading{facts: p.facts(g, k.counts, k), digest: g.digest, missed: out.Missing}, counts: k.counts, found: k.found}
	e.compare(&p.hasher, k.before, k.readings)
	e.facts.Twin = p.agreement(&e.reading)
	f := e.facts
	e.table = proof.Table{
		Facts: f, Swept: out.Known, Missing: out.Missing, Missed: out.Missing, Alive: out.Alive, Inserted: k.inserted,
		Rejected: k.counts.Rejected, Askable: p.inquest != nil && len(out.Keys) > 0,
		AtOnce: !p.parts(), AppendTo: p.stream.Table.Mode == schemas.Append,
		Subset: p.stream.Window || f.Partial || f.OfWindows() || p.aside(),
		Wanted: k.wanted, Last: k.lastPass(p, &f), Confirm: p.Options.ConfirmShrink,
	}
	if b := k.before; b != nil && !b.facts.Resumed {
		e.table.SureBefore, e.table.MissedBefore = b.facts.Confirms(), b.missed
	}
	if k.found != nil {
		e.table.Asked, e.table.Answered, e.table.NotFound = true, k.found.asked, k.found.gone
	}
	k.sort(e, g, out)
	e.read, e.decision = proof.Judge(f), proof.Decide(e.table)
	everything := !f.Resumed && f.Skipped == 0 && !e.table.Subset && !e.read.Doubtful()
	e.open, e.resolved = k.rejects.standing(g.met, everything)
	e.facts.Unstored = e.open.lost()
	if e.verdict = proof.Judge(e.facts); e.verdict == Proven && f.Refused && e.decision.Held != "" {
		e.verdict = Consistent // the source may refuse the rest
	}
	return e
}

// why are the grounds of the verdict in words.
func (e *ending) why() string {
	if e.verdict != proof.Judge(e.facts) {
		return e.decision.Held
	}
	return proof.Reasons(e.facts)
}

// sort finds out which of the missing rows may be deleted: those whose records
// were rejected have come, and those of parents that were not requested may be
// there.
func (k *destinationRun) sort(e *ending, g *group, out load.Outcome) {
	if e.facts.Skipped > 0 {
		e.others = retained(out.Keys)
		if k.left != nil {
			e.table.Elsewhere = k.left.foreign
		}
	}
	if e.counts.Rejected > 0 {
		var there int64
		releaseAll(e.others)
		there, e.others, e.table.Sorted = g.refused.sort(out)
		e.table.Missing -= there
	}
}

// settle takes note of how a pass ended.
func (k *destinationRun) settle(p *pass, e *ending) {
	f, d := &e.facts, e.decision
	k.report.Verdict, k.report.Why = e.verdict, e.why()
	if k.report.Missing = e.table.Missing - e.swept; e.table.Subset || e.table.AppendTo {
		k.report.Missing = 0 // they are where they should be
	}
	other := k.before != nil && !k.before.facts.Resumed && (f.Resumed || f.Partial || k.before.digest != e.digest)
	k.anew = k.wary.set() || e.read.Doubtful() || d.Action == proof.Repeat // a reading in doubt settles nothing for an incremental one
	parents := *f
	parents.Unstored = e.open.nameless()
	k.ended = &claim{verdict: proof.Judge(parents), doubtful: other || e.table.Subset, held: d.Held != ""}
	k.before = &e.reading
	p.show(&e.reading)
	if !f.Resumed {
		if !e.read.Doubtful() { // pages that overlap may make a list longer than it is
			k.most = max(k.most, f.Listed())
		}
		if !f.Partial {
			k.steady = f.Steady
		}
		if f.Repeats() == 0 { // else some count twice
			k.readings = append(k.readings, &e.digest)
		}
	}
	if d.Action == proof.Repeat {
		k.unsparing = d.Parents == proof.Every
		if d.Parents == proof.OfMissing && k.left != nil {
			k.again = k.left.parents
		}
		return
	}
	k.finished = true
	k.report.Status = StatusComplete
	if n := f.Unstored; n > 0 {
		all := !f.Resumed && !f.Partial && e.counts.Rejected == e.counts.Fetched
		k.report.Status = StatusPartial
		if all {
			k.report.Status, k.anew, n = StatusFailed, true, e.counts.Fetched
		}
		k.report.Err = fmt.Errorf("%s: %w", k.key.Stream, &UnstoredError{Records: n, All: all})
	}
	if d.Held != "" {
		k.report.Status = StatusHeld
		k.report.Err = fmt.Errorf("%s: %w", k.key.Stream, &HeldError{Reason: d.Held, Confirm: d.Confirm, Doubts: proof.Doubts(*f)})
		if e.givesUp() && k.report.Verdict == Proven {
			k.report.Verdict, k.report.Why = Unproven, "nothing of the pass was kept: "+d.Held // the table is what it was
		}
	}
}

// leave adds what of the pass was committed, and what it cost, to the report.
func (k *destinationRun) leave(p *pass) {
	r := &k.report
	r.Counts = r.Counts.Add(k.sealed)
	r.Passes++
	r.Pages += p.total.pages
	r.Requests += p.requests()
	r.Bytes += p.total.bytes
}

// requests is how many the pass has made, those about single records included.
func (p *pass) requests() int {
	if p.inquest == nil {
		return p.total.requests
	}
	return p.total.requests + p.inquest.requests
}
