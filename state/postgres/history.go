package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstock-data/penstock/state"
)

// history stores the history of runs in a table.
type history struct{ s *Store }

var _ state.History = history{}

// OpenHistory implements [state.Store]. Any number of processes may write.
func (s *Store) OpenHistory(context.Context) (state.History, error) { return history{s}, nil }

// ReadHistory implements [state.Store].
func (s *Store) ReadHistory(context.Context) (state.History, error) { return history{s}, nil }

// Close implements [state.History].
func (h history) Close() error { return nil }

// sumPoints adds a point to the point of the same series and time.
const sumPoints = ` ON CONFLICT (pipeline, source, stream, width, at) DO UPDATE SET runs = h.runs + excluded.runs, incomplete = h.incomplete + excluded.incomplete,
	took = h.took + excluded.took, longest = greatest(h.longest, excluded.longest), complete = greatest(h.complete, excluded.complete),
	fetched = h.fetched + excluded.fetched, written = h.written + excluded.written, deleted = h.deleted + excluded.deleted,
	rejected = h.rejected + excluded.rejected, requests = h.requests + excluded.requests, allowed = h.allowed + excluded.allowed`

// addPoints inserts all points with one statement, because a run may have thousands of streams.
const addPoints = `INSERT INTO history AS h SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::timestamptz[], $6::bigint[], $7::bigint[],
	$8::bigint[], $9::bigint[], $10::timestamptz[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[])` + sumPoints

// Add implements [state.History]. If the answer to the commit is lost, Add does not add the points again, because they
// could count twice. If old hours cannot be joined, the points are stored nevertheless.
func (h history) Add(ctx context.Context, work []state.Work) error {
	points := state.Hours(work)
	if len(points) == 0 {
		return nil
	}
	today, due := state.Newest(points).Truncate(24*time.Hour), false
	err := h.s.changeOnce(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, addPoints, columnsOf(points)...); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM history_joined WHERE day < $1)", today).Scan(&due)
	})
	if err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	if !due {
		return nil
	}
	if err := h.s.change(ctx, func(tx pgx.Tx) error { return joinHours(ctx, tx, today) }); err != nil {
		return fmt.Errorf("join old hours of the history: %w", err)
	}
	return nil
}

// columnsOf returns the values of each column of the table.
func columnsOf(points []state.Point) []any {
	return []any{
		valueOf(points, func(p state.Point) string { return clean(p.Pipeline) }),
		valueOf(points, func(p state.Point) string { return clean(p.Source) }),
		valueOf(points, func(p state.Point) string { return clean(p.Stream) }),
		valueOf(points, func(p state.Point) int64 { return p.Width.Microseconds() }),
		valueOf(points, func(p state.Point) time.Time { return p.At }),
		valueOf(points, func(p state.Point) int64 { return p.Runs }),
		valueOf(points, func(p state.Point) int64 { return p.Incomplete }),
		valueOf(points, func(p state.Point) int64 { return p.Took.Microseconds() }),
		valueOf(points, func(p state.Point) int64 { return p.Longest.Microseconds() }),
		valueOf(points, func(p state.Point) *time.Time { return nullTime(p.Complete) }),
		valueOf(points, func(p state.Point) int64 { return p.Fetched }),
		valueOf(points, func(p state.Point) int64 { return p.Written }),
		valueOf(points, func(p state.Point) int64 { return p.Deleted }),
		valueOf(points, func(p state.Point) int64 { return p.Rejected }),
		valueOf(points, func(p state.Point) int64 { return p.Requests }),
		valueOf(points, func(p state.Point) int64 { return p.Allowed }),
	}
}

func valueOf[T any](points []state.Point, of func(state.Point) T) []T {
	all := make([]T, len(points))
	for i, p := range points {
		all[i] = of(p)
	}
	return all
}

// joinHours joins old hours to days, and deletes old days, at the first call of a day. If several processes call it, one
// does the work, and the others do not wait. // Invariant 6
func joinHours(ctx context.Context, tx pgx.Tx, today time.Time) error {
	const day = 24 * time.Hour
	tag, err := tx.Exec(ctx, "UPDATE history_joined SET day = $1 WHERE day IN (SELECT day FROM history_joined WHERE day < $1 FOR UPDATE SKIP LOCKED)", today)
	if err != nil || tag.RowsAffected() == 0 {
		return err
	}
	var batch pgx.Batch
	batch.Queue(`WITH old AS (DELETE FROM history WHERE width = $1 AND at < $2 RETURNING *)
		INSERT INTO history AS h SELECT pipeline, source, stream, $3::bigint, date_trunc('day', at, 'UTC'), sum(runs)::bigint, sum(incomplete)::bigint, sum(took)::bigint, max(longest), max(complete),
		sum(fetched)::bigint, sum(written)::bigint, sum(deleted)::bigint, sum(rejected)::bigint, sum(requests)::bigint, sum(allowed)::bigint
		FROM old GROUP BY 1, 2, 3, 5`+sumPoints, time.Hour.Microseconds(), today.Add(-state.HourAge), day.Microseconds())
	batch.Queue("DELETE FROM history WHERE at < $1", today.Add(-state.HistoryAge))
	batch.Queue("DELETE FROM history WHERE at <= (SELECT at FROM history ORDER BY at DESC LIMIT 1 OFFSET $1)", state.KeptHistory)
	return tx.SendBatch(ctx, &batch).Close()
}

// pointsOf reads the points of several series. It names both widths, so that the primary key selects the points.
const pointsOf = `SELECT h.* FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS s (pipeline, source, stream, place)
	CROSS JOIN LATERAL (SELECT * FROM history p WHERE p.pipeline = s.pipeline AND p.source = s.source AND p.stream = s.stream
		AND p.width IN (3600000000, 86400000000) AND p.at >= $4) h ORDER BY s.place, h.width, h.at`

// Points implements [state.History].
func (h history) Points(ctx context.Context, of []state.Series, since time.Time) (all []state.Point, err error) {
	var pipelines, sources, streams []string
	for _, s := range of {
		pipelines, sources, streams = append(pipelines, clean(s.Pipeline)), append(sources, clean(s.Source)), append(streams, clean(s.Stream))
	}
	err = h.s.read(ctx, func(q querier) error {
		rows, err := q.Query(ctx, pointsOf, pipelines, sources, streams, since)
		if err == nil {
			all, err = pgx.CollectRows(rows, pointOf)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	return all, nil
}

func pointOf(row pgx.CollectableRow) (p state.Point, err error) {
	var complete *time.Time
	var width, took, longest int64
	err = row.Scan(&p.Pipeline, &p.Source, &p.Stream, &width, &p.At, &p.Runs, &p.Incomplete, &took, &longest, &complete,
		&p.Fetched, &p.Written, &p.Deleted, &p.Rejected, &p.Requests, &p.Allowed)
	p.Width, p.Took, p.Longest = time.Duration(width)*time.Microsecond, time.Duration(took)*time.Microsecond, time.Duration(longest)*time.Microsecond
	p.At, p.Complete = p.At.UTC(), timeOf(complete)
	return p, err
}
