package execute

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/fleet/queue"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/postgres"
	"github.com/penstock-data/penstock/state/retry"
)

// Worker makes attempts at the jobs of a state database, together with the workers of other processes. It is safe
// for concurrent use. A nil *Worker does nothing.
type Worker struct {
	executor *Executor
	db       *postgres.Store
	claimer  fleet.Claimer
	slots    int
	budget   *pipeline.Budget // shared by all jobs of this process // Invariant 6

	mu     sync.Mutex
	conf   *config.Config
	read   time.Time       // when conf was read
	busy   map[string]bool // pipeline and source of each running job
	logged map[string]bool // messages that repeat, and are logged only once
	gate   exclusiveGate

	slotsByQueue map[string]*fleet.Slots // by queue
	counted      countedLoad
}

// OpenWorker opens the worker of this process on its state database. It returns nil if the state is a folder.
func (x *Executor) OpenWorker(ctx context.Context, c *config.Config, slots int) (*Worker, error) {
	db, ok := x.Open.State(c).(*postgres.Store)
	if !ok {
		return nil, nil
	}
	units, err := db.OpenUnits(ctx)
	if err != nil {
		return nil, err
	}
	w := &Worker{
		executor: x, db: db, slots: slots, conf: c, read: time.Now(), busy: map[string]bool{}, logged: map[string]bool{},
		claimer: fleet.Claimer{Units: units, Name: x.workerName(), Life: x.Open.Life},
		budget:  x.budget(c, c.Pipelines...), slotsByQueue: map[string]*fleet.Slots{},
	}
	for name, width := range queue.Widths(slots) {
		w.slotsByQueue[name] = fleet.NewSlots(fleet.Pool{Width: width})
	}
	return w, nil
}

// Configure switches to another configuration.
func (w *Worker) Configure(c *config.Config) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conf, w.read = c, time.Now()
}

