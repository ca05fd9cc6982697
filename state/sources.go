package state

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"time"
)

// SourcesFile is the [Sources] of a state folder.
type SourcesFile struct{ file *sqliteFile }

var _ Sources = (*SourcesFile)(nil)

const sourcesName = "sources.db"

var sourcesSteps = []string{`
CREATE TABLE pauses (
	source TEXT PRIMARY KEY,
	at     INTEGER NOT NULL,
	why    TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE outcomes (
	pipeline TEXT NOT NULL,
	source   TEXT NOT NULL,
	run      TEXT NOT NULL,
	status   TEXT NOT NULL,
	error    TEXT NOT NULL,
	at       INTEGER NOT NULL,
	complete INTEGER NOT NULL,
	failures INTEGER NOT NULL,
	silent   INTEGER NOT NULL,
	written  INTEGER NOT NULL,
	requests INTEGER NOT NULL,
	PRIMARY KEY (pipeline, source)
) WITHOUT ROWID;
`, `
CREATE INDEX outcomes_by_age ON outcomes (at);
`}

const sourcesWait = 5 * time.Second

// OpenSources opens the sources file of a state folder, and creates it if it is missing. If another process has the
// file open for writing for more than a few seconds, OpenSources returns [ErrLocked], wrapped.
func OpenSources(ctx context.Context, dir string) (*SourcesFile, error) {
	f, err := openSQLite(ctx, filepath.Join(dir, sourcesName), sourcesWait, sourcesSteps)
	if err != nil {
		return nil, fmt.Errorf("open sources: %w", err)
	}
	return &SourcesFile{f}, nil
}

// ReadSources opens the sources file for reading. Other processes may be writing it. ReadSources returns
// [fs.ErrNotExist], wrapped, if there is no file.
func ReadSources(ctx context.Context, dir string) (*SourcesFile, error) {
	f, err := readSQLite(ctx, filepath.Join(dir, sourcesName), sourcesSteps)
	if err != nil {
		return nil, fmt.Errorf("open sources: %w", err)
	}
	return &SourcesFile{f}, nil
}

// Close implements [Sources].
func (s *SourcesFile) Close() error { return s.file.Close() }

// Pause implements [Sources].
func (s *SourcesFile) Pause(ctx context.Context, source string, p Pause) error {
	return s.change(ctx, "pause "+source, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `REPLACE INTO pauses VALUES (?, ?, ?)`, source, micros(p.At), p.Why)
		return err
	})
}

// Resume implements [Sources].
func (s *SourcesFile) Resume(ctx context.Context, source string) (wasPaused bool, err error) {
	err = s.change(ctx, "resume "+source, func(tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, `DELETE FROM pauses WHERE source = ?`, source)
		if err != nil {
			return err
		}
		n, err := r.RowsAffected()
		wasPaused = n > 0
		return err
	})
	return wasPaused, err
}

// Paused implements [Sources].
func (s *SourcesFile) Paused(ctx context.Context) (map[string]Pause, error) {
	rows, err := s.file.read.QueryContext(ctx, `SELECT source, at, why FROM pauses`)
	if err != nil {
		return nil, fmt.Errorf("read sources: %w", err)
	}
	defer rows.Close()
	all := map[string]Pause{}
	for rows.Next() {
		var source string
		var p Pause
		var at int64
		if err := rows.Scan(&source, &at, &p.Why); err != nil {
			return nil, fmt.Errorf("read sources: %w", err)
		}
		p.At = timeOf(at)
		all[source] = p
	}
	return all, rows.Err()
}

// Keep implements [Sources].
func (s *SourcesFile) Keep(ctx context.Context, records []SourceRecord) error {
	return s.change(ctx, "outcomes", func(tx *sql.Tx) error {
		put, err := tx.PrepareContext(ctx, `INSERT INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (pipeline, source) DO UPDATE SET
			run = excluded.run, status = excluded.status, error = excluded.error, at = excluded.at,
			complete = max(complete, excluded.complete), failures = CASE WHEN excluded.failures = 0 THEN 0 WHEN run = excluded.run THEN max(failures, 1) ELSE failures + 1 END,
			silent = excluded.silent, written = excluded.written, requests = excluded.requests`)
		if err != nil {
			return err
		}
		defer put.Close()
		for _, r := range records {
			whole := int64(0)
			if r.Failures == 0 {
				whole = micros(r.At)
			}
			_, err := put.ExecContext(ctx, r.Pipeline, r.Source, r.Run, r.Status, r.Error, micros(r.At), whole, r.Failures, r.Silent, r.Rows, r.Requests)
			if err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM outcomes WHERE at < ?`, OldOutcomes(records).UnixMicro())
		return err
	})
}

// Records implements [Sources].
func (s *SourcesFile) Records(ctx context.Context, pipeline string) ([]SourceRecord, error) {
	rows, err := s.file.read.QueryContext(ctx, `SELECT pipeline, source, run, status, error, at, complete, failures, silent, written, requests
		FROM outcomes WHERE ?1 = '' OR pipeline = ?1 ORDER BY pipeline, source`, pipeline)
	if err != nil {
		return nil, fmt.Errorf("read sources: %w", err)
	}
	defer rows.Close()
	var all []SourceRecord
	for rows.Next() {
		var r SourceRecord
		var at, complete int64
		if err := rows.Scan(&r.Pipeline, &r.Source, &r.Run, &r.Status, &r.Error, &at, &complete, &r.Failures, &r.Silent, &r.Rows, &r.Requests); err != nil {
			return nil, fmt.Errorf("read sources: %w", err)
		}
		r.At, r.Complete = timeOf(at), timeOf(complete)
		all = append(all, r)
	}
	return all, rows.Err()
}

func (s *SourcesFile) change(ctx context.Context, what string, do func(*sql.Tx) error) error {
	if err := s.file.change(ctx, do); err != nil {
		return fmt.Errorf("write sources: %s: %w", what, err)
	}
	return nil
}
