package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstock-data/penstock/state"
)

// Jobs is a queue in the same database, which delivers units to workers. Its methods are called in the transaction
// that changes the units, so that both commit or neither does.
type Jobs interface {
	// Add inserts the jobs for new units, which are in the order of their IDs, and stores the jobs in the units.
	Add(ctx context.Context, tx pgx.Tx, schema string, units []state.Unit) error
	// Cancel cancels jobs of units that were cancelled.
	Cancel(ctx context.Context, tx pgx.Tx, schema string, jobs []int64) error
}

func (s *Store) addJobs(ctx context.Context, tx pgx.Tx, units []state.Unit) error {
	if s.o.Jobs == nil {
		return nil
	}
	return s.o.Jobs.Add(ctx, tx, s.schema, units)
}

// cancelJobs cancels the jobs of units; nil for a unit without a job.
func (s *Store) cancelJobs(ctx context.Context, tx pgx.Tx, of []*int64) error {
	var jobs []int64
	for _, id := range of {
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

// Queue returns the connection pool and the schema in which a queue of units can be stored. The pool belongs to the
// store. Queue returns [ErrUnmigrated] or [state.ErrNewer], wrapped, if the schema has another version.
func (s *Store) Queue(ctx context.Context) (pool *pgxpool.Pool, schema string, err error) {
	err = s.read(ctx, func(p *pgxpool.Pool) error {
		pool, schema = p, s.schema
		return nil
	})
	return pool, schema, err
}
