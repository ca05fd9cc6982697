package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstock-data/penstock/state"
)

type unitStore struct{ s *Store }

var _ state.UnitStore = unitStore{}

// OpenUnits implements [state.Store].
func (s *Store) OpenUnits(context.Context) (state.UnitStore, error) { return unitStore{s}, nil }

// ReadUnits implements [state.Store].
func (s *Store) ReadUnits(context.Context) (state.UnitStore, error) { return unitStore{s}, nil }

// Close implements [state.UnitStore].
func (unitStore) Close() error { return nil }

func (l unitStore) change(ctx context.Context, what string, do func(pgx.Tx) error) error {
	if err := l.s.change(ctx, do); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// unitColumns are the columns that unitOf reads, in its order.
const unitColumns = "id, run, pipeline, source, part, planned, state, attempt, broken, worker, nullif(not_before, '-infinity'), started, ended, report"

// activeUnits is the condition that a unit has not ended.
const activeUnits = "state IN ('waiting', 'running', 'parked')"

// mostAdded is how many units one statement adds. A statement for all units of 2,000 workspaces, each with 149 streams,
// would exceed statementTimeout on a busy server.
const mostAdded = 10_000

// AddUnits implements [state.Units].
func (l unitStore) AddUnits(ctx context.Context, units []state.Unit) (added []state.Unit, err error) {
	units = state.DistinctUnits(units)
	err = l.change(ctx, "add units", func(tx pgx.Tx) error {
		added = nil
		if err := refuseUnits(ctx, tx, units); err != nil {
			return err
		}
		for some := range slices.Chunk(units, mostAdded) {
			if err := insertUnits(ctx, tx, some, &added); err != nil {
				return err
			}
		}
		if len(added) < len(units) { // cannot happen, because refuseUnits has found no active units of other runs
			return fmt.Errorf("%d of %d units: %w", len(added), len(units), state.ErrUnderWay) // Invariant 14
		}
		for _, p := range pipelinesOf(units) {
			if err := forgetUnits(ctx, tx, p); err != nil {
				return err
			}
		}
		added = byID(added)
		return l.s.addJobs(ctx, tx, added)
	})
	if err != nil {
		return nil, err
	}
	return added, nil
}

// insertUnits inserts waiting units, and appends them to the list added, with their IDs.
func insertUnits(ctx context.Context, tx pgx.Tx, units []state.Unit, added *[]state.Unit) error {
	var runs, pipelines, sources, parts []string
	var notBefore []time.Time
	var planned []int
	for _, u := range units {
		runs, pipelines, sources, parts = append(runs, u.Run), append(pipelines, u.Pipeline), append(sources, u.Source), append(parts, u.Part)
		notBefore, planned = append(notBefore, u.NotBefore), append(planned, u.Planned)
	}
	rows, err := tx.Query(ctx, `INSERT INTO units (run, pipeline, source, part, planned, state, not_before)
		SELECT run, pipeline, source, part, planned, 'waiting', CASE WHEN not_before < '0002-01-01' THEN '-infinity' ELSE not_before END
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::int[]) WITH ORDINALITY u(run, pipeline, source, part, not_before, planned, n) ORDER BY n
		ON CONFLICT (pipeline, source, part) WHERE `+activeUnits+` DO UPDATE SET run = excluded.run WHERE units.run = excluded.run
		RETURNING `+unitColumns, runs, pipelines, sources, parts, notBefore, planned)
	if err != nil {
		return err
	}
	*added, err = pgx.AppendRows(*added, rows, unitOf)
	return err
}

// pipelinesOf returns the names of the units' pipelines, in order.
func pipelinesOf(units []state.Unit) (names []string) {
	for _, u := range units {
		names = append(names, u.Pipeline)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// forgetUnits removes the ended units of a pipeline that are not kept: see [state.KeptUnits]. // Invariant 6
func forgetUnits(ctx context.Context, tx pgx.Tx, pipeline string) error {
	for {
		done, err := tx.Exec(ctx, `DELETE FROM units WHERE id = ANY(ARRAY(SELECT id FROM units WHERE pipeline = $1 AND NOT `+activeUnits+` AND run NOT IN (SELECT run FROM units WHERE pipeline = $1 AND `+activeUnits+`) AND run < (SELECT min(run) FROM
			(SELECT run, row_number() OVER last AS n, sum(count(*)) OVER last AS total FROM units WHERE pipeline = $1 GROUP BY run WINDOW last AS (ORDER BY run DESC)) r
			WHERE n = 1 OR n <= $2 AND total <= $3) LIMIT $4))`, pipeline, state.KeptUnitRuns, state.KeptUnits, mostForgotten)
		if err != nil || done.RowsAffected() < mostForgotten {
			return err
		}
	}
}

// mostForgotten is how many units one statement removes.
const mostForgotten = 50_000

func byID(units []state.Unit) []state.Unit {
	slices.SortFunc(units, func(a, b state.Unit) int { return cmp.Compare(a.ID, b.ID) })
	return units
}

// dueUnits returns the condition that a unit may be claimed.
func dueUnits(c state.Claim) string {
	if c.Early {
		return "state IN ('waiting', 'parked')"
	}
	return "state IN ('waiting', 'parked') AND not_before <= clock_timestamp()"
}

// ClaimUnits implements [state.Units]. Units that are claimed together have one row in the table claims, so a heartbeat
// does not change a row for each unit. Two workers never wait for each other, because each skips rows that the other has
// locked.
func (l unitStore) ClaimUnits(ctx context.Context, c state.Claim) (units []state.Unit, err error) {
	err = l.change(ctx, "claim units", func(tx pgx.Tx) error {
		units = nil
		if err := l.s.revive(ctx, tx); err != nil {
			return err
		}
		if free, err := tryLockSource(ctx, tx, c); err != nil || !free {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT `+unitColumns+` FROM units WHERE `+dueUnits(c)+` AND (broken >= $5) = $6
			AND ($1 = '' OR pipeline = $1) AND ($2 = '' OR run = $2) AND ($3::text IS NULL OR source = $3) AND ($4 = 0 OR id = $4)
			ORDER BY units.not_before, broken, id LIMIT 1 FOR UPDATE SKIP LOCKED`, c.Pipeline, c.Run, c.Source, c.Unit, state.SuspectBroken, c.Suspect)
		if err != nil {
			return err
		}
		u, err := pgx.CollectExactlyOneRow(rows, unitOf)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		limit, least, most := orAll(c.Limit), 0, state.SuspectBroken-1
		if c.Suspect {
			limit, least, most = state.SuspectsTogether(u.Broken), u.Broken, u.Broken
		}
		rows, err = tx.Query(ctx, `WITH made AS (INSERT INTO claims (until) VALUES (clock_timestamp() + $2) RETURNING id)
			UPDATE units SET state = 'running', attempt = attempt + 1, worker = $1, started = clock_timestamp(), ended = NULL, claim = (SELECT id FROM made)
			WHERE id = ANY(ARRAY(SELECT id FROM units WHERE `+dueUnits(c)+` AND run = $3 AND pipeline = $4 AND source = $5 AND ($6 = 0 OR id = $6) AND broken BETWEEN $8 AND $9
				ORDER BY id LIMIT $7 FOR UPDATE SKIP LOCKED)) RETURNING `+unitColumns, c.Worker, c.For, u.Run, u.Pipeline, u.Source, c.Unit, limit, least, most)
		if err == nil {
			units, err = pgx.CollectRows(rows, unitOf)
		}
		return err
	})
	return byID(units), err
}

// tryLockSource reports whether no other worker is claiming units of the source at this moment. So of two claims at the
// same time, one gets all units and the other gets none.
func tryLockSource(ctx context.Context, tx pgx.Tx, c state.Claim) (free bool, err error) {
	if c.Pipeline == "" || c.Source == nil {
		return true, nil
	}
	err = tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(hashtextextended(format('units %s %I %I', current_schema, $1::text, $2::text), 0))", c.Pipeline, *c.Source).Scan(&free)
	return free, err
}

// Held reports whether a worker has units of a source in a run, and its claim has not expired.
func (s *Store) Held(ctx context.Context, run, pipeline, source string) (held bool, err error) {
	err = s.read(ctx, func(q querier) error {
		return q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM units JOIN claims ON claims.id = claim WHERE run = $1 AND pipeline = $2 AND source = $3
			AND state = 'running' AND until >= clock_timestamp())`, run, pipeline, source).Scan(&held)
	})
	if err != nil {
		return false, fmt.Errorf("read units: %w", err)
	}
	return held, nil
}

const mostRevived = 1000

// revive makes running units wait again if their claims have expired. If this has happened to a unit too often, the
// unit fails instead. If several processes call revive at the same time, each unit is revived only once. revive also
// deletes expired claims that have had no running units since before the call.
func (s *Store) revive(ctx context.Context, tx pgx.Tx) error {
	if err := s.clock.query(ctx, tx, "SELECT clock_timestamp()"); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `WITH expired AS MATERIALIZED (SELECT id FROM claims WHERE until < statement_timestamp() ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED),
			revived AS (UPDATE units SET broken = broken + 1, not_before = '-infinity',
				state = CASE WHEN broken + 1 < $2 THEN 'waiting' ELSE 'failed' END, ended = CASE WHEN broken + 1 < $2 THEN NULL ELSE clock_timestamp() END
				WHERE id = ANY(ARRAY(SELECT id FROM units WHERE state = 'running' AND claim = ANY(ARRAY(SELECT id FROM expired)) ORDER BY id FOR UPDATE SKIP LOCKED)))
		DELETE FROM claims WHERE id = ANY(ARRAY(SELECT id FROM expired)) AND NOT EXISTS (SELECT FROM units WHERE claim = claims.id AND state = 'running')`,
		mostRevived, state.MostBroken)
	return err
}

// ExtendClaims implements [state.Units]. It cannot extend an expired claim, because revive may have just released the
// units.
func (l unitStore) ExtendClaims(ctx context.Context, worker string, ids []int64, d time.Duration) (kept []int64, err error) {
	err = l.change(ctx, "extend claims of units", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `WITH held AS (SELECT id, claim FROM units WHERE id = ANY($2) AND worker = $3 AND state = 'running'),
				extended AS (UPDATE claims SET until = clock_timestamp() + $1 WHERE id = ANY(ARRAY(SELECT claim FROM held)) AND until >= clock_timestamp() RETURNING id)
			SELECT held.id FROM held JOIN extended ON extended.id = held.claim`, d, ids, worker)
		if err == nil {
			kept, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		}
		return err
	})
	slices.Sort(kept)
	return kept, err
}

