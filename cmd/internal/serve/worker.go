package serve

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// worker looks after one pipeline: it waits for its slots, makes its runs, one
// at a time, and has webhook events applied in between.
type worker struct {
	d       *Daemon
	changed chan struct{} // the definition is another, or an event has come

	mu      sync.Mutex
	p       Pipeline
	after   time.Time // the last slot that has been dealt with
	running bool
	retired bool
	alive   time.Time
	paused  bool

	runs sync.WaitGroup
}

func newWorker(d *Daemon, p Pipeline) *worker {
	w := &worker{d: d, changed: make(chan struct{}, 1), after: time.Now(), alive: time.Now()}
	w.define(p)
	return w
}

// define makes p what is run from now on; a run under way is not touched.
func (w *worker) define(p Pipeline) {
	w.mu.Lock()
	w.p = p
	w.mu.Unlock()
	w.d.hub.update(p.Name, func(s *Status) {
		s.Sources, s.Destinations, s.Streams = p.Sources, p.Destinations, p.Streams
		s.Schedule, s.Receiving = p.Plan.String(), p.Deltas != nil
		s.Next = p.Plan.Upcoming(time.Now(), shownSlots)
	})
	w.wake()
}

// shownSlots is how many of the next slots are told.
const shownSlots = 5

func (w *worker) pipeline() Pipeline {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.p
}

func (w *worker) wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// retire ends the worker once its run, if one is under way, has ended.
func (w *worker) retire() {
	w.mu.Lock()
	w.retired = true
	w.mu.Unlock()
	w.wake()
}

func (w *worker) seen() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.alive
}

// lookAgain is how long a worker sleeps at most: timers do not notice that the
// machine's clock was set, or that it was asleep.
const lookAgain = 15 * time.Second

// work waits for slots until ctx ends or the pipeline is there no more.
func (w *worker) work(ctx context.Context) {
	defer w.runs.Wait()
	for {
		next, stop := w.look(ctx, time.Now())
		if stop {
			return
		}
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-w.changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// look deals with the slots that are due at now, and says how long to sleep.
func (w *worker) look(ctx context.Context, now time.Time) (sleep time.Duration, stop bool) {
	w.mu.Lock()
	w.alive = now
	p, after, retired := w.p, w.after, w.retired
	w.mu.Unlock()
	if retired || ctx.Err() != nil {
		if retired {
			w.d.hub.drop(p.Name)
		}
		return 0, true
	}
	due := p.Plan.Next(after)
	if !due.IsZero() && !due.After(now) {
		w.mu.Lock()
		w.after = due
		w.mu.Unlock()
		_ = w.begin(ctx, p, Order{Run: pipeline.NewRunID(now), Trigger: TriggerSchedule}, due)
		return 0, false
	}
	if due.IsZero() {
		return lookAgain, false
	}
	return min(lookAgain, due.Sub(now)), false
}

// order begins a run that somebody asks for.
func (w *worker) order(o Order) error {
	ctx := w.d.ctx
	if ctx.Err() != nil {
		return ErrStopping
	}
	return w.begin(ctx, w.pipeline(), o, time.Time{})
}

func (w *worker) received() {}

// begin starts a run, unless one is under way.
func (w *worker) begin(ctx context.Context, p Pipeline, o Order, due time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running {
		return fmt.Errorf("pipeline %s: %w", p.Name, ErrBusy) // Invariant 18
	}
	w.running = true
	w.runs.Go(func() {
		w.run(ctx, p, o, due)
		w.mu.Lock()
		w.running = false
		w.mu.Unlock()
		w.wake()
	})
	return nil
}

// run makes one run and tells of it.
func (w *worker) run(ctx context.Context, p Pipeline, o Order, due time.Time) {
	started := time.Now()
	if p.Plan.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.Plan.Deadline, fmt.Errorf("its deadline of %s", p.Plan.Deadline))
		defer cancel()
	}
	w.d.hub.update(p.Name, func(s *Status) {
		s.Running = &Running{Run: o.Run, Trigger: o.Trigger, Due: due, Started: started}
	})
	w.d.observe.Observe(RunStarted{Pipeline: p.Name, Run: o.Run, Trigger: o.Trigger, Due: due, At: started})
	o.Progress = func(e pipeline.Event) {
		w.d.hub.progress(p.Name, o.Run, e)
		w.d.observe.Observe(RunProgress{Pipeline: p.Name, Run: o.Run, Event: e})
	}
	o.Rates = func(rates func() []Rate) {
		w.d.hub.update(p.Name, func(s *Status) { s.Running.rates = rates })
	}
	report, err := p.Run(ctx, o)
	w.d.hub.update(p.Name, func(s *Status) {
		s.Running, s.Last, s.LastErr = nil, &report, err
		s.Next = w.pipeline().Plan.Upcoming(time.Now(), shownSlots)
	})
	w.d.observe.Observe(RunEnded{Pipeline: p.Name, Run: o.Run, Trigger: o.Trigger, Due: due, At: time.Now(), Report: report, Err: err})
}
