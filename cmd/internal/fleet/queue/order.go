package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// The order of jobs is River's: priority first, then scheduled_at. So that pipelines take turns, scheduled_at of a new
// job is a virtual time, far in the past. Each job moves the virtual time of its pipeline ahead by one turn. If jobs of
// other pipelines are running when a run is planned, the first job of the new run gets a place half a turn before the
// places of those jobs. So a run of a few sources does not wait for a run of thousands that was planned before it.
//
// A job that is retried gets a real time, and so comes after all new jobs of its priority. The first sources of
// each run have a higher priority, so that the retries of a small run do not wait for the rest of a large run.
const (
	firstSources  = 64
	firstPriority = 1
	laterPriority = 2
)

// wholeTurn is the number by which each job moves its pipeline ahead. Half of it is 1, so a place half a turn before
// the running jobs has an odd number.
const wholeTurn = 2

// turnZero is the time of turn 0. Each number is a millisecond, so turns reach the present after 400 billion jobs.
var turnZero = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// jobOrder is the place of a job in the order of its queue.
type jobOrder struct {
	queue    string
	priority int
	number   int64
}

// at returns the virtual time of the turn.
func (t jobOrder) at() time.Time { return turnZero.Add(time.Duration(t.number) * time.Millisecond) }

// order assigns turns to new jobs.
type order struct {
	tx   pgx.Tx
	now  time.Time           // by the database's clock
	runs map[string]jobOrder // the next turn of each run
	size map[string]int      // turns assigned to each run
}

func newOrder(ctx context.Context, tx pgx.Tx) (*order, error) {
	o := &order{tx: tx, runs: map[string]jobOrder{}, size: map[string]int{}}
	if err := tx.QueryRow(ctx, "SELECT now()").Scan(&o.now); err != nil {
		return nil, fmt.Errorf("order jobs: %w", err)
	}
	return o, nil
}

// next returns the turn of a new job.
func (o *order) next(ctx context.Context, u Job) (jobOrder, error) {
	t, begun := o.runs[u.Run]
	if !begun {
		var err error
		if t, err = o.first(ctx, u); err != nil {
			return t, fmt.Errorf("order jobs: %w", err)
		}
	}
	t.priority = firstPriority
	if o.size[u.Run] >= firstSources {
		t.priority = laterPriority
	}
	o.size[u.Run]++
	following := t
	following.number = evenFrom(t.number + wholeTurn)
	o.runs[u.Run] = following
	return t, nil
}

// evenFrom returns n if n is even, and otherwise n+1.
func evenFrom(n int64) int64 { return n + n&1 }

// first returns the first turn of a run. It is half a turn before the turns of the running jobs. If the pipeline
// already has a later turn, the run comes after that turn. A run that webhooks cause does not wait for the other runs
// of its pipeline.
func (o *order) first(ctx context.Context, u Job) (t jobOrder, err error) {
	var cause string
	err = o.tx.QueryRow(ctx, "SELECT cause FROM runs WHERE pipeline = $1 AND run = $2", u.Pipeline, u.Run).Scan(&cause)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return t, err
	}
	t.queue = Runs
	if cause == refresh {
		t.queue = Deltas
	}
	var present int64
	var last *int64
	err = o.tx.QueryRow(ctx, `SELECT
		coalesce((SELECT max(turn) FROM units WHERE state = 'running'), (SELECT min(turn) FROM units WHERE state IN ('waiting', 'parked')), 0),
		(SELECT max(turn) FROM units WHERE pipeline = $1 AND state IN ('waiting', 'running', 'parked'))`, u.Pipeline).Scan(&present, &last)
	t.number = evenFrom(present) - wholeTurn/2
	if t.queue == Runs && last != nil && *last > t.number {
		t.number = evenFrom(*last + 1)
	}
	return t, err
}
