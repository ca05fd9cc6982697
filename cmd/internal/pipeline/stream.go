package pipeline

import (
	"context"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/checks"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/schemas"
)

func (r *run) stream(ctx context.Context, s schemas.Stream, at *slot) []StreamReport {
	r.emit(Event{Kind: EventStart, Stream: s.Name, Total: -1})
	started := time.Now()
	st := &streamRun{run: r, origin: s, stream: s, slot: at, destinations: newDestinationRuns(r, s)}
	err := Guard(s.Name, func() error {
		lock, err := r.Locks.Take(ctx, s.Name)
		if err != nil {
			return err
		}
		st.lock, st.holdsLock = lock, true
		defer func() { lock.Leave(st.holdsLock, r.Now()) }()
		return st.recordHeld(ctx, st.sync(ctx))
	})
	reports := make([]StreamReport, len(st.destinations))
	for i, k := range st.destinations {
		reports[i] = k.close(ctx, err, time.Since(started))
		reports[i].NotBefore = r.byClock(reports[i].NotBefore)
		reports[i].Checks = checks.OfError(reports[i].Err, r.Now())
	}
	behind(st.destinations, reports)
	st.settleProbes(reports)
	for i := range reports {
		reports[i].Unchecked = len(r.Checks[s.Name]) > 0 && !r.Options.DryRun
		r.emit(Event{Kind: EventEnd, Stream: s.Name, Total: -1, Report: &reports[i]})
	}
	return reports
}

// sync makes passes until every destination is done. Its error concerns all destinations that are not done.
func (st *streamRun) sync(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	g := st.run.gateOf(st.stream)
	if err := g.admit(st.stream); err != nil {
		return err
	}
	if err := st.chooseConvention(ctx); err != nil {
		g.saw(st.stream, err)
		return err
	}
	if err := st.rangeable(); err != nil {
		return err
	}
	for _, k := range st.destinations {
		if k.finished {
			continue
		}
		if err := k.open(ctx, st); err != nil {
			k.fail(err)
		}
	}
	for p := st.nextPass(ctx); p != nil; p = st.nextPass(ctx) {
		st.slot.take(ctx) // the commit of the last pass may have given the worker slot back
		err := p.read(ctx)
		g.saw(st.stream, err)
		if st.lock != nil && !st.holdsLock {
			return err
		}
		again := err == nil || st.restart(p, err)
		for _, answer := range []func(context.Context, *pass, error) (bool, error){st.rekey, st.drop, st.renegotiate} {
			if !again {
				again, err = answer(ctx, p, err)
			}
		}
		if !again {
			return err
		}
	}
	return nil
}

func (st *streamRun) nextPass(ctx context.Context) *pass {
	if p := st.inStep(); p != nil {
		return p
	}
	for _, k := range st.destinations {
		k.rejoin(ctx, st)
	}
	return st.inStep()
}

// inStep returns a pass that several unfinished destinations share. All of these destinations continue the same pass at
// the same position, or all of them begin a new pass.
func (st *streamRun) inStep() *pass {
	var p *pass
	for _, k := range st.destinations {
		switch {
		case k.finished, k.trouble != nil:
		case p == nil:
			p = st.passFor(k)
		case p.resumes == k.pos.MidPass() && (!p.resumes || p.from == k.pos.Source && p.id == k.pos.Pass):
			if p.from != k.pos.Source {
				p.from = "" // the destinations have different positions, so the pass reads from the beginning of the list
			}
			p.destinations = append(p.destinations, k)
		}
	}
	return p
}

// passFor returns a pass for k. A pass that starts at the beginning gets an id greater than those of all earlier
// passes.
func (st *streamRun) passFor(k *destinationRun) *pass {
	st.passes++
	p := &pass{streamRun: st, number: st.passes, destinations: []*destinationRun{k}, from: k.pos.Source, began: st.run.Now()}
	if k.pos.MidPass() {
		p.id, p.resumes = k.pos.Pass, true
		return p
	}
	p.id = runid.OfPass(st.run.Run, int64(st.passes))
	for _, k := range st.destinations { // another attempt at the run may have made passes
		p.id = max(p.id, runid.After(st.run.Run, k.pos.Pass, k.pos.TouchedBy))
	}
	return p
}
