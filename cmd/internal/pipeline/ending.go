package pipeline

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/batch"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/reject"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// ending is what the end of a pass means for one destination: the facts, the verdict, and what happens to rows that the
// pass did not contain.
type ending struct {
	k *destinationRun
	p *pass
	g *group // the last group of the pass

	reading
	table    proof.Table
	verdict  Verdict
	decision proof.Decision
	counts   Counts
	swept    int64
	found    *findings
	others   []arrow.RecordBatch // keys of the missing rows that may be deleted; nil if all missing rows may be deleted
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

func newEnding(k *destinationRun, p *pass, g *group, out load.Outcome) *ending {
	e := &ending{k: k, p: p, g: g, reading: reading{digest: g.digest, missed: out.Missing}, counts: k.counts, found: k.found}
	e.facts = e.passFacts()
	e.compare(p.run.hash(), k.before, k.readings)
	e.facts.Twin = p.run.twins.compare(p.run.hash(), p.stream, &e.reading)
	f := e.facts
	e.table = proof.Table{
		Facts: f, Swept: out.Known, Missing: out.Missing, Missed: out.Missing, Alive: out.Alive, Inserted: k.inserted,
		Rejected: k.counts.Rejected, Requestable: p.rowCheck != nil && len(out.Keys) > 0,
		AtOnce: !p.parts(), AppendTo: p.stream.Table.Mode == schemas.Append,
		Subset: p.stream.Window || f.Partial || f.OfWindows() || p.partialBackfill(),
		Wanted: k.wanted, Last: e.last(), Confirm: p.run.Options.ConfirmShrink,
	}
	if b := k.before; b != nil && !b.facts.Resumed {
		e.table.SureBefore, e.table.MissedBefore = b.facts.Confirms(), b.missed
	}
	if k.found != nil {
		e.table.Requested, e.table.Answered, e.table.NotFound = true, k.found.answered, k.found.gone
	}
	e.sort(out)
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

// sort finds out which missing rows may be deleted. A row stays if its record arrived but was rejected, or if its
// parent was not requested.
func (e *ending) sort(out load.Outcome) {
	if e.facts.Skipped > 0 {
		e.others = batch.Retained(out.Keys)
		if e.k.left != nil {
			e.table.Elsewhere = e.k.left.Foreign
		}
	}
	if e.counts.Rejected > 0 {
		var there int64
		batch.Release(e.others)
		there, e.others, e.table.Sorted = e.g.refused.sort(out)
		e.table.Missing -= there
	}
}

// settle stores in the destinationRun what the pass has shown.
func (e *ending) settle() {
	k, p, f, d := e.k, e.p, &e.facts, e.decision
	k.report.Verdict, k.report.Reasons = e.verdict, e.why()
	if k.report.Missing = e.table.Missing - e.swept; e.table.Subset || e.table.AppendTo {
		k.report.Missing = 0
	}
	other := k.before != nil && !k.before.facts.Resumed && (f.Resumed || f.Partial || k.before.digest != e.digest)
	k.wholeNext = k.incrementalRefuted.IsSet() || e.read.Doubtful() || d.Action == proof.Repeat // a doubtful reading cannot be the base of an incremental pass
	of := *f
	of.Unstored = e.open.Nameless()
	k.ended = &claim{verdict: proof.Judge(of), doubtful: other || e.table.Subset, held: d.Held != ""}
	seen := e.reading // a copy, because later passes keep it: a pointer into e would keep the pass and the group in memory
	k.before = &seen
	p.run.twins.show(p.stream.Name, &seen)
	if !f.Resumed {
		if !e.read.Doubtful() { // overlapping pages may make a list appear longer than it is
			k.longest = max(k.longest, f.Listed())
		}
		if !f.Partial {
			k.steady = f.Steady
		}
		if f.Repeats() == 0 { // otherwise some records are counted twice
			k.readings = append(k.readings, &seen.digest)
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

// notePasses counts the pass. If the pass was contradicted or its missing rows are unknown, it is not counted, and the
// next pass requests the same parents again.
func (e *ending) notePasses() {
	k := e.k
	switch {
	case e.p.parents == nil || e.decision.Action == proof.RequestMissing:
	case e.table.Swept && e.verdict != Contradicted:
		k.passes++
		k.doubt = ""
	default:
		k.doubt = e.p.id
	}
}

// A second reading may prove a list that the first reading could not prove. If the two readings found different
// records, and each may have missed some, the run reads the stream a few times more. The number of requests for these
// readings is limited. // Invariant 15
const (
	maxPasses = 2
	maxMoving = 5
	rereading = 20_000 // requests
)

// last reports whether the run makes no further pass for the destination.
func (e *ending) last() bool {
	k, p, f := e.k, e.p, &e.facts
	if p.partialBackfill() {
		return true
	}
	if k.whole < maxPasses || k.whole == maxPasses && f.OfParents() && k.before != nil && k.before.facts.Skipped > 0 {
		return false // the previous pass skipped parents, so it cannot confirm which rows are missing
	}
	return !f.Moves() || k.whole >= maxMoving || k.report.Requests+2*p.total.requests > rereading
}

func (e *ending) passFacts() proof.Facts {
	k, p, g, c := e.k, e.p, e.g, e.counts
	f := factsOf(g.end).Without(p.run.withoutRule)
	f.ObjectKind = p.stream.Class.Single() || p.known.Object() && k.over != "" // for an object, the last whole pass counts as the first of two readings
	f.Resumed, f.Keyless = p.resumes, !p.keyed()
	f.Distinct, f.Duplicates = c.Fetched-c.Deduplicated, c.Deduplicated
	f.Filtered, f.Longest, f.Overlooked = g.total.filtered, k.longest, k.overlooked
	f.Steady = f.Listed() == k.longest && (k.steady || k.inserted > 0 && k.inserted < f.Listed())
	f.Mingled = p.partialBackfill() && p.resumes
	f.Parent, f.OnePerItem = p.run.verdicts.parents(k.dest.Name, p.stream, g.end), p.stream.Class.Single()
	g.total.clashes.facts(&f, g.total.repeats)
	return f
}
