package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-data/penstock/load"
)

// commitAll takes the groups one after the other. Once ctx is done, or no sink
// is left, it only lets go of them. A commit that is under way when ctx is
// cancelled may still be finished, within its grace. // Invariant 15
func (p *pass) commitAll(ctx context.Context, groups <-chan *group, cancel context.CancelCauseFunc) {
	late, release := withGrace(ctx, commitGrace)
	defer release()
	for _, k := range p.sinks {
		k.counts, k.sealed, k.inserted = Counts{}, Counts{}, 0
		if !p.resumes {
			k.whole++
		}
	}
	for g := range groups {
		if ctx.Err() == nil && !p.commit(late, g) {
			cancel(errCommit)
		}
		p.kept += g.held
		g.held = 0
		if p.keyed() || g.spill {
			p.forgo()
		}
		p.drop(g)
		p.open.Done()
	}
	for _, k := range p.sinks {
		k.rollback()
		k.leave(p)
	}
	p.forgo()
}

// forgo gives the budget back what the transaction no longer takes in memory.
func (p *pass) forgo() {
	p.budget.release(p.kept)
	p.kept = 0
}

// commit hands g to each sink that is still in; it reports whether any is left.
func (p *pass) commit(ctx context.Context, g *group) bool {
	left := false
	for _, k := range p.sinks {
		if k.finished {
			continue
		}
		if err := guard("commit", func() error { return k.commit(ctx, p, g) }); err != nil {
			k.rollback()
			k.fail(err)
			continue
		}
		left = true
		if k.tx != nil {
			continue // the pass is one transaction, and goes on
		}
		p.tell(Event{Kind: EventCommit, Stream: p.stream.Name, Total: -1, Counts: k.sealed})
	}
	return left
}

// sweep is what the end of a pass asks: which rows did it not carry?
func (p *pass) sweep(g *group) load.Sweep {
	if g.end == nil {
		return load.Sweep{}
	}
	return load.Sweep{Table: p.stream.Table.Name, At: time.Now().UTC()}
}

// conclude ends a pass: it weighs what was found, deletes what is proven to be
// gone and writes the certificate, all in the transaction of the last group.
// It reports true where that was given up instead.
func (k *sink) conclude(ctx context.Context, p *pass, g *group, out load.Outcome) (gaveUp bool, err error) {
	r := &reading{end: *g.end, whole: !p.resumes, counts: k.counts, digest: g.digest, most: k.most, missed: out.Missing, parent: p.proofOf(k.dest.Name, p.stream.Parent)}
	e := ending{
		reading: *r, before: k.before, verdict: r.verdict(k.before), outcome: out, inserted: k.inserted, keyed: p.keyed(),
		last: k.whole >= maxPasses, confirm: p.Options.ConfirmShrink, wanted: k.wanted, window: p.stream.Window,
	}
	d := e.decide()
	if d.verb == remove {
		swept, err := k.apply(ctx, load.Sweep{Table: p.stream.Table.Name, Delete: true, At: time.Now().UTC()})
		if err != nil {
			return false, err
		}
		e.counts.Deleted = swept.Deleted
	}
	twice := e.same(k.before)
	k.settle(p, e, d, twice)
	if !p.keyed() && out.Missing > 0 && d.verb != remove {
		// Beside the rows it should replace, a new row would be one too many.
		k.rollback()
		return true, nil
	}
	return false, k.writeCertificate(ctx, p, g, e.witnesses(p, d, twice))
}

// settle takes note of how a pass ended.
func (k *sink) settle(p *pass, e ending, d decision, twice bool) {
	k.report.Verdict = e.verdict
	k.report.Missing = e.outcome.Missing - e.counts.Deleted
	if e.window {
		k.report.Missing = 0 // they are where they should be
	}
	other := k.before != nil && k.before.whole && !twice
	p.prove(k.dest.Name, e.verdict, other || e.window, d.held != "")
	k.before = &e.reading
	if e.whole {
		k.most = max(k.most, e.distinct())
	}
	if d.verb == repeat {
		return
	}
	k.finished = true
	k.report.Status = StatusComplete
	if d.held != "" {
		k.report.Status = StatusHeld
		k.report.Err = fmt.Errorf("%s: %w", p.stream.Name, errors.New(d.held))
	}
}

// leave adds what of the pass was committed, and what it cost, to the report.
func (k *sink) leave(p *pass) {
	r := &k.report
	r.Counts = r.Counts.Add(k.sealed)
	r.Passes++
	r.Pages += p.total.pages
	r.Requests += p.total.requests
	r.Bytes += p.total.bytes
}