// EndAttempts implements [state.Units]. If it ends an attempt twice with the same state, the second call succeeds too,
// because the first answer may have been lost.
func (l unitStore) EndAttempts(ctx context.Context, units []state.Unit) error {
	var ids, attempts []int64
	var states, workers []string
	var notBefore []*time.Time
	var ended []bool
	var reports [][]byte
	for _, u := range units {
		ids, attempts, states, workers = append(ids, u.ID), append(attempts, int64(u.Attempt)), append(states, string(u.State)), append(workers, u.Worker)
		notBefore, ended, reports = append(notBefore, nullTime(u.NotBefore)), append(ended, u.State.Ended()), append(reports, append([]byte{}, u.Report...))
	}
	var settled []int64
	err := l.change(ctx, "end attempts at units", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `UPDATE units SET state = s.state, broken = 0, not_before = coalesce(s.not_before, '-infinity'), ended = CASE WHEN s.ended THEN clock_timestamp() END, report = s.report
			FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::timestamptz[], $6::bool[], $7::bytea[]) AS s(id, attempt, state, worker, not_before, ended, report)
			WHERE units.id = s.id AND units.worker = s.worker AND units.attempt = s.attempt AND units.state IN ('running', s.state) RETURNING units.id`,
			ids, attempts, states, workers, notBefore, ended, reports)
		if err == nil {
			settled, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		}
		return err
	})
	if err == nil && len(settled) < len(units) {
		err = fmt.Errorf("end attempts at units: for %d of %d units: the unit %w", len(units)-len(settled), len(units), state.ErrTaken)
	}
	return err
}

