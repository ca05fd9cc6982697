package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// worker looks after one pipeline: it records its slots, makes its runs, one at
// a time, and has webhook events applied.
type worker struct {
	d       *Daemon
	changed chan struct{} // something is to be looked at before the next slot
	events  chan struct{} // an event has come
	hints   chan struct{} // a delivery has come that nobody vouches for

	mu      sync.Mutex
	p       Pipeline
	defined int       // how often p was defined
	fresh   bool      // p was defined anew, and where its schedule stands is to be asked for
	seen    time.Time // slots up to there are recorded
	adopted time.Time // when slots of processes that are gone were asked for
	waiting []state.SlotRecord
	run     string // under way; "" for none
	partial bool   // of some streams only
	paused  bool
	retired bool
	orders  []Order // that begin when nothing else is under way
	trouble string  // with the journal, as it was last told

	turn    chan struct{}                       // of a run or of Deltas, where they cannot be under way together
	alive   atomic.Pointer[time.Time]           // when it last looked
	sources atomic.Pointer[[]string]            // of p
	hinted  atomic.Pointer[map[string][]string] // of p, ditto
	work    sync.WaitGroup                      // runs
}

func newWorker(d *Daemon, p Pipeline) *worker {
	w := &worker{d: d, changed: make(chan struct{}, 1), events: make(chan struct{}, 1), hints: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
	now := time.Now()
	w.alive.Store(&now)
	w.set(p)
	return w
}

// define makes p what is run from now on; a run under way is not touched.
func (w *worker) define(p Pipeline) {
	w.set(p)
	wake(w.changed)
	wake(w.events)
}

func (w *worker) set(p Pipeline) {
	w.mu.Lock()
	w.p, w.fresh = p, true
	w.defined++
	w.mu.Unlock()
	w.sources.Store(&p.Sources)
	w.hinted.Store(&p.Hinted)
	w.d.hub.update(p.Name, func(s *Status) {
		s.Sources, s.Destinations, s.Streams = p.Sources, p.Destinations, p.Streams
		s.Schedule, s.Receiving = p.Plan.String(), p.Deltas != nil
		s.Next = p.Plan.Upcoming(w.d.Now(), shownSlots)
	})
}

// shownSlots is how many of the next slots are told.
const shownSlots = 5

func (w *worker) pipeline() Pipeline {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.p
}

// definition is the pipeline as it is now, and which one this is.
func (w *worker) definition() (Pipeline, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.p, w.defined
}

// wake has whoever waits at c look; while it has not looked, once is enough.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// retire ends the worker once what is under way has ended.
func (w *worker) retire() {
	w.mu.Lock()
	w.retired = true
	w.mu.Unlock()
	wake(w.changed)
	wake(w.events)
}

func (w *worker) left() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.retired
}

// lookAgain is how long a worker sleeps at most: timers do not notice that the
// machine's clock was set, or that it was asleep.
const lookAgain = 15 * time.Second

