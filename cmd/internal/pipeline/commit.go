package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/batch"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/reject"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// commitAll commits the groups in order. Once ctx is done, it commits no further group and only releases the memory
// of the groups. A commit that is running then may finish within its grace period. // Invariant 15
func (p *pass) commitAll(ctx context.Context, groups <-chan *group, cancel context.CancelCauseFunc) {
	late, release := WithGrace(ctx, commitGrace)
	defer release()
	for g := range groups {
		if ctx.Err() == nil && !p.commitLocked(late, g) {
			cancel(errCommit)
		}
		p.kept += g.held
		g.held = 0
		if p.parts() || g.spill {
			p.returnBudget()
		}
		p.drop(g)
		p.open.Done()
	}
	for _, k := range p.destinations {
		k.rollback()
		k.found.release()
		k.left.Release()
		if !k.out {
			k.tidy(late, p)
		}
		k.addCosts(p)
	}
	p.requestCount.Add(int64(p.requests()))
	p.returnBudget()
}

func (p *pass) returnBudget() {
	p.budget.release(p.kept)
	p.kept = 0
}

// commit commits g to all destinations of the pass concurrently. A destination that fails, or is much slower
// than the others, drops out.
//
// A group with spill set (see reserve) goes to one destination after another. With concurrent commits, two streams
// could each hold one destination and wait forever for the other's.
func (p *pass) commit(ctx context.Context, g *group) (left bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var first sync.Once
	var patience *time.Timer
	errs := make([]error, len(p.destinations))
	var commits sync.WaitGroup
	for i, k := range p.destinations {
		if k.out {
			continue
		}
		commits.Go(func() {
			errs[i] = Guard("commit", func() error { return k.commit(ctx, p, g) })
			if errs[i] == nil {
				first.Do(func() { patience = time.AfterFunc(p.limits.patience, func() { cancel(errSlow) }) })
			}
		})
		if g.spill {
			commits.Wait()
		}
	}
	commits.Wait()
	if patience != nil {
		patience.Stop()
	}
	for i, k := range p.destinations {
		switch {
		case k.out:
		case errs[i] != nil && errors.Is(context.Cause(ctx), errSlow) && errors.Is(errs[i], context.Canceled):
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

func (p *pass) committed(k *destinationRun) {
	if k.ended != nil {
		p.verdicts.set(k.dest.Name, p.stream.Name, *k.ended)
		k.ended = nil
	}
	if k.tx == nil { // otherwise the pass is one transaction, which continues
		p.emit(Event{Kind: EventCommit, Stream: p.stream.Name, Total: -1, Counts: k.sealed})
	}
}

func (p *pass) sweep(g *group, names bool) load.Sweep {
	if g.end == nil || g.end.Skipped > 0 || g.end.Partial {
		return load.Sweep{} // rows that the pass did not try to read are not missing
	}
	s := load.Sweep{Table: p.stream.Table.Name}
	if p.rowCheck != nil && names || g.total.rejected > 0 {
		s.List = maxAsked
	}
	return s
}

// conclude decides about the missing rows in the transaction of the last group of a pass. The caller must not commit
// that transaction in two cases: the missing rows must first be requested, or the ending gives up.
func (k *destinationRun) conclude(ctx context.Context, p *pass, g *group, out load.Outcome) (*ending, error) {
	e := k.ending(p, g, out)
	defer batch.Release(e.others)
	k.refuted = e.verdict == Contradicted
	k.notePasses(p, e)
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
	k.rejectsAfter = e.open
	w := e.witnesses(p, g.end)
	w.Note = notes(w.Note, refutationNote(k.incrementalRefuted, p.stream))
	return e, k.writeCertificate(ctx, p, g, w)
}

type ending struct {
	reading
	table    proof.Table
	verdict  Verdict
	decision proof.Decision
	counts   Counts
	swept    int64
	found    *findings
	others   []arrow.RecordBatch // keys of the missing rows that may be deleted; nil if all may be
	read     Verdict             // verdict on the reading, regardless of rejected records
	open     *reject.Open
	resolved map[reject.ID]bool
}

func (e *ending) givesUp() bool { return proof.Mixed(e.table, e.decision) }

func (e *ending) gone() []arrow.RecordBatch {
	if e.decision.Action == proof.RemoveConfirmed {
		return e.found.keys
	}
	return e.others
}

func (k *destinationRun) ending(p *pass, g *group, out load.Outcome) *ending {
	e := &ending{reading: reading{facts: p.facts(g, k.counts, k), digest: g.digest, missed: out.Missing}, counts: k.counts, found: k.found}
	e.compare(p.hash(), k.before, k.readings)
	e.facts.Twin = p.twins.compare(p.hash(), p.stream, &e.reading)
	f := e.facts
	e.table = proof.Table{
		Facts: f, Swept: out.Known, Missing: out.Missing, Missed: out.Missing, Alive: out.Alive, Inserted: k.inserted,
		Rejected: k.counts.Rejected, Requestable: p.rowCheck != nil && len(out.Keys) > 0,
		AtOnce: !p.parts(), AppendTo: p.stream.Table.Mode == schemas.Append,
		Subset: p.stream.Window || f.Partial || f.OfWindows() || p.partialBackfill(),
		Wanted: k.wanted, Last: k.lastPass(p, &f), Confirm: p.Options.ConfirmShrink,
	}
	if b := k.before; b != nil && !b.facts.Resumed {
		e.table.SureBefore, e.table.MissedBefore = b.facts.Confirms(), b.missed
	}
	if k.found != nil {
		e.table.Requested, e.table.Answered, e.table.NotFound = true, k.found.answered, k.found.gone
	}
	k.sort(e, g, out)
	e.read, e.decision = proof.Judge(f), proof.Decide(e.table)
	everything := !f.Resumed && f.Skipped == 0 && !e.table.Subset && !e.read.Doubtful()
	e.open, e.resolved = k.rejects.AfterPass(g.met, everything)
	e.facts.Unstored = e.open.Lost()
	if e.verdict = proof.Judge(e.facts); e.verdict == Proven && f.Refused && e.decision.Held != "" {
		e.verdict = Consistent // the source may be refusing the rest of the list
	}
	return e
}

func (e *ending) why() string {
	if e.verdict != proof.Judge(e.facts) {
		return e.decision.Held
	}
	return proof.Reasons(e.facts)
}

// sort leaves out rows whose records were rejected or whose parents were not requested.
func (k *destinationRun) sort(e *ending, g *group, out load.Outcome) {
	if e.facts.Skipped > 0 {
		e.others = batch.Retained(out.Keys)
		if k.left != nil {
			e.table.Elsewhere = k.left.Foreign
		}
	}
	if e.counts.Rejected > 0 {
		var there int64
		batch.Release(e.others)
		there, e.others, e.table.Sorted = g.refused.sort(out)
		e.table.Missing -= there
	}
}

func (k *destinationRun) settle(p *pass, e *ending) {
	f, d := &e.facts, e.decision
	k.report.Verdict, k.report.Reasons = e.verdict, e.why()
	if k.report.Missing = e.table.Missing - e.swept; e.table.Subset || e.table.AppendTo {
		k.report.Missing = 0
	}
	other := k.before != nil && !k.before.facts.Resumed && (f.Resumed || f.Partial || k.before.digest != e.digest)
	k.wholeNext = k.incrementalRefuted.IsSet() || e.read.Doubtful() || d.Action == proof.Repeat // a doubtful reading cannot be the base of an incremental pass
	of := *f
	of.Unstored = e.open.Nameless()
	k.ended = &claim{verdict: proof.Judge(of), doubtful: other || e.table.Subset, held: d.Held != ""}
	k.before = &e.reading
	p.twins.show(p.stream.Name, &e.reading)
	if !f.Resumed {
		if !e.read.Doubtful() { // overlapping pages may make a list appear longer than it is
			k.longest = max(k.longest, f.Listed())
		}
		if !f.Partial {
			k.steady = f.Steady
		}
		if f.Repeats() == 0 { // otherwise some records are counted twice
			k.readings = append(k.readings, &e.digest)
		}
	}
	if d.Action == proof.Repeat {
		k.allParents = d.Parents == proof.Every
		if d.Parents == proof.OfMissing && k.left != nil {
			k.again = k.left.Parents
		}
		return
	}
	k.finished = true
	k.report.Status = StatusComplete
	if n := f.Unstored; n > 0 {
		all := !f.Resumed && !f.Partial && e.counts.Rejected == e.counts.Fetched
		k.report.Status = StatusPartial
		if all {
			k.report.Status, k.wholeNext, n = StatusFailed, true, e.counts.Fetched
		}
		k.report.Err = fmt.Errorf("%s: %w", k.key.Stream, &UnstoredError{Records: n, All: all})
	}
	if d.Held != "" {
		k.report.Status = StatusHeld
		k.report.Err = fmt.Errorf("%s: %w", k.key.Stream, &HeldError{Reason: d.Held, Confirm: d.Confirm, Doubts: proof.Doubts(*f)})
		if e.givesUp() && k.report.Verdict == Proven {
			k.report.Verdict, k.report.Reasons = Unproven, "the whole pass was rolled back: "+d.Held
		}
	}
}

// tidy removes the files that no row names any more. Errors are ignored, because they do not affect the pass.
func (k *destinationRun) tidy(ctx context.Context, p *pass) {
	changed := k.sealed.Written > k.inserted || k.sealed.Deleted > 0 || p.resumes
	if changed && k.folder.Stores(p.stream) {
		_ = k.folder.Tidy(ctx, k.dest, p.stream)
	}
}

// notePasses counts the pass. If the pass was contradicted or its missing rows are unknown, it is not counted, and
// the next pass requests its parents again.
func (k *destinationRun) notePasses(p *pass, e *ending) {
	switch {
	case p.parents == nil || e.decision.Action == proof.RequestMissing:
	case e.table.Swept && e.verdict != Contradicted:
		k.passes++
		k.doubt = ""
	default:
		k.doubt = p.id
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

func (p *pass) requests() int {
	if p.rowCheck == nil {
		return p.total.requests
	}
	return p.total.requests + p.rowCheck.requests
}
