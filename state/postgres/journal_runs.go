package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstock-data/penstock/state"
)

// journalReader reads the journal. It needs no entry in the table processes.
type journalReader struct{ journal }

// Close implements [state.JournalReader].
func (*journalReader) Close() error { return nil }

// ReadJournal implements [state.Store].
func (s *Store) ReadJournal(context.Context) (state.JournalReader, error) {
	return &journalReader{journal{s: s}}, nil
}

// KeepRun implements [state.RunStore].
func (j *journal) KeepRun(ctx context.Context, r state.RunRecord) error {
	return j.change(ctx, "run", func(tx pgx.Tx) error { return j.keepRun(ctx, tx, r, false) })
}

// BeginRun implements [state.RunStore].
func (j *journal) BeginRun(ctx context.Context, r state.RunRecord) error {
	return j.change(ctx, "run", func(tx pgx.Tx) error {
		if err := refuseRun(ctx, tx, r.Pipeline, r.Run); err != nil {
			return err
		}
		return j.keepRun(ctx, tx, r, false)
	})
}

func (j *journal) keepRun(ctx context.Context, tx pgx.Tx, r state.RunRecord, overwrite bool) error {
	log, err := json.Marshal(r.Log)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO runs VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
		ON CONFLICT (pipeline, run) DO UPDATE SET cause = excluded.cause, due = excluded.due, started = excluded.started, ended = excluded.ended,
			status = excluded.status, error = excluded.error, report = excluded.report, log = excluded.log, owner = excluded.owner
			WHERE $12 OR runs.owner = excluded.owner`,
		r.Pipeline, r.Run, r.Cause, nullTime(r.Due), nullTime(r.Started), nullTime(r.Ended), r.Status, short(r.Error), blob(r.Report), log, j.process, overwrite)
	if err == nil {
		// With an array, the server computes the list of runs to delete only once. With a subquery, it would compute
		// the list for each row if the table has no statistics.
		_, err = tx.Exec(ctx, `DELETE FROM runs WHERE pipeline = $1 AND run = ANY (ARRAY(SELECT run FROM (
			SELECT run, row_number() OVER newest AS place, sum(octet_length(report) + octet_length(log)) OVER newest AS size
			FROM runs WHERE pipeline = $1 WINDOW newest AS (ORDER BY run DESC)) r
			WHERE place > $2 OR size > $3 AND place > 1))`, r.Pipeline, state.KeptRuns, state.KeptRunBytes) // Invariant 6
	}
	return err
}

// BreakRuns implements [state.RunStore]. It changes only runs of dead processes.
func (j *journal) BreakRuns(ctx context.Context, reason string) error {
	return j.change(ctx, "runs", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE runs SET status = 'stopped', error = $1 WHERE status = 'running' AND "+orphaned, short(reason))
		return err
	})
}

// Runs implements [state.RunStore].
func (j *journal) Runs(ctx context.Context, pipeline, bound string, limit int) ([]state.RunRecord, error) {
	return j.runs(ctx, "'[]'::bytea", "($1 = '' OR pipeline = $1) AND ($2 = '' OR run < $2) ORDER BY run DESC LIMIT $3", pipeline, bound, limit)
}

// Run implements [state.RunStore].
func (j *journal) Run(ctx context.Context, run string) (state.RunRecord, bool, error) {
	all, err := j.runs(ctx, "log", "run = $1", run)
	if err != nil || len(all) == 0 {
		return state.RunRecord{}, false, err
	}
	return all[0], true, nil
}

func (j *journal) runs(ctx context.Context, log, where string, args ...any) (all []state.RunRecord, err error) {
	err = j.s.read(ctx, func(q querier) error {
		rows, err := q.Query(ctx, "SELECT pipeline, run, cause, due, started, ended, status, error, report, "+log+" FROM runs WHERE "+where, args...)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, runOf)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	return all, nil
}

func runOf(row pgx.CollectableRow) (r state.RunRecord, err error) {
	var due, started, ended *time.Time
	var report, log []byte
	if err := row.Scan(&r.Pipeline, &r.Run, &r.Cause, &due, &started, &ended, &r.Status, &r.Error, &report, &log); err != nil {
		return r, err
	}
	r.Due, r.Started, r.Ended = timeOf(due), timeOf(started), timeOf(ended)
	if len(report) > 0 {
		r.Report = report
	}
	return r, json.Unmarshal(log, &r.Log)
}
