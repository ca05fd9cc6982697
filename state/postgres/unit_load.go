package postgres

import (
	"context"
	"fmt"
)

// UnitLoad counts the units of all runs, except the units that have ended.
type UnitLoad struct {
	Waiting int    // units that a worker with a free slot can claim now
	Later   int    // units that wait until a certain time, because their source did not answer or the attempt failed
	Running int    // units that a worker has claimed
	Oldest  string // the run of the oldest waiting unit; "" if none waits
}

// UnitLoad returns how many units the workers have, and how many wait for a worker. It reads all units that have not
// ended. An index finds them quickly, even among many ended units.
func (s *Store) UnitLoad(ctx context.Context) (l UnitLoad, err error) {
	err = s.read(ctx, func(q querier) error {
		return q.QueryRow(ctx, `SELECT count(*) FILTER (WHERE due), count(*) FILTER (WHERE NOT due AND state <> 'running'), count(*) FILTER (WHERE state = 'running'),
			coalesce(min(run) FILTER (WHERE due), '')
			FROM (SELECT run, state, state <> 'running' AND not_before <= clock_timestamp() AS due FROM units WHERE `+activeUnits+`) u`).
			Scan(&l.Waiting, &l.Later, &l.Running, &l.Oldest)
	})
	if err != nil {
		return l, fmt.Errorf("count units: %w", err)
	}
	return l, nil
}
