package pipeline

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// How often a run reads a stream from its beginning for one sink: once, and once
// more where that may prove what the first could not. Where the two have found
// different records and may both have missed some, the list moves faster than it
// is read: then a few times more, as far as that takes no more requests than a
// run has for it. // Invariant 15
const (
	maxPasses = 2
	maxMoving = 5
	rereading = 20_000 // requests
)

// lastPass reports whether the pass, about which f is known, is the last one that
// a run makes for k.
func (k *destinationRun) lastPass(p *pass, f *proof.Facts) bool {
	if p.aside() {
		return true
	}
	if k.whole < maxPasses || k.whole == maxPasses && f.OfParents() && k.before != nil && k.before.facts.Skipped > 0 {
		return false // the one before did not request every parent: it cannot confirm what this one missed
	}
	return !f.Moves() || k.whole >= maxMoving || k.report.Requests+2*p.total.requests > rereading
}

// streamRun is one stream in one run: its sinks, and the passes made for them.
type streamRun struct {
	*run
	origin schemas.Stream // as the configuration has it
	stream schemas.Stream // with what is known beside; see agree
	sinks  []*destinationRun
	passes int // begun
	known  Memory
	owed   int // requests of probes that no pass has counted yet
	turn   *streamLock
	has    bool // the turn; a pass lends it

	watch        keyWatch
	dropped      int // hypotheses
	restarted    bool
	renegotiated bool
	noticed      []Notice // before any pass has ended
}

// parts reports whether a pass may be committed in parts, and carried on where
// one was interrupted. A table without a key cannot tell the rows of a pass from
// those before, and one in mode replace shows either all of a pass or nothing:
// there a pass is one transaction.
func (st *streamRun) parts() bool { return st.keyed() && st.stream.Table.Mode != schemas.Replace }

func (st *streamRun) keyed() bool { return len(st.stream.Key) > 0 }

// stream reads s for every destination and reports on each. Nothing that
// happens to it reaches beyond it.
func (r *run) stream(ctx context.Context, s schemas.Stream) []StreamReport {
	r.tell(Event{Kind: EventStart, Stream: s.Name, Total: -1})
	started := time.Now()
	st := &streamRun{run: r, origin: s, stream: s, sinks: newSinks(r, s)}
	err := guard(s.Name, func() error {
		turn, err := r.Turns.take(ctx, s.Name)
		if err != nil {
			return err
		}
		st.turn, st.has = turn, true
		defer func() { turn.leave(st.has, r.Now()) }()
		return st.protest(ctx, st.sync(ctx))
	})
	reports := make([]StreamReport, len(st.sinks))
	for i, k := range st.sinks {
		reports[i] = k.close(ctx, err, time.Since(started))
		reports[i].NotBefore = r.byClock(reports[i].NotBefore)
	}
	behind(st.sinks, reports)
	st.settleProbes(reports)
	for i := range reports {
		r.tell(Event{Kind: EventEnd, Stream: s.Name, Total: -1, Report: &reports[i]})
	}
	return reports
}

// byClock is a time of this machine's clock, as requests go by it, by that of the run.
func (r *run) byClock(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(time.Until(r.Now()).Round(time.Second)) // both to the second are one
}

// sync makes passes until every sink has what it wants. Its error is one that
// concerns all sinks which are not done.
func (st *streamRun) sync(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	g := st.gateOf(st.stream)
	if err := g.pass(st.stream); err != nil {
		return err
	}
	if err := st.agree(ctx); err != nil {
		g.saw(st.stream, err)
		return err
	}
	if err := st.rangeable(); err != nil {
		return err
	}
	for _, k := range st.sinks {
		if k.finished {
			continue
		}
		if err := k.open(ctx, st); err != nil {
			k.fail(err)
		}
	}
	for p := st.nextPass(ctx); p != nil; p = st.nextPass(ctx) {
		err := p.read(ctx)
		g.saw(st.stream, err)
		if st.turn != nil && !st.has {
			return err // stopped while others had the turn
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

// restart sends the sinks of a pass back to the beginning, once, if the pass was
// an earlier process's and did not work out. Where it was interrupted may be
// nowhere by now: what could be carried on never would fail for ever otherwise.
func (st *streamRun) restart(p *pass, err error) bool {
	if !p.resumes || st.restarted || !misplaced(err) {
		return false
	}
	st.restarted = true
	for _, k := range p.sinks {
		k.pos = position{}
	}
	return true
}

// nextPass is the next reading that sinks want, nil when none does. Those that
// have dropped out of an earlier one come last.
func (st *streamRun) nextPass(ctx context.Context) *pass {
	if p := st.inStep(); p != nil {
		return p
	}
	for _, k := range st.sinks {
		k.rejoin(ctx, st.run)
	}
	return st.inStep()
}

// inStep gathers the sinks that stand at the same place of the same pass, or at
// a beginning, and want to be read for: they share one reading of the source. It
// returns nil when no sink does.
func (st *streamRun) inStep() *pass {
	var p *pass
	for _, k := range st.sinks {
		switch {
		case k.finished, k.trouble != nil:
		case p == nil:
			p = st.passFor(k)
		case p.resumes == k.pos.midPass() && (!p.resumes || p.from == k.pos.at && p.id == k.pos.pass):
			if p.from != k.pos.at {
				p.from = "" // two beginnings; the source's own is the one they have in common
			}
			p.sinks = append(p.sinks, k)
		}
	}
	return p
}

// passFor begins, or carries on, a pass where k stands. Every pass of a run
// that starts at the beginning has an id of its own, greater than those before.
func (st *streamRun) passFor(k *destinationRun) *pass {
	st.passes++
	p := &pass{streamRun: st, number: st.passes, sinks: []*destinationRun{k}, from: k.pos.at, began: st.Now()}
	if k.pos.midPass() {
		p.id, p.resumes = k.pos.pass, true
		return p
	}
	p.id = passID(st.Run, int64(st.passes))
	return p
}

func (r *run) key(stream string) state.Key {
	return state.Key{Pipeline: r.Name, Stream: stream}
}

// PanicError is what becomes of a panic in the code that reads one stream.
type PanicError struct {
	Where string // stream, or what was done to it
	Value any
	Stack []byte // for whoever wants to mend it; not part of the text
}

// Error says where the panic was, and its value; the stack is no part of it.
func (e *PanicError) Error() string { return fmt.Sprintf("%s: panic: %v", e.Where, e.Value) }

// guard runs f and turns a panic into an error, so that it ends one stream and
// not the process.
func guard(where string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Where: where, Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}