// live works until ctx ends or the pipeline is there no more, and returns when
// nothing of it is under way.
func (w *worker) live(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { w.applyEvents(ctx) })
	heeding, heeded := context.WithCancel(ctx)
	both.Go(func() { w.heed(heeding) })
	for {
		sleep := w.look(ctx, w.d.Now())
		if ctx.Err() != nil || w.left() {
			break
		}
		timer := time.NewTimer(sleep)
		select {
		case <-timer.C:
		case <-w.changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	w.work.Wait()
	heeded()
	both.Wait()
	if w.left() && ctx.Err() == nil {
		w.d.hub.drop(w.pipeline().Name)
	}
}

// look records what is due at now, begins what is to begin, and says how long to
// sleep.
func (w *worker) look(ctx context.Context, now time.Time) time.Duration {
	here := time.Now() // whatever the time of day: see Alive
	w.alive.Store(&here)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.retired || ctx.Err() != nil {
		return 0
	}
	next, err := w.step(ctx, now)
	w.tell(err)
	if err != nil || next.IsZero() {
		return lookAgain
	}
	return max(0, min(lookAgain, next.Sub(now)))
}

// tell logs what the journal has met, once: the next look tries again.
func (w *worker) tell(err error) {
	text := ""
	if err != nil && w.d.ctx.Err() == nil {
		text = err.Error()
	}
	if text != "" && text != w.trouble {
		w.d.Log.Error("schedule cannot be kept; tried again soon", "pipeline", w.p.Name, "error", err)
	}
	w.trouble = text
}

func (w *worker) step(ctx context.Context, now time.Time) (next time.Time, err error) {
	if w.fresh {
		if err := w.recall(ctx, now); err != nil {
			return next, err
		}
	}
	if since := now.Sub(w.adopted); since < 0 || since >= lookAgain { // or the clock was set back
		orphans, err := w.d.Journal.Orphans(ctx, w.p.Name)
		if err != nil {
			return next, err
		}
		w.adopted = now
		if err := w.adopt(ctx, orphans); err != nil {
			return next, err
		}
	}
	if now.Before(w.seen) {
		w.seen = now // the clock was set back: what is recorded is not run again
	}
	s := slotState{paused: w.paused, run: w.run}
	if w.partial {
		s.run = "" // the slot is run once it has ended
	}
	d := w.p.Plan.due(w.p.Name, w.seen, now, s)
	if len(d.slots) > 0 {
		if err := w.record(ctx, d, now); err != nil {
			return next, err
		}
	}
	switch {
	case w.run != "":
	case len(w.orders) > 0:
		o := w.orders[0]
		w.orders = w.orders[1:]
		w.begin(ctx, w.prepare(o, state.SlotRecord{}))
	case len(w.waiting) > 0 && !w.paused:
		err = w.beginSlot(ctx, now)
	}
	return d.next, err
}

// recall asks the journal where the pipeline's schedule stands.
func (w *worker) recall(ctx context.Context, now time.Time) error {
	j, name := w.d.Journal, w.p.Name
	seen, err := j.Seen(ctx, name, w.p.Plan.String(), now)
	if err != nil {
		return err
	}
	paused, err := j.Paused(ctx, name)
	if err != nil {
		return err
	}
	if w.seen.IsZero() { // and not a new definition of a pipeline that is known
		open, err := j.OpenSlots(ctx, name)
		if err != nil {
			return err
		}
		if err := w.adopt(ctx, open); err != nil {
			return err
		}
	}
	w.seen, w.paused, w.fresh = seen, !paused.IsZero(), false
	w.d.hub.update(name, func(s *Status) { s.Paused = w.paused })
	return nil
}

// adopt goes on with slots that a process which is gone has left open.
func (w *worker) adopt(ctx context.Context, open []state.SlotRecord) error {
	for _, r := range open {
		r = w.p.Plan.recovered(r, w.p.Planned)
		if err := w.d.Journal.SetSlot(ctx, r); err != nil && !errors.Is(err, state.ErrTaken) {
			return err
		} else if err == nil && r.State == state.SlotWaiting {
			w.waiting = append(w.waiting, r)
		}
	}
	return nil
}

// record puts what is due into the journal, and tells of it.
func (w *worker) record(ctx context.Context, d due, now time.Time) error {
	added, err := w.d.Journal.AddSlots(ctx, w.p.Name, d.slots[len(d.slots)-1].Due, d.slots)
	if err != nil {
		return err
	}
	w.seen = d.slots[len(d.slots)-1].Due
	for _, r := range added {
		if r.State == state.SlotWaiting {
			w.waiting = append(w.waiting, r)
			continue
		}
		w.d.skipped(r)
	}
	if last := len(added) - 1; last >= 0 && d.late != "" {
		w.d.observe.Observe(RunLate{Pipeline: w.p.Name, Due: added[last].Due, At: now, Why: d.late})
	}
	w.d.hub.update(w.p.Name, func(s *Status) { s.Next = w.p.Plan.Upcoming(now, shownSlots) })
	return nil
}

// skipped tells of a slot that is recorded as skipped.
func (d *Daemon) skipped(r state.SlotRecord) {
	d.Log.Warn("slot skipped", "pipeline", r.Pipeline, "due", r.Due, "why", r.Why)
	d.observe.Observe(SlotSkipped{Pipeline: r.Pipeline, Due: r.Due, Cause: Skip(r.Cause), Why: r.Why, Count: r.Count})
}

// beginSlot begins the run of a slot that waits. That it begins is in the journal
// before it does: a slot is never run unrecorded. // Invariant 18
func (w *worker) beginSlot(ctx context.Context, now time.Time) error {
	r, over, rest := w.p.Plan.pick(w.waiting)
	for _, o := range over {
		if err := w.d.Journal.SetSlot(ctx, o); err != nil && !errors.Is(err, state.ErrTaken) {
			return err
		}
		if o.State == state.SlotSkipped {
			w.d.skipped(o)
		}
	}
	o := Order{Run: pipeline.NewRunID(now), Trigger: Trigger(r.Cause)}
	if w.p.Planned && o.Trigger == TriggerResume && r.Run != "" {
		o.Run = r.Run
	}
	r.State, r.Run, r.Started, r.Why = state.SlotRunning, o.Run, now, ""
	r.Attempts++
	x := w.prepare(o, r)
	err := w.d.Journal.SetSlot(ctx, r, x.record(state.RunRecord{Status: string(pipeline.StatusRunning)}))
	if err != nil && !errors.Is(err, state.ErrTaken) {
		return err
	}
	w.waiting = rest
	if err != nil {
		return nil // this process was taken for dead, and another goes on with the slot // Invariant 18
	}
	w.begin(ctx, x)
	return nil
}

// order has a run begin that somebody asks for. It waits for nothing but the
// journal.
func (w *worker) order(o Order) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.d.ctx.Err() != nil || w.retired:
		return ErrStopping
	case w.run != "" || len(w.orders) > 0:
		return fmt.Errorf("pipeline %s: %w", w.p.Name, ErrBusy)
	}
	w.begin(w.d.ctx, w.prepare(o, state.SlotRecord{}))
	return nil
}

