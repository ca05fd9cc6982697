package postgres

import (
	"context"
	"errors"
	"fmt"
)

// ErrState is returned by Query for a statement that reads tables of penstock's state. These tables have webhook
// deliveries without masks, and credentials of sources.
var ErrState = errors.New("a query must not read the state of penstock")

// checkTables returns [ErrState] (wrapped) if the tree of a statement reads such a table. // Invariant 5
func checkTables(ctx context.Context, s *session, r references) error {
	var refused error
	err := s.query(ctx, r.stateSQL(), func(v [][]byte) error {
		refused = fmt.Errorf("%w: %s has webhook deliveries without masks, or credentials; read it with psql", ErrState, v[0])
		return nil
	})
	if err != nil {
		return fmt.Errorf("check which tables the statement reads: %w", err)
	}
	return refused
}

// stateSQL selects a table of r that has secrets of a state. A schema has a state if it has three tables that only the
// state has. The statistics of the planner have samples of the values of all tables, so they are selected too if the
// database has a state.
func (r *references) stateSQL() string {
	return `WITH states AS (SELECT relnamespace FROM pg_class WHERE relname IN ('inbox_sources', 'event_variants', 'source_outcomes') GROUP BY 1 HAVING count(*) = 3)
		SELECT oid::regclass::text FROM pg_class WHERE oid = ANY (` + oids(r.relations) + `) AND (
			relname IN ('inbox', 'events', 'event_variants', 'captures', 'notes', 'secrets') AND relnamespace IN (SELECT relnamespace FROM states)
			OR relname = 'pg_statistic' AND relnamespace = 'pg_catalog'::regnamespace AND EXISTS (SELECT FROM states)) LIMIT 1`
}
