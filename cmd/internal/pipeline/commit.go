package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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

// commit hands g to the sinks that are in the pass, all at once, and reports
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
func (p *pass) committed(k *sink) {
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
	s := load.Sweep{Table: p.stream.Table.Name, At: g.ended}
	if p.inquest != nil && names || g.total.rejected > 0 {
		s.List = maxAsked
	}
	return s
}

// conclude ends a pass: it weighs what was found, deletes what is proven to be
// gone and writes the certificate, all in the transaction of the last group. It
// returns what was decided. Of ask and giveUp nothing is done yet, and the
// transaction must not be committed.
func (k *sink) conclude(ctx context.Context, p *pass, g *group, out load.Outcome) (verb, error) {
	e := k.ending(p, g, out)
	defer releaseAll(e.others)
	d := e.decide()
	k.refuted = e.verdict == Contradicted
	k.turns(p, e, d)
	s := load.Sweep{Table: p.stream.Table.Name, Delete: true, At: g.ended}
	switch d.verb {
	case ask:
		return ask, nil
	case bury, remove:
		if s.Keys = d.keys; s.Keys == nil && g.end.Skipped > 0 {
			return d.verb, errors.New("rows of parents that were not asked would be deleted") // Invariant 12
		}
		swept, err := k.apply(ctx, s)
		if err != nil {
			return d.verb, err
		}
		e.counts.Deleted = swept.Deleted
	}
	twice := e.same(k.before)
	k.settle(p, e, d, twice)
	if e.mixed(d) {
		return giveUp, nil
	}
	if err := k.note(ctx, p, g, d); err != nil {
		return d.verb, err
	}
	w := e.witnesses(p, d, twice)
	w.Note = notes(w.Note, k.wary.note(p.stream))
	return d.verb, k.writeCertificate(ctx, p, g, w)
}

// ending is what k knows at the end of p.
func (k *sink) ending(p *pass, g *group, out load.Outcome) ending {
	r := reading{
		end: *g.end, whole: !p.resumes, counts: k.counts, filtered: g.total.filtered, digest: g.digest,
		most: k.most, missed: out.Missing, single: single(p.stream), mingled: p.aside() && p.resumes, parent: p.proofOf(k.dest.Name, p.stream.Parent),
	}
	if k.before != nil {
		r.unlike = p.hasher.minus(&r.digest, &k.before.digest)
	}
	for _, d := range k.readings {
		r.earlier = max(r.earlier, p.hasher.minus(&r.digest, d).there)
	}
	r.twin = p.agreement(&r)
	e := ending{
		reading: r, before: k.before, verdict: r.verdict(k.before), outcome: out, inserted: k.inserted,
		keyed: p.keyed(), atOnce: !p.parts(), adds: p.stream.Table.Mode == schemas.Append,
		askable: p.inquest != nil && len(out.Keys) > 0, found: k.found,
		last: k.lastPass(p, r), confirm: p.Options.ConfirmShrink, wanted: k.wanted, window: p.stream.Window || g.end.Partial || r.windowed() || p.aside(),
	}
	if r.end.Skipped > 0 {
		e.others = retained(out.Keys)
		if k.left != nil {
			e.foreign = k.left.foreign
		}
	}
	if e.counts.Rejected > 0 {
		var there int64
		releaseAll(e.others)
		there, e.others, e.sorted = g.refused.sort(out)
		e.outcome.Missing -= there
	}
	return e
}

// settle takes note of how a pass ended.
func (k *sink) settle(p *pass, e ending, d decision, twice bool) {
	k.report.Verdict, k.report.Why = e.verdict, e.why(e.verdict, e.before)
	if k.report.Missing = e.outcome.Missing - e.counts.Deleted; e.window || e.adds {
		k.report.Missing = 0 // they are where they should be
	}
	other := k.before != nil && k.before.whole && !twice
	k.anew = k.wary.set() || e.doubtful() || d.verb == repeat // a reading in doubt settles nothing for an incremental one
	k.ended = &claim{verdict: e.verdict, doubtful: other || e.window, held: d.held != ""}
	k.before = &e.reading
	p.show(&e.reading)
	if e.whole {
		k.most = max(k.most, e.listed())
		if e.repeats() == 0 { // else some count twice
			k.readings = append(k.readings, &e.digest)
		}
	}
	if d.verb == repeat {
		k.unsparing = d.whole
		return
	}
	k.finished = true
	k.report.Status = StatusComplete
	if d.held != "" {
		k.report.Status = StatusHeld
		k.report.Err = fmt.Errorf("%s: %w", k.key.Stream, &HeldError{Reason: d.held, Confirm: d.shut})
	}
}

// leave adds what of the pass was committed, and what it cost, to the report.
func (k *sink) leave(p *pass) {
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
