package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstock-data/penstock/state"
)

// sources stores the state of sources in tables. If one process pauses a source, the source is paused for all processes
// that share the database.
type sources struct{ s *Store }

var _ state.Sources = sources{}

// OpenSources implements [state.Store]. Any number of processes may write.
func (s *Store) OpenSources(context.Context) (state.Sources, error) { return sources{s}, nil }

// ReadSources implements [state.Store].
func (s *Store) ReadSources(context.Context) (state.Sources, error) { return sources{s}, nil }

// Close implements [state.Sources].
func (b sources) Close() error { return nil }

// Pause implements [state.Sources].
func (b sources) Pause(ctx context.Context, source string, p state.Pause) error {
	err := b.s.change(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO source_pauses VALUES ($1, $2, $3)
			ON CONFLICT (source) DO UPDATE SET paused = excluded.paused, why = excluded.why`, source, p.At, clean(p.Why))
		return err
	})
	if err != nil {
		return fmt.Errorf("write sources: pause %s: %w", source, err)
	}
	return nil
}

// Resume implements [state.Sources].
func (b sources) Resume(ctx context.Context, source string) (wasPaused bool, err error) {
	err = b.s.change(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "DELETE FROM source_pauses WHERE source = $1", source)
		wasPaused = wasPaused || tag.RowsAffected() > 0 // keep true if the change is repeated because its first answer was lost
		return err
	})
	if err != nil {
		return false, fmt.Errorf("write sources: resume %s: %w", source, err)
	}
	return wasPaused, nil
}

// Paused implements [state.Sources].
func (b sources) Paused(ctx context.Context) (all map[string]state.Pause, err error) {
	err = b.s.read(ctx, func(q querier) error {
		all = map[string]state.Pause{}
		rows, err := q.Query(ctx, "SELECT source, paused, why FROM source_pauses")
		if err != nil {
			return err
		}
		var source string
		var p state.Pause
		_, err = pgx.ForEachRow(rows, []any{&source, &p.At, &p.Why}, func() error {
			p.At = p.At.UTC()
			all[source] = p
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read sources: %w", err)
	}
	return all, nil
}

// Keep implements [state.Sources].
func (b sources) Keep(ctx context.Context, records []state.SourceRecord) error {
	err := b.s.change(ctx, func(tx pgx.Tx) error {
		var batch pgx.Batch
		for _, r := range records {
			var whole *time.Time
			if r.Failures == 0 {
				whole = &r.At
			}
			batch.Queue(`INSERT INTO source_outcomes AS o VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (pipeline, source) DO UPDATE SET
				run = excluded.run, status = excluded.status, error = excluded.error, ended = excluded.ended,
				complete = greatest(o.complete, excluded.complete),
				failures = CASE WHEN excluded.failures = 0 THEN 0 WHEN o.run = excluded.run THEN greatest(o.failures, 1) ELSE o.failures + 1 END,
				silent = excluded.silent, written = excluded.written, requests = excluded.requests`,
				r.Pipeline, r.Source, r.Run, r.Status, clean(r.Error), r.At, whole, r.Failures, r.Silent, r.Rows, r.Requests)
		}
		batch.Queue("DELETE FROM source_outcomes WHERE ended < $1", state.OldOutcomes(records))
		return tx.SendBatch(ctx, &batch).Close()
	})
	if err != nil {
		return fmt.Errorf("write sources: outcomes: %w", err)
	}
	return nil
}

// Records implements [state.Sources].
func (b sources) Records(ctx context.Context, pipeline string) (all []state.SourceRecord, err error) {
	err = b.s.read(ctx, func(q querier) error {
		rows, err := q.Query(ctx, `SELECT pipeline, source, run, status, error, ended, complete, failures, silent, written, requests
			FROM source_outcomes WHERE $1 = '' OR pipeline = $1 ORDER BY pipeline COLLATE "C", source COLLATE "C"`, pipeline)
		if err == nil {
			all, err = pgx.CollectRows(rows, recordOf)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read sources: %w", err)
	}
	return all, nil
}

func recordOf(row pgx.CollectableRow) (r state.SourceRecord, err error) {
	var ended, complete *time.Time
	err = row.Scan(&r.Pipeline, &r.Source, &r.Run, &r.Status, &r.Error, &ended, &complete, &r.Failures, &r.Silent, &r.Rows, &r.Requests)
	r.At, r.Complete = timeOf(ended), timeOf(complete)
	return r, err
}
