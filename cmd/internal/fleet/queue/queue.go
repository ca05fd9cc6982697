// Package queue delivers the units of runs to workers, as jobs of River, a queue in the state database. A job is
// the work of a run for one source. River decides when a job starts and on which worker, retries it, and rescues it
// when its worker is gone.
//
// A job only delivers units to a worker. The units in the state record what is done, and decide which worker may do it.
// So it does no harm if River delivers a job twice: the second worker cannot claim the units.
package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/penstock-data/penstock/state"
)

// The queues. Runs that webhooks cause have their own queue and slots, so that they never wait for scheduled runs.
const (
	Runs   = "runs"
	Deltas = "deltas"
)

// refresh is the cause of runs that go to the queue Deltas.
const refresh = "refresh"

// Widths returns, for each queue, how many sources a worker with the given number of slots works on at once.
func Widths(slots int) map[string]int { return map[string]int{Runs: slots, Deltas: max(1, slots/4)} }

// Job is the units of one source in a run. The queue never has two unended jobs with the same run, pipeline and source.
type Job struct {
	Run      string `json:"run"`
	Pipeline string `json:"pipeline"`
	Source   string `json:"source,omitempty"` // "" if the pipeline has only one source

	Queue   string    `json:"-"` // the queue that delivered the job
	retryAt time.Time // when River retries the job after an error of this attempt
}

// Kind implements [river.JobArgs].
func (Job) Kind() string { return "unit" }

// mostAttempts is River's limit of attempts. It only has to be large, because the units themselves count their failures
// and lost workers, and give up.
const mostAttempts = 1000

// unended are the states of jobs that have not ended. River accepts a second job with equal fields only if the first
// one is in none of these states.
var unended = []rivertype.JobState{
	rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning, rivertype.JobStateRetryable, rivertype.JobStateScheduled,
}

// Jobs writes jobs in the transactions that write their units. It implements postgres.Jobs.
type Jobs struct{}

// Add inserts a job for each run and source of the units. It stores the id of the job and its turn in each of these
// units. The units must be in the order in which their sources start.
func (Jobs) Add(ctx context.Context, tx pgx.Tx, schema string, units []state.Unit) error {
	if len(units) == 0 {
		return nil
	}
	order, err := newOrder(ctx, tx)
	if err != nil {
		return err
	}
	index := map[Job]int{}
	var jobs []river.InsertManyParams
	var turns []int64
	for _, u := range units {
		args := Job{Run: u.Run, Pipeline: u.Pipeline, Source: u.Source}
		if _, known := index[args]; known {
			continue
		}
		index[args] = len(jobs)
		t, err := order.next(ctx, args)
		if err != nil {
			return err
		}
		opts := &river.InsertOpts{
			Queue: t.queue, Priority: t.priority, ScheduledAt: t.at(), MaxAttempts: mostAttempts,
			UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: unended},
		}
		if u.NotBefore.After(order.now) {
			opts.ScheduledAt = u.NotBefore
		}
		jobs, turns = append(jobs, river.InsertManyParams{Args: args, InsertOpts: opts}), append(turns, t.number)
	}
	c, err := inserter(schema, order.now)
	if err != nil {
		return err
	}
	var ids []int64 // of the jobs
	for some := range slices.Chunk(jobs, mostInserted) {
		added, err := c.InsertManyTx(ctx, tx, some)
		if err != nil {
			return fmt.Errorf("insert jobs: %w", err)
		}
		for _, j := range added {
			ids = append(ids, j.Job.ID)
		}
	}
	for some := range slices.Chunk(units, mostInserted) {
		var unitIDs, unitJobs, unitTurns []int64
		for _, u := range some {
			i := index[Job{Run: u.Run, Pipeline: u.Pipeline, Source: u.Source}]
			unitIDs, unitJobs, unitTurns = append(unitIDs, u.ID), append(unitJobs, ids[i]), append(unitTurns, turns[i])
		}
		if _, err := tx.Exec(ctx, `UPDATE units SET job = n.job, turn = coalesce(units.turn, n.turn)
			FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS n(id, job, turn) WHERE units.id = n.id`, unitIDs, unitJobs, unitTurns); err != nil {
			return err
		}
	}
	return nil
}

// mostInserted is how many jobs one statement inserts, and how many units one statement updates, so that no statement
// exceeds its timeout on a busy server.
const mostInserted = 5000

// Cancel cancels jobs. River stops the running jobs.
func (Jobs) Cancel(ctx context.Context, tx pgx.Tx, schema string, jobs []int64) error {
	c, err := inserter(schema, time.Time{})
	if err != nil {
		return err
	}
	for _, id := range jobs {
		if _, err := c.JobCancelTx(ctx, tx, id); err != nil && !errors.Is(err, rivertype.ErrNotFound) {
			return fmt.Errorf("cancel jobs: %w", err)
		}
	}
	return nil
}

// Ended returns which of the given jobs deliver nothing any more: the lost jobs, and the cancelled jobs.
func (Jobs) Ended(ctx context.Context, tx pgx.Tx, schema string, jobs []int64) (lost, cancelled []int64, err error) {
	rows, err := tx.Query(ctx, `SELECT n.id, coalesce(j.state = 'cancelled', false) FROM unnest($1::bigint[]) AS n(id)
		LEFT JOIN `+pgx.Identifier{schema, "river_job"}.Sanitize()+` j ON j.id = n.id
		WHERE j.id IS NULL OR j.finalized_at IS NOT NULL ORDER BY n.id`, jobs)
	if err != nil {
		return nil, nil, fmt.Errorf("read jobs: %w", err)
	}
	var id int64
	var stopped bool
	if _, err = pgx.ForEachRow(rows, []any{&id, &stopped}, func() error {
		if stopped {
			cancelled = append(cancelled, id)
		} else {
			lost = append(lost, id)
		}
		return nil
	}); err != nil {
		return nil, nil, fmt.Errorf("read jobs: %w", err)
	}
	return lost, cancelled, nil
}

// inserter returns a client of River that writes jobs and runs none. In River, a job that has a time waits for River's
// scheduler, even if the time has passed. The hook of this client makes the job available at once.
func inserter(schema string, now time.Time) (*river.Client[pgx.Tx], error) {
	ready := river.HookInsertBeginFunc(func(_ context.Context, p *rivertype.JobInsertParams) error {
		if p.ScheduledAt != nil && !p.ScheduledAt.After(now) {
			p.State = rivertype.JobStateAvailable
		}
		return nil
	})
	c, err := river.NewClient(riverpgxv5.New(nil), &river.Config{Schema: schema, Logger: quiet, Hooks: []rivertype.Hook{ready}})
	if err != nil {
		return nil, fmt.Errorf("open queue: %w", err)
	}
	return c, nil
}

// quiet discards River's log, because the units report their own results.
var quiet = slog.New(slog.DiscardHandler)
