package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/pgerror"
)

// Jobs is a queue in the same database, which delivers units to workers. Its methods are called in the transaction that
// changes the units, so both changes are committed together.
type Jobs interface {
	// Add inserts the jobs for new units, and stores the IDs of the jobs in the units. The units are sorted by ID.
	Add(ctx context.Context, tx pgx.Tx, schema string, units []state.Unit) error
	// Cancel cancels jobs of units that were cancelled.
	Cancel(ctx context.Context, tx pgx.Tx, schema string, jobs []int64) error
	// Ended returns those of the given jobs that no longer deliver units. The second result has the jobs that a user has
	// cancelled in the queue. The first result has the jobs that were deleted, or that ended in another way.
	Ended(ctx context.Context, tx pgx.Tx, schema string, jobs []int64) (lost, cancelled []int64, err error)
}

func (s *Store) addJobs(ctx context.Context, tx pgx.Tx, units []state.Unit) error {
	if s.o.Jobs == nil {
		return nil
	}
	return s.o.Jobs.Add(ctx, tx, s.schema, units)
}

// cancelJobs cancels the jobs with the given ids. An id is nil if the unit has no job.
func (s *Store) cancelJobs(ctx context.Context, tx pgx.Tx, ids []*int64) error {
	var jobs []int64
	for _, id := range ids {
		if id != nil {
			jobs = append(jobs, *id)
		}
	}
	if s.o.Jobs == nil || len(jobs) == 0 {
		return nil
	}
	slices.Sort(jobs)
	return s.o.Jobs.Cancel(ctx, tx, s.schema, slices.Compact(jobs))
}

// RestoreJobs looks for waiting units of a run whose jobs were deleted in the queue, and inserts these jobs again. If a
// job was cancelled in the queue, RestoreJobs cancels its units. It returns the number of units whose jobs were
// inserted again, and the number of units that it cancelled.
func (s *Store) RestoreJobs(ctx context.Context, run string) (restored, cancelled int, err error) {
	if s.o.Jobs == nil {
		return 0, 0, nil
	}
	err = s.change(ctx, func(tx pgx.Tx) error {
		restored, cancelled = 0, 0
		rows, err := tx.Query(ctx, `SELECT DISTINCT coalesce(job, 0) FROM units WHERE run = $1 AND state IN ('waiting', 'parked')`, run)
		if err != nil {
			return err
		}
		jobs, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return err
		}
		lost, stopped, err := s.o.Jobs.Ended(ctx, tx, s.schema, jobs)
		if err != nil || len(lost)+len(stopped) == 0 {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE units SET state = 'cancelled', ended = clock_timestamp() WHERE run = $1 AND job = ANY($2) AND state IN ('waiting', 'parked')`, run, stopped)
		if err != nil {
			return err
		}
		rows, err = tx.Query(ctx, "SELECT "+unitColumns+" FROM units WHERE run = $1 AND coalesce(job, 0) = ANY($2) AND state IN ('waiting', 'parked') ORDER BY id FOR UPDATE", run, lost)
		if err != nil {
			return err
		}
		units, err := pgx.CollectRows(rows, unitOf)
		restored, cancelled = len(units), int(tag.RowsAffected())
		if err != nil {
			return err
		}
		return s.addJobs(ctx, tx, units)
	})
	if err != nil {
		return 0, 0, fmt.Errorf("restore jobs: %w", err)
	}
	return restored, cancelled, nil
}

// Queue returns the connection pool and the schema in which a queue of units can be stored. The pool belongs to the
// store. Queue returns [ErrUnmigrated] or [state.ErrNewer], wrapped, if the schema has another version.
func (s *Store) Queue(ctx context.Context) (pool *pgxpool.Pool, schema string, err error) {
	err = s.retry(ctx, pgerror.Transient, func(ctx context.Context) error {
		d, err := s.ready(ctx)
		if err == nil {
			pool, schema = d.Pool, s.schema
		}
		return err
	})
	return pool, schema, err
}
