package queue

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/penstock-data/penstock/state"
)

// mostAhead limits the waiting units of a pipeline that are read to find its next sources.
const mostAhead = 1000

// turnsSQL lets pipelines take turns: first comes the pipeline with the fewest running sources and, among
// equals, the one that has not begun a unit for the longest time. Sources with a running unit are left out.
const turnsSQL = `WITH busy AS (
	SELECT DISTINCT pipeline, source FROM units WHERE state = 'running'
), waiting AS (
	SELECT u.run, u.pipeline, u.source, min(u.not_before) AS since, min(u.id) AS first
	FROM unnest($1::text[]) p(name) CROSS JOIN LATERAL (
		SELECT run, pipeline, source, not_before, id FROM units
		WHERE pipeline = p.name AND state IN ('waiting', 'parked') AND not_before <= statement_timestamp()
			AND EXISTS (SELECT FROM runs r WHERE r.pipeline = units.pipeline AND r.run = units.run AND r.cause = $2) = $3
		ORDER BY not_before, id LIMIT $4
	) u GROUP BY u.run, u.pipeline, u.source
), placed AS (
	SELECT w.*, row_number() OVER (PARTITION BY pipeline ORDER BY since, first) AS place
	FROM waiting w WHERE NOT EXISTS (SELECT FROM busy b WHERE b.pipeline = w.pipeline AND b.source = w.source)
), shares AS (
	SELECT pipeline, (SELECT count(*) FROM busy b WHERE b.pipeline = p.pipeline) AS busy,
		(SELECT max(started) FROM units u WHERE u.pipeline = p.pipeline) AS begun
	FROM (SELECT DISTINCT pipeline FROM placed) p
)
SELECT run, pipeline, source FROM placed JOIN shares USING (pipeline)
ORDER BY busy + place, begun NULLS FIRST, since, first`

// turns returns wakeups in the order of their turns, and last the received one. The order does not depend on
// which process planned a run, or when. So a run of many sources does not block a run of a few.
func (w Worker) turns(ctx context.Context, received Wakeup) ([]Wakeup, error) {
	rows, err := w.Pool.Query(ctx, turnsSQL, w.Pipelines(), refresh, received.Queue == Deltas, mostAhead)
	if err != nil {
		return nil, fmt.Errorf("select next sources: %w", err)
	}
	calls, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Wakeup, err error) {
		c.Queue = received.Queue
		return c, row.Scan(&c.Run, &c.Pipeline, &c.Source)
	})
	if err != nil {
		return nil, fmt.Errorf("select next sources: %w", err)
	}
	return append(calls, received), nil
}

// waits reports whether a wakeup is still needed: its unit still waits for that attempt, or a unit of its
// source must run alone because several workers have died while they worked on it.
func (w Worker) waits(ctx context.Context, c Wakeup) (waits bool, err error) {
	err = w.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM units WHERE state IN ('waiting', 'parked')
		AND (id = $1 AND attempt = $2 OR run = $3 AND pipeline = $4 AND source = $5 AND broken >= $6))`,
		c.Unit, c.Attempt, c.Run, c.Pipeline, c.Source, state.SuspectBroken).Scan(&waits)
	if err != nil {
		return false, fmt.Errorf("check waiting units: %w", err)
	}
	return waits, nil
}
