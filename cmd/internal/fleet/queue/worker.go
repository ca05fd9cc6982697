package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// Worker answers the calls of a queue.
type Worker struct {
	Pool   *pgxpool.Pool
	Schema string
	Slots  int // sources at work at once: see Widths
	Log    *slog.Logger

	// Do does what a call asks for, and returns soon after its context has ended: of
	// the call only the run, the pipeline and the source count. It may be called twice
	// for the same, and at once. It reports whether there was something to do here; if
	// not, pause says how soon there may be. An error has the call come again, a little
	// later each time. It may return before what it does has ended, and so give the slot
	// to another call.
	Do func(ctx context.Context, c Wakeup) (did bool, pause time.Duration, err error)
	// Pipelines are those that Do knows.
	Pipelines func() []string
	// Drain returns once nothing is under way of what Do has begun, or ctx ends.
	Drain func(ctx context.Context) error
	// Look takes up what others have left, now and then: see postgres.Store.Revive.
	Look func(ctx context.Context) error
	// Now is the time of day in the database: see state.Store.
	Now func() time.Time
	// Every is how often Look is called; 0: 5 seconds.
	Every time.Duration
}

// How long things of a queue last.
const (
	lookEvery  = 5 * time.Second
	callLife   = time.Minute           // after which a call whose worker is gone may come again
	callRescue = 2 * time.Minute       // after which it does
	kept       = time.Hour             // calls that were answered
	fetchPause = 10 * time.Millisecond // between two questions for calls: a slot that is free waits as long
	never      = 365 * 24 * time.Hour
	stopGrace  = 9 * time.Second // Invariant 15
)

// errSlow says that a worker was left before everything had ended.
var errSlow = errors.New("stopped before everything had ended; what was committed stays, and units are taken over")

// Run answers calls until ctx ends, and returns within ten seconds once nothing is
// under way, or too long.
func (w Worker) Run(ctx context.Context) error {
	workers, queues := river.NewWorkers(), map[string]river.QueueConfig{}
	for name, width := range Widths(w.Slots) {
		queues[name] = river.QueueConfig{MaxWorkers: width}
	}
	river.AddWorker(workers, &answerer{w: w, live: ctx})
	c, err := river.NewClient(riverpgxv5.New(w.Pool), &river.Config{
		Test:                        river.TestConfig{Time: clock(w.Now)},
		Schema:                      w.Schema,
		Logger:                      quiet,
		Workers:                     workers,
		Queues:                      queues,
		RescueStuckJobsAfter:        never, // see rescue
		JobTimeout:                  callLife,
		JobStuckThreshold:           never, // an attempt takes as long as it takes
		CompletedJobRetentionPeriod: kept,
		FetchPollInterval:           time.Second,
		FetchCooldown:               fetchPause,
	})
	if err != nil {
		return fmt.Errorf("begin worker: %w", err)
	}
	if err := c.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("begin worker: %w", err)
	}
	var looking sync.WaitGroup
	looking.Go(func() { w.look(ctx) })
	<-ctx.Done()
	looking.Wait()
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if err := errors.Join(c.StopAndCancel(late), w.Drain(late)); err != nil {
		return errSlow
	}
	return nil
}

// look takes up what others have left until ctx ends.
func (w Worker) look(ctx context.Context) {
	every := w.Every
	if every <= 0 {
		every = lookEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	trouble := ""
	for {
		text := ""
		if err := errors.Join(w.Look(ctx), rescue(ctx, w.Pool, w.Schema)); err != nil && ctx.Err() == nil {
			if text = err.Error(); text != trouble {
				w.Log.Warn("units of others not looked at; tried again soon", "error", err)
			}
		}
		trouble = text
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// answerer is what River calls.
type answerer struct {
	river.WorkerDefaults[Wakeup]
	w    Worker
	live context.Context // until the worker is stopped
}

// Work answers one call. How long that takes the units say, not River: its time
// only tells when a call whose worker is gone may come again.
func (a *answerer) Work(_ context.Context, job *river.Job[Wakeup]) error {
	call := job.Args
	call.Queue = job.Queue
	again, pause, err := a.w.answer(a.live, call)
	switch {
	case a.live.Err() != nil:
		return river.JobSnooze(0) // whatever is left, others look at once
	case err != nil:
		a.w.Log.Warn("units cannot be claimed or settled; tried again soon", "pipeline", call.Pipeline, "source", call.Source, "error", err)
		return err
	case again:
		return river.JobSnooze(pause)
	}
	return nil
}

// againPause is how soon a call comes again that could not be answered, unless Do
// says when.
const againPause = 2 * time.Second

// answer does what is next, be it what the call is about or not, and reports whether
// the call is to come again: as long as its own unit waits, whoever else goes before.
// So each unit that waits has its call, and each call brings a slot to one of them.
func (w Worker) answer(ctx context.Context, own Wakeup) (again bool, pause time.Duration, err error) {
	turns, err := w.turns(ctx, own)
	if err != nil {
		return false, 0, err
	}
	did := false
	for i := 0; i < len(turns) && !did && ctx.Err() == nil; i++ {
		var wait time.Duration
		if did, wait, err = w.Do(ctx, turns[i]); err != nil {
			return false, 0, err
		}
		if wait > 0 && (pause == 0 || wait < pause) {
			pause = wait
		}
	}
	again, err = w.waits(ctx, own)
	switch {
	case did:
		pause = 0
	case pause == 0:
		pause = againPause
	}
	return again, pause, err
}
