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

// Worker handles the wakeups of the queues.
type Worker struct {
	Pool   *pgxpool.Pool
	Schema string
	Slots  int // number of sources worked on at once: see Widths
	Log    *slog.Logger

	// Do works on a source, and returns soon after its context ends. Of the Wakeup it uses only the run,
	// the pipeline and the source. It may be called twice for the same source, even at the same time. did reports
	// whether there was something to do. If there was nothing, pause is the time after which there may be
	// something; 0 if that is unknown. After an error the wakeup is retried, a little later each time. Do may
	// return before its work has ended; then another wakeup can use the slot.
	Do func(ctx context.Context, c Wakeup) (did bool, pause time.Duration, err error)
	// Pipelines returns the pipelines that Do knows.
	Pipelines func() []string
	// Drain waits until all work that Do started has ended, or until ctx ends.
	Drain func(ctx context.Context) error
	// Look takes over abandoned units of other workers: see postgres.Store.Revive.
	Look func(ctx context.Context) error
	// Now returns the time of day in the database: see state.Store.
	Now func() time.Time
	// Every is the interval between calls of Look; 0: 5 seconds.
	Every time.Duration
}

const (
	lookEvery  = 5 * time.Second
	callLife   = time.Minute           // River's time limit for one job
	callRescue = 2 * time.Minute       // time after which a job's worker counts as gone; see rescue
	kept       = time.Hour             // retention of completed jobs
	fetchPause = 10 * time.Millisecond // between two fetches of jobs: a free slot waits at least this long
	never      = 365 * 24 * time.Hour
	stopGrace  = 9 * time.Second // Invariant 15
)

var errSlow = errors.New("stopped before everything had ended; committed data is safe, and other workers take over the units")

// Run handles wakeups until ctx ends. Then it returns as soon as no work is under way,
// or after ten seconds.
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
		RescueStuckJobsAfter:        never, // rescue does this
		JobTimeout:                  callLife,
		JobStuckThreshold:           never, // an attempt has no time limit
		CompletedJobRetentionPeriod: kept,
		FetchPollInterval:           time.Second,
		FetchCooldown:               fetchPause,
	})
	if err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	if err := c.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("start worker: %w", err)
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
				w.Log.Warn("cannot look for abandoned units; retrying soon", "error", err)
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

type answerer struct {
	river.WorkerDefaults[Wakeup]
	w    Worker
	live context.Context
}

// Work ignores River's context and time limit, because the units have time limits of their own.
func (a *answerer) Work(_ context.Context, job *river.Job[Wakeup]) error {
	call := job.Args
	call.Queue = job.Queue
	again, pause, err := a.w.answer(a.live, call)
	switch {
	case a.live.Err() != nil:
		return river.JobSnooze(0) // other workers get the wakeup at once
	case err != nil:
		a.w.Log.Warn("cannot claim or settle units; retrying soon", "pipeline", call.Pipeline, "source", call.Source, "error", err)
		return err
	case again:
		return river.JobSnooze(pause)
	}
	return nil
}

// againPause applies if there was nothing to do and Do returned no pause.
const againPause = 2 * time.Second

// answer works on the source whose turn it is, which need not be that of the received wakeup. again is true
// as long as the unit of the received wakeup waits. So each waiting unit keeps a wakeup, and each wakeup
// gives a slot to some waiting unit.
func (w Worker) answer(ctx context.Context, received Wakeup) (again bool, pause time.Duration, err error) {
	turns, err := w.turns(ctx, received)
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
	again, err = w.waits(ctx, received)
	switch {
	case did:
		pause = 0
	case pause == 0:
		pause = againPause
	}
	return again, pause, err
}
