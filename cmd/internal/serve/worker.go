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

type worker struct {
	d       *Daemon
	changed chan struct{} // wakes the worker before the next slot is due
	events  chan struct{}
	hints   chan struct{}
	others  chan string // ids of runs of other processes: while they are in progress, a run of this process cannot begin

	mu      sync.Mutex
	p       Pipeline
	defined int
	fresh   bool // p is new, so the state of its schedule must be read from the journal
	seen    time.Time
	adopted time.Time          // when the worker last looked for open slots of processes that have ended
	waiting []state.SlotRecord // the oldest first
	late    time.Time          // the last slot that had to wait for a run of another process
	run     string             // id of the run in progress; "" for none
	partial bool
	paused  bool
	retired bool
	orders  []RunRequest // requested runs; the next begins when no run is in progress
	putOff  putOff
	refused []string // streams of refreshes that were refused, for the next call of Deltas
	trouble string   // the last logged error of the journal

	turn    chan struct{} // locked by a run or by Deltas, unless Pipeline.Concurrent is set
	alive   atomic.Pointer[time.Time]
	sources atomic.Pointer[[]string]
	hinted  atomic.Pointer[map[string][]string] // Hinted of p
	work    sync.WaitGroup                      // runs
}

func newWorker(d *Daemon, p Pipeline) *worker {
	w := &worker{d: d, changed: make(chan struct{}, 1), events: make(chan struct{}, 1), hints: make(chan struct{}, 1), others: make(chan string, 1), turn: make(chan struct{}, 1)}
	now := time.Now()
	w.alive.Store(&now)
	w.set(p)
	return w
}

// define replaces the pipeline. A run in progress keeps its definition.
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
		s.Schedule, s.AppliesEvents = p.Plan.String(), p.Deltas != nil
		s.Next = p.Plan.Upcoming(w.d.Now(), shownSlots)
	})
}

const shownSlots = 5

func (w *worker) pipeline() Pipeline {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.p
}

func (w *worker) definition() (Pipeline, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.p, w.defined
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

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

// lookAgain is the longest sleep of a worker. It must be short: a timer does not notice that the clock was set,
// or that the machine was suspended.
const lookAgain = 15 * time.Second

func (w *worker) live(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { w.applyEvents(ctx) })
	heeding, heeded := context.WithCancel(ctx)
	both.Go(func() { w.heed(heeding) })
	both.Go(func() { w.awaitOthers(heeding) })
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

func (w *worker) look(ctx context.Context, now time.Time) time.Duration {
	here := time.Now() // has a monotonic clock reading, unlike now: see Alive
	w.alive.Store(&here)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.retired || ctx.Err() != nil {
		return 0
	}
	next, err := w.step(ctx, now)
	w.tell(err)
	sleep := lookAgain
	if err == nil && !next.IsZero() {
		sleep = min(sleep, next.Sub(now))
	}
	if len(w.putOff.streams) > 0 {
		sleep = min(sleep, time.Until(w.putOff.again))
	}
	return max(0, sleep)
}

// tell logs an error of the journal, but not the same error twice in a row. The next call of look() tries again.
func (w *worker) tell(err error) {
	text := ""
	if err != nil && w.d.ctx.Err() == nil {
		text = err.Error()
	}
	if text != "" && text != w.trouble {
		w.d.Log.Error("cannot keep the schedule; retrying soon", "pipeline", w.p.Name, "error", err)
	}
	w.trouble = text
}

func (w *worker) step(ctx context.Context, now time.Time) (next time.Time, err error) {
	if w.fresh {
		if err := w.recall(ctx, now); err != nil {
			return next, err
		}
	}
	if since := now.Sub(w.adopted); since < 0 || since >= lookAgain { // since is negative if the clock was set back
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
		w.seen = now // the clock was set back; recorded slots must not be run again
	}
	s := slotState{paused: w.paused, run: w.run}
	if w.partial {
		s.run = ""
	}
	if w.putOff.due() {
		w.orderRefresh(nil)
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
		var again time.Time
		if again, err = w.beginSlot(ctx, now); !again.IsZero() {
			return again, err
		}
	}
	return d.next, err
}

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
	if w.seen.IsZero() { // only when the worker starts, not after each new definition
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

func (w *worker) adopt(ctx context.Context, open []state.SlotRecord) error {
	for _, r := range open {
		r = w.p.Plan.recovered(r, w.p.Planned)
		if err := w.d.Journal.SetSlot(ctx, r); err != nil && !errors.Is(err, state.ErrTaken) {
			return err
		} else if err == nil && r.State == state.SlotWaiting {
			w.wait(r)
		}
	}
	return nil
}

// wait adds a slot to w.waiting. The caller must hold w.mu.
func (w *worker) wait(r state.SlotRecord) {
	w.waiting = append(slices.Clone(w.waiting), r) // a copy, because beginSlot keeps a part of the old slice
	slices.SortStableFunc(w.waiting, func(a, b state.SlotRecord) int { return a.Due.Compare(b.Due) })
}

func (w *worker) record(ctx context.Context, d due, now time.Time) error {
	added, err := w.d.Journal.AddSlots(ctx, w.p.Name, d.slots[len(d.slots)-1].Due, d.slots)
	if err != nil {
		return err
	}
	w.seen = d.slots[len(d.slots)-1].Due
	for _, r := range added {
		if r.State == state.SlotWaiting {
			w.wait(r)
			continue
		}
		w.d.skipped(r)
	}
	if last := len(added) - 1; last >= 0 {
		if d.lateReason == "" && added[last].Cause == string(SkipOverlap) {
			d.lateReason = added[last].Why // the run of another process was still in progress
		}
		if d.lateReason != "" {
			w.d.observe.Observe(RunLate{Pipeline: w.p.Name, Due: added[last].Due, At: now, Why: d.lateReason})
		}
	}
	w.d.hub.update(w.p.Name, func(s *Status) { s.Next = w.p.Plan.Upcoming(now, shownSlots) })
	return nil
}

func (d *Daemon) skipped(r state.SlotRecord) {
	d.Log.Warn("slot skipped", "pipeline", r.Pipeline, "due", r.Due, "why", r.Why)
	d.observe.Observe(SlotSkipped{Pipeline: r.Pipeline, Due: r.Due, Cause: Skip(r.Cause), Why: r.Why, Count: r.Count})
}

func (w *worker) order(o RunRequest) error {
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

// prepare makes the execution of a run. The parameter r is the record of the run's slot; it is the zero record if the
// run has no slot. The caller must hold w.mu.
func (w *worker) prepare(o RunRequest, r state.SlotRecord) *execution {
	x := &execution{worker: w, p: w.p, order: o, slot: r, started: w.d.Now()}
	x.note("info", pipeline.Event{}, "begun: "+string(o.Trigger))
	return x
}

// begin starts a run. No other run may be in progress. The caller must hold w.mu.
func (w *worker) begin(ctx context.Context, x *execution) {
	w.run, w.partial = x.order.Run, len(x.order.Streams) > 0
	w.work.Go(func() {
		refused := x.run(ctx)
		w.mu.Lock()
		w.run, w.partial = "", false
		switch {
		case x.order.Trigger != TriggerRefresh:
		case refused:
			w.putOff.refuse(x.order.Streams)
			w.refused = merged(w.refused, x.order.Streams)
		default:
			w.putOff.times = 0
		}
		if s := x.slot; s.State == state.SlotWaiting {
			w.wait(s)
		}
		w.mu.Unlock()
		wake(w.changed)
		wake(w.events)
	})
}

// pause pauses the schedule. With a zero time it resumes the schedule.
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