// ofFilter is the condition that a unit matches a [state.UnitFilter]. Its parameters are the result of valuesOf.
const ofFilter = "($1 = '' OR run = $1) AND ($2 = '' OR pipeline = $2) AND ($3::text IS NULL OR source = $3) AND (NOT $4 OR " + activeUnits + ") AND id > $5"

func valuesOf(f state.UnitFilter) []any { return []any{f.Run, f.Pipeline, f.Source, f.Active, f.After} }

// CancelUnits implements [state.Units].
func (l unitStore) CancelUnits(ctx context.Context, f state.UnitFilter) (n int, err error) {
	f.Active = true
	err = l.change(ctx, "cancel units", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, "UPDATE units SET state = 'cancelled', ended = clock_timestamp() WHERE "+ofFilter+" RETURNING job", valuesOf(f)...)
		if err != nil {
			return err
		}
		jobs, err := pgx.CollectRows(rows, pgx.RowTo[*int64])
		n = len(jobs)
		if err != nil {
			return err
		}
		return l.s.cancelJobs(ctx, tx, jobs)
	})
	return n, err
}

const mostUnits = 1000

// Units implements [state.Units].
func (l unitStore) Units(ctx context.Context, f state.UnitFilter) (units []state.Unit, err error) {
	err = l.s.read(ctx, func(q querier) error {
		rows, err := q.Query(ctx, "SELECT "+unitColumns+" FROM units WHERE "+ofFilter+" ORDER BY id LIMIT $6", append(valuesOf(f), cmp.Or(f.Limit, mostUnits))...)
		if err == nil {
			units, err = pgx.CollectRows(rows, unitOf)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read units: %w", err)
	}
	return units, nil
}

func unitOf(row pgx.CollectableRow) (u state.Unit, err error) {
	var notBefore, started, ended *time.Time
	var report []byte
	err = row.Scan(&u.ID, &u.Run, &u.Pipeline, &u.Source, &u.Part, &u.Planned, &u.State, &u.Attempt, &u.Broken, &u.Worker, &notBefore, &started, &ended, &report)
	u.NotBefore, u.Started, u.Ended = timeOf(notBefore), timeOf(started), timeOf(ended)
	if len(report) > 0 {
		u.Report = report
	}
	return u, err
}
