package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
)

// Worker runs the jobs of the queues.
type Worker struct {
	Pool   *pgxpool.Pool
	Schema string
	Pooled bool // the connections go through a pooler, so that LISTEN does not work: the worker polls
	Slots  int  // number of sources worked on at once: see Widths
	Log    *slog.Logger

	// Do makes attempts at the units of a job, and returns soon after ctx ends or the channel `cancelled` is closed.
	// Once all of the units have ended, it returns the zero time. Otherwise it returns the time at which River delivers
	// the job again. If it returns such a time and an error, River records the error as the reason, and counts an
	// attempt. If it returns the zero time and an error, Worker logs the error and soon delivers the job again. The
	// number of such deliveries has no limit. Do may return while its work continues, so that another job can use the
	// slot.
	Do func(ctx context.Context, u Job, cancelled <-chan struct{}) (next time.Time, err error)
	// Cancel cancels the units of a job that was cancelled in the queue.
	Cancel func(ctx context.Context, u Job) error
	// Held reports whether a living worker has units of the job: see postgres.Store.Held.
	Held func(ctx context.Context, u Job) (bool, error)
	// Drain waits until all work that Do started has ended, or until ctx ends.
	Drain func(ctx context.Context) error
	// Now returns the time of day in the database: see state.Store.
	Now func() time.Time
	// Life is how long a worker may be silent before its jobs are rescued.
	Life time.Duration
}

const (
	kept       = time.Hour             // retention of completed jobs
	fetchPause = 10 * time.Millisecond // between two fetches of jobs: a free slot waits at least this long
	errorPause = 5 * time.Second       // pause before a job is retried, if Do returned an error and the zero time
	heldWait   = 5 * time.Second       // maximum duration of a call of Held
	clockLag   = 10 * time.Second      // see Run
	stopGrace  = 9 * time.Second       // Invariant 15
)

var errSlow = errors.New("stopped before everything had ended; committed data is safe, and other workers take over the units")

// Run runs jobs until ctx ends. Then it returns as soon as no work is under way, or after ten seconds.
//
// One of the clients of River, the leader, rescues the jobs of lost workers. It compares times of the database with
// its own clock. So a process does not become leader if its clock is behind the database's clock by more than clockLag.
func (w Worker) Run(ctx context.Context) error {
	workers, queues := river.NewWorkers(), map[string]river.QueueConfig{}
	for name, width := range Widths(w.Slots) {
		queues[name] = river.QueueConfig{MaxWorkers: width}
	}
	river.AddWorker(workers, &unitJobs{w: w, live: ctx})
	behind := time.Until(w.Now())
	if behind > clockLag {
		w.Log.Warn("this machine's clock is behind the state database's; the queue's upkeep is left to other workers", "behind", behind.Round(time.Second))
	}
	c, err := river.NewClient(riverpgxv5.New(w.Pool), &river.Config{
		Schema:                      w.Schema,
		Logger:                      quiet,
		Workers:                     workers,
		Queues:                      queues,
		LeaderElectionDisabled:      behind > clockLag,
		RescueStuckJobsAfter:        w.Life,
		JobTimeout:                  -1, // see unitJobs.Timeout
		CompletedJobRetentionPeriod: kept,
		FetchPollInterval:           time.Second,
		PollOnly:                    w.Pooled,
		FetchCooldown:               fetchPause,
	})
	if err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	if err := c.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	<-ctx.Done()
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if err := errors.Join(c.StopAndCancel(late), w.Drain(late)); err != nil {
		return errSlow
	}
	return nil
}

// unitJobs runs the jobs that River delivers.
type unitJobs struct {
	river.WorkerDefaults[Job]
	w    Worker
	live context.Context
}

// Timeout also decides which jobs River rescues. River asks for the time limit of each job that began longer than
// Worker.Life ago, and rescues only those whose time limit has passed. The work on a source may take hours, so a
// job has no time limit as long as a living worker has its units.
func (j *unitJobs) Timeout(job *river.Job[Job]) time.Duration {
	const none, passed = -1, time.Nanosecond
	if job.AttemptedAt == nil || j.w.Now().Sub(*job.AttemptedAt) < j.w.Life {
		return none // perhaps the worker has not claimed the units yet
	}
	ctx, cancel := context.WithTimeout(j.live, heldWait)
	defer cancel()
	if held, err := j.w.Held(ctx, job.Args); held || err != nil {
		return none
	}
	return passed
}

// NextRetry returns when a job is retried. After an error, this is the time that Do returned. A job that River rescues
// keeps its turn.
func (j *unitJobs) NextRetry(job *river.Job[Job]) time.Time {
	if at := job.Args.retryAt; !at.IsZero() {
		return at
	}
	return job.ScheduledAt
}

// Work implements [river.Worker]. River ends ctx also when Work returns, so the work itself does not use ctx.
func (j *unitJobs) Work(ctx context.Context, job *river.Job[Job]) error {
	remotely := func() bool { return errors.Is(context.Cause(ctx), river.ErrJobCancelledRemotely) }
	cancelled := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		if remotely() {
			close(cancelled)
		}
	})
	defer stop()
	u := job.Args
	u.Queue = job.Queue
	next, err := j.w.Do(j.live, u, cancelled)
	switch {
	case j.live.Err() != nil:
		return river.JobSnooze(0) // other workers get the job at once
	case remotely():
		return errors.Join(river.ErrJobCancelledRemotely, j.w.Cancel(j.live, job.Args))
	case err == nil && next.IsZero():
		return nil
	case next.IsZero(): // this must not count as an attempt, because River discards a job after mostAttempts
		j.w.Log.Warn("cannot claim units or store their results; retrying soon", "pipeline", job.Args.Pipeline, "source", job.Args.Source, "error", err)
		return again(job, j.w.Now().Add(errorPause), nil)
	}
	return again(job, next, err)
}

// again returns an error that makes River deliver a job again at a time of the database's clock. River compares this
// time with the clock of this process. If that clock is ahead, the time may seem to have passed. Then River would
// choose another time after an ordinary error, but a snooze keeps the time, even with a negative duration.
func again(job *river.Job[Job], at time.Time, err error) error {
	wait := time.Until(at)
	if err == nil || wait <= 0 {
		return &rivertype.JobSnoozeError{Duration: wait}
	}
	job.Args.retryAt = at
	return err
}