// refresh has streams be read soon, once what is under way has ended.
func (w *worker) refresh(streams []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.orders {
		if w.orders[i].Trigger == TriggerRefresh {
			w.orders[i].Streams = merged(w.orders[i].Streams, streams)
			return
		}
	}
	w.orders = append(w.orders, Order{Run: pipeline.NewRunID(w.d.Now()), Trigger: TriggerRefresh, Streams: streams})
	wake(w.changed)
}

// merged are the words of both, each once, in their order.
func merged(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}

// prepare is a run that is about to begin, of a slot if it has one; w.mu is held.
func (w *worker) prepare(o Order, r state.SlotRecord) *execution {
	x := &execution{worker: w, p: w.p, order: o, slot: r, started: w.d.Now()}
	x.note("info", pipeline.Event{}, "begun: "+string(o.Trigger))
	return x
}

// begin starts a run in the background; w.mu is held and no other is under way.
func (w *worker) begin(ctx context.Context, x *execution) {
	w.run, w.partial = x.order.Run, len(x.order.Streams) > 0
	w.work.Go(func() {
		x.run(ctx)
		w.mu.Lock()
		w.run, w.partial = "", false
		if s := x.slot; s.State == state.SlotWaiting {
			w.waiting = append([]state.SlotRecord{s}, w.waiting...)
		}
		w.mu.Unlock()
		wake(w.changed)
		wake(w.events)
	})
}

// pause has slots be skipped, or no longer.
func (w *worker) pause(ctx context.Context, at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fresh {
		if err := w.recall(ctx, w.d.Now()); err != nil {
			return err
		}
	}
	if err := w.d.Journal.Pause(ctx, w.p.Name, at); err != nil {
		return err
	}
	w.paused = !at.IsZero()
	w.d.hub.update(w.p.Name, func(s *Status) { s.Paused = w.paused })
	wake(w.changed)
	return nil
}
