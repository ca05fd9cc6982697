package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

// RunRecord is the journal's record of a run. It is only for display: the tables of each destination say what was
// loaded.
type RunRecord struct {
	Pipeline string
	Run      string
	Cause    string    // what started the run
	Due      time.Time // time of the slot; zero: the run has no slot
	Started  time.Time
	Ended    time.Time // zero: running, or the process ended during the run
	Status   string
	Error    string          // why the run as a whole failed; errors of streams are in Report
	Report   json.RawMessage // as printed by `penstock sync --json`; nil if there is none
	Log      []LogLine
}

// LogLine is one log entry of a run.
type LogLine struct {
	At     time.Time `json:"at"`
	Level  string    `json:"level"`            // info, warn or error
	Source string    `json:"source,omitempty"` // source of the stream, if the run has several sources
	Stream string    `json:"stream,omitempty"`
	Text   string    `json:"text"`
}

// KeepRun records a run or its outcome. If the pipeline has too many runs, or if their reports and logs take too much
// space, it deletes the oldest runs. It never deletes the last run.
func (j *JournalFile) KeepRun(ctx context.Context, r RunRecord) error {
	return j.change(ctx, "run", func(tx *sql.Tx) error { return j.keepRun(ctx, tx, r) })
}

// BeginRun implements [RunStore]. It needs no check for runs of other processes, because only this process has the file
// open.
func (j *JournalFile) BeginRun(ctx context.Context, r RunRecord) error { return j.KeepRun(ctx, r) }

func (j *JournalFile) keepRun(ctx context.Context, tx *sql.Tx, r RunRecord) error {
	log, err := json.Marshal(r.Log)
	if err != nil {
		return err
	}
	report := []byte(r.Report)
	if report == nil {
		report = []byte{}
	}
	_, err = tx.ExecContext(ctx, `REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.Pipeline, r.Run, r.Cause, micros(r.Due), micros(r.Started), micros(r.Ended), r.Status, Truncated(r.Error), report, log)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM runs WHERE pipeline = ?1 AND run IN (SELECT run FROM (
		SELECT run, row_number() OVER newest AS place, sum(length(report) + length(log)) OVER newest AS size
		FROM runs WHERE pipeline = ?1 WINDOW newest AS (ORDER BY run DESC))
		WHERE place > ?2 OR size > ?3 AND place > 1)`, r.Pipeline, KeptRuns, j.runBytes)
	return err
}

// BreakRuns marks the running runs as stopped. The caller must know that their process has ended.
func (j *JournalFile) BreakRuns(ctx context.Context, reason string) error {
	return j.change(ctx, "runs", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE runs SET status = 'stopped', error = ? WHERE status = 'running'`, Truncated(reason))
		return err
	})
}

// Runs returns the last runs of a pipeline, newest first and without their logs. If pipeline is "", it returns runs of
// all pipelines. If bound is the id of a run, Runs returns only older runs. If bound is "", it begins with the newest
// run.
func (j *JournalFile) Runs(ctx context.Context, pipeline, bound string, limit int) ([]RunRecord, error) {
	return j.runs(ctx, `'[]'`, `WHERE (?1 = '' OR pipeline = ?1) AND (?2 = '' OR run < ?2) ORDER BY run DESC LIMIT ?3`, pipeline, bound, limit)
}

// Run returns one run with its log, or false if the journal does not have it.
func (j *JournalFile) Run(ctx context.Context, run string) (RunRecord, bool, error) {
	all, err := j.runs(ctx, `log`, `WHERE run = ?`, run)
	if err != nil || len(all) == 0 {
		return RunRecord{}, false, err
	}
	return all[0], true, nil
}

func (j *JournalFile) runs(ctx context.Context, log, where string, args ...any) ([]RunRecord, error) {
	rows, err := j.file.read.QueryContext(ctx, `SELECT pipeline, run, cause, due, started, ended, status, error, report, `+log+` FROM runs `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	defer rows.Close()
	var all []RunRecord
	for rows.Next() {
		var r RunRecord
		var due, started, ended int64
		var report, lines []byte
		if err := rows.Scan(&r.Pipeline, &r.Run, &r.Cause, &due, &started, &ended, &r.Status, &r.Error, &report, &lines); err != nil {
			return nil, fmt.Errorf("read journal: %w", err)
		}
		if err := json.Unmarshal(lines, &r.Log); err != nil {
			return nil, fmt.Errorf("read journal: log of run %s: %w", r.Run, err)
		}
		r.Due, r.Started, r.Ended = timeOf(due), timeOf(started), timeOf(ended)
		if len(report) > 0 {
			r.Report = report
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	return all, nil
}