// Work makes attempts at the jobs of the queue until ctx ends. Then it stops the attempts that are under way, which
// takes at most ten seconds.
func (w *Worker) Work(ctx context.Context) error {
	pool, schema, err := w.db.Queue(ctx)
	if err == nil {
		err = open.InspectQueue(ctx, w.db)
	}
	pooled := false
	if err == nil {
		pooled, err = w.db.Pooled(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return open.StateTrouble(err)
	}
	return queue.Worker{
		Pool: pool, Schema: schema, Pooled: pooled, Slots: w.slots, Log: w.executor.Open.Log, Life: cmp.Or(w.executor.Open.Life, fleet.DefaultLife), Now: w.db.Now,
		Do: w.do, Drain: w.drain,
		Cancel: func(ctx context.Context, u queue.Job) error {
			_, err := w.claimer.Units.CancelUnits(ctx, unitsOf(u))
			return err
		},
		Held: func(ctx context.Context, u queue.Job) (bool, error) {
			return w.db.Held(ctx, u.Run, u.Pipeline, u.Source)
		},
	}.Run(ctx)
}

// unitsOf selects the units of a job.
func unitsOf(u queue.Job) state.UnitFilter {
	return state.UnitFilter{Run: u.Run, Pipeline: u.Pipeline, Source: &u.Source}
}

// Start works until ctx ends, and tries again after an error. It does nothing if the worker has no slots. wait()
// returns when the work has ended.
func (w *Worker) Start(ctx context.Context) (wait func()) {
	if w == nil || w.slots == 0 {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tries := (retry.Policy{First: time.Second, Longest: time.Minute}).Begin(); ; {
			err := w.Work(ctx)
			if ctx.Err() != nil {
				return
			}
			w.executor.Open.Log.Error("cannot work on units; trying again soon", "error", err)
			if !tries.Again(ctx) {
				return
			}
		}
	}()
	return func() { <-done }
}

// Pauses before the queue delivers a job again, except rereadPause.
const (
	unknownPause = time.Minute      // the configuration of this process does not have the pipeline
	busyPause    = 2 * time.Second  // this process has no free slot, or one of its units must run alone
	heldPause    = 5 * time.Second  // the source is worked on, here or by another worker
	rereadPause  = 10 * time.Second // least time between two readings of the configuration
	ownerPause   = 3 * time.Second  // another host owns the destination
)

// do makes attempts at the units of a job if this process can. While the source is silent, do() may return before the
// units end. The job is then delivered again from time to time, until its units have ended.
func (w *Worker) do(ctx context.Context, u queue.Job, cancelled <-chan struct{}) (next time.Time, err error) {
	defer func() {
		if err != nil {
			err = errors.New(w.executor.Redactor.Redact(err.Error())) // the queue stores it // Invariant 5
		}
	}()
	after := func(pause time.Duration) time.Time { return w.db.Now().Add(pause) }
	c, p, ok := w.known(u)
	if !ok {
		if next, err = w.next(ctx, u); err == nil && next.IsZero() {
			return next, nil
		}
		if w.first(u.Pipeline + " " + u.Source) {
			w.executor.Open.Log.Warn("pipeline or source of a run is not in the configuration here; left to other workers",
				"pipeline", u.Pipeline, "source", u.Source, "run", u.Run)
		}
		return after(unknownPause), nil
	}
	pause, err := w.otherHostPause(ctx, c, p)
	switch {
	case err != nil:
		return next, err
	case pause > 0:
		return after(pause), nil
	}
	if !w.begin(p.Key()) {
		return after(heldPause), nil
	}
	slot := w.slotsByQueue[u.Queue].Acquire(ctx)
	if slot == nil {
		w.end(p.Key())
		return after(busyPause), nil
	}
	d := &delivery{
		executor: w.executor, db: w.db, claimer: w.claimer, gate: &w.gate, queued: u, slot: slot,
		job: job{conf: c, pipeline: p, run: u.Run, budget: w.budget, read: w.executor.load},
	}
	done := make(chan struct{}) // closed once derr is set
	var derr error
	go func() {
		defer close(done)
		defer w.end(p.Key())
		derr = d.run(ctx, cancelled)
	}()
	switch {
	case !slot.Wait(done):
		return after(heldPause), nil
	case derr != nil:
		return next, derr
	}
	return w.next(ctx, u)
}

// otherHostPause returns 0 if this host may execute units of the pipeline. It returns ownerPause if another host owns a
// destination of the pipeline; that host then executes the units. If a destination has no owner yet, this host becomes
// its owner. // Invariant 13
func (w *Worker) otherHostPause(ctx context.Context, c *config.Config, p config.Pipeline) (time.Duration, error) {
	err := open.Owners{Opener: w.executor.Open, Conf: c}.Claim(ctx, p)
	e, ok := errors.AsType[*open.ElsewhereError](err)
	if !ok {
		return 0, err
	}
	if w.first(p.Key() + " " + e.Owner.Name) {
		w.executor.Open.Log.Info("runs left to another host", "pipeline", p.Name, "source", p.From[0].Text, "host", e.Owner.Name, "reason", e)
	}
	return ownerPause, nil
}

// next returns the time from which the units of a job can continue. It returns the zero time if all units have ended.
// If the next unit failed, err says why.
func (w *Worker) next(ctx context.Context, u queue.Job) (next time.Time, err error) {
	f := unitsOf(u)
	f.Active = true
	left, err := w.claimer.Units.Units(ctx, f)
	if err != nil {
		return next, err
	}
	now := w.db.Now()
	for _, one := range left {
		at, reason := one.NotBefore, error(nil)
		switch rep := fleet.ReportOf(one); {
		case one.State == state.UnitRunning:
			at = now.Add(heldPause)
		case !at.After(now):
			at = now.Add(busyPause) // the unit could not start
		case rep.Status == pipeline.StatusFailed:
			reason = errors.New(cmp.Or(rep.Reason, "streams failed"))
		}
		if next.IsZero() || at.Before(next) {
			next, err = at, reason
		}
	}
	return next, err
}

// drain waits until no job of this process is under way.
func (w *Worker) drain(ctx context.Context) error {
	for _, ps := range w.slotsByQueue {
		if err := ps.Drain(ctx); err != nil {
			return err
		}
	}
	return nil
}

// known finds the pipeline of a job, restricted to the job's source. If the configuration lacks the pipeline or the
// source, known() reads the configuration again, because they may be new.
func (w *Worker) known(u queue.Job) (*config.Config, config.Pipeline, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := pipelineOf(w.conf, u)
	if !ok && time.Since(w.read) > rereadPause {
		w.read = time.Now()
		if c, err := w.executor.Open.Load(); err == nil {
			w.conf = c
			w.executor.Redactor.Add(c.Secrets...) // Invariant 5
			p, ok = pipelineOf(w.conf, u)
		}
	}
	return w.conf, p, ok
}

func (w *Worker) begin(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy[key] {
		return false
	}
	w.busy[key] = true
	return true
}

func (w *Worker) end(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.busy, key)
}

// first reports whether a message was not logged before.
func (w *Worker) first(message string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.logged[message]
	w.logged[message] = true
	return !was
}
