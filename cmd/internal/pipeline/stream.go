package pipeline

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/overlay"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

type streamRun struct {
	*run
	origin        schemas.Stream
	stream        schemas.Stream // the stream with its convention applied; see chooseConvention
	destinations  []*destinationRun
	passes        int
	known         Memory
	probeRequests int // requests of probes that no pass has counted yet
	lock          *overlay.Lock
	holdsLock     bool // whether it holds the lock; a pass may release it between commits

	watch        keyWatch
	dropped      int
	restarted    bool
	renegotiated bool
	noticed      []drift.Notice
}

// parts reports whether a pass may be committed in parts and continued after an interruption. In a table without a
// key, the rows of a pass cannot be distinguished from earlier rows. A table in mode replace shows either all of a
// pass or nothing of it.
func (st *streamRun) parts() bool { return st.keyed() && st.stream.Table.Mode != schemas.Replace }

func (st *streamRun) keyed() bool { return len(st.stream.Key) > 0 }

func (r *run) stream(ctx context.Context, s schemas.Stream) []StreamReport {
	r.emit(Event{Kind: EventStart, Stream: s.Name, Total: -1})
	started := time.Now()
	st := &streamRun{run: r, origin: s, stream: s, destinations: newDestinationRuns(r, s)}
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
	}
	behind(st.destinations, reports)
	st.settleProbes(reports)
	for i := range reports {
		r.emit(Event{Kind: EventEnd, Stream: s.Name, Total: -1, Report: &reports[i]})
	}
	return reports
}

func (r *run) byClock(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(time.Until(r.Now()).Round(time.Second)) // clocks that agree to the second count as equal
}

// sync makes passes until every destination is done. Its error concerns all destinations that are not done.
func (st *streamRun) sync(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	g := st.gateOf(st.stream)
	if err := g.pass(st.stream); err != nil {
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

// restart moves a failed resumed pass back to the beginning, at most once per run. The position of the interruption
// may no longer exist. Then every run would fail there.
func (st *streamRun) restart(p *pass, err error) bool {
	if !p.resumes || st.restarted || !misplaced(err) {
		return false
	}
	st.restarted = true
	for _, k := range p.destinations {
		k.pos = cursor.Position{}
	}
	return true
}

func (st *streamRun) nextPass(ctx context.Context) *pass {
	if p := st.inStep(); p != nil {
		return p
	}
	for _, k := range st.destinations {
		k.rejoin(ctx, st.run)
	}
	return st.inStep()
}

// inStep returns a pass that several unfinished destinations share. They continue the same pass at the same position,
// or they all begin a new pass.
func (st *streamRun) inStep() *pass {
	var p *pass
	for _, k := range st.destinations {
		switch {
		case k.finished, k.trouble != nil:
		case p == nil:
			p = st.passFor(k)
		case p.resumes == k.pos.MidPass() && (!p.resumes || p.from == k.pos.Source && p.id == k.pos.Pass):
			if p.from != k.pos.Source {
				p.from = "" // they continue at different positions, so the pass reads from the beginning of the list
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
	p := &pass{streamRun: st, number: st.passes, destinations: []*destinationRun{k}, from: k.pos.Source, began: st.Now()}
	if k.pos.MidPass() {
		p.id, p.resumes = k.pos.Pass, true
		return p
	}
	p.id = runid.OfPass(st.Run, int64(st.passes))
	return p
}

// Key returns the key under which the stream's cursor is stored.
func (c *Config) Key(stream string) state.Key {
	return state.Key{Pipeline: c.Name, Stream: stream}
}

// PanicError reports a panic: see [Guard].
type PanicError struct {
	Where string // stream, or operation
	Value any
	Stack []byte // for debugging; not part of the text
}

// Error names the place and the value of the panic, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("%s: panic: %v", e.Where, e.Value) }

// Guard calls f, and turns a panic into a [*PanicError]. So a panic ends one stream, and not the process.
func Guard(where string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Where: where, Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}
