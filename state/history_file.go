package state

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"time"
)

// HistoryFile is the [History] of a state folder, for processes of one machine. Several processes may have it open and
// write it.
type HistoryFile struct{ file *sqliteFile }

var _ History = (*HistoryFile)(nil)

const historyName = "history.db"

// historySteps are the migrations. Times and durations are microseconds. The table has no second index: once a day, all
// rows are read, and all other queries use the primary key.
var historySteps = []string{`
CREATE TABLE points (
	pipeline   TEXT NOT NULL,
	source     TEXT NOT NULL,
	stream     TEXT NOT NULL,
	width      INTEGER NOT NULL,
	at         INTEGER NOT NULL,
	runs       INTEGER NOT NULL,
	incomplete INTEGER NOT NULL,
	took       INTEGER NOT NULL,
	longest    INTEGER NOT NULL,
	complete   INTEGER NOT NULL,
	fetched    INTEGER NOT NULL,
	written    INTEGER NOT NULL,
	deleted    INTEGER NOT NULL,
	rejected   INTEGER NOT NULL,
	requests   INTEGER NOT NULL,
	allowed    INTEGER NOT NULL,
	PRIMARY KEY (pipeline, source, stream, width, at)
) WITHOUT ROWID;
CREATE TABLE joined (day INTEGER NOT NULL); -- the last day on which hours were joined to days
INSERT INTO joined VALUES (0);
`}

const historyWait = 5 * time.Second

// OpenHistory opens the history of a state folder, and creates it if it is missing.
func OpenHistory(ctx context.Context, dir string) (*HistoryFile, error) {
	f, err := shareSQLite(ctx, filepath.Join(dir, historyName), historyWait, historySteps)
	if err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	return &HistoryFile{f}, nil
}

// ReadHistory opens the history for reading. It returns [fs.ErrNotExist], wrapped, if there is no file.
func ReadHistory(ctx context.Context, dir string) (*HistoryFile, error) {
	f, err := readSQLite(ctx, filepath.Join(dir, historyName), historySteps)
	if err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	return &HistoryFile{f}, nil
}

// Close implements [History].
func (h *HistoryFile) Close() error { return h.file.Close() }

// sumPoints adds a point to the point of the same series and time.
const sumPoints = ` ON CONFLICT DO UPDATE SET runs = runs + excluded.runs, incomplete = incomplete + excluded.incomplete,
	took = took + excluded.took, longest = max(longest, excluded.longest), complete = max(complete, excluded.complete),
	fetched = fetched + excluded.fetched, written = written + excluded.written, deleted = deleted + excluded.deleted,
	rejected = rejected + excluded.rejected, requests = requests + excluded.requests, allowed = allowed + excluded.allowed`

// Add implements [History]. If old hours cannot be joined, the points are stored nevertheless.
func (h *HistoryFile) Add(ctx context.Context, work []Work) error {
	points := Hours(work)
	if len(points) == 0 {
		return nil
	}
	today, due := Newest(points).Truncate(24*time.Hour), false
	err := h.file.change(ctx, func(tx *sql.Tx) error {
		put, err := tx.PrepareContext(ctx, `INSERT INTO points VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`+sumPoints)
		if err != nil {
			return err
		}
		defer put.Close()
		for _, p := range points {
			_, err := put.ExecContext(ctx, p.Pipeline, p.Source, p.Stream, p.Width.Microseconds(), micros(p.At), p.Runs, p.Incomplete, p.Took.Microseconds(),
				p.Longest.Microseconds(), micros(p.Complete), p.Fetched, p.Written, p.Deleted, p.Rejected, p.Requests, p.Allowed)
			if err != nil {
				return err
			}
		}
		return tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM joined WHERE day < ?)`, micros(today)).Scan(&due)
	})
	if err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	if !due {
		return nil
	}
	if err := h.file.change(ctx, func(tx *sql.Tx) error { return joinHours(ctx, tx, today) }); err != nil {
		return fmt.Errorf("join old hours of the history: %w", err)
	}
	return nil
}

// joinHours joins old hours to days, and deletes old days, at the first call of a day. // Invariant 6
func joinHours(ctx context.Context, tx *sql.Tx, today time.Time) error {
	r, err := tx.ExecContext(ctx, `UPDATE joined SET day = ?1 WHERE day < ?1`, micros(today))
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return err
	}
	const hour, day = int64(time.Hour / time.Microsecond), int64(24 * time.Hour / time.Microsecond)
	for _, step := range []struct {
		sql  string
		args []any
	}{
		{`INSERT INTO points SELECT pipeline, source, stream, ?1, at - at % ?1, sum(runs), sum(incomplete), sum(took), max(longest), max(complete),
			sum(fetched), sum(written), sum(deleted), sum(rejected), sum(requests), sum(allowed)
			FROM points WHERE width = ?2 AND at < ?3 GROUP BY pipeline, source, stream, at - at % ?1` + sumPoints, []any{day, hour, micros(today.Add(-HourAge))}},
		{`DELETE FROM points WHERE width = ? AND at < ?`, []any{hour, micros(today.Add(-HourAge))}},
		{`DELETE FROM points WHERE at < ?`, []any{micros(today.Add(-HistoryAge))}},
		{`DELETE FROM points WHERE at <= (SELECT at FROM points ORDER BY at DESC LIMIT 1 OFFSET ?)`, []any{KeptHistory}},
	} {
		if _, err := tx.ExecContext(ctx, step.sql, step.args...); err != nil {
			return err
		}
	}
	return nil
}

// Points implements [History].
func (h *HistoryFile) Points(ctx context.Context, of []Series, since time.Time) ([]Point, error) {
	all, err := h.points(ctx, of, since)
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	return all, nil
}

func (h *HistoryFile) points(ctx context.Context, of []Series, since time.Time) (all []Point, err error) {
	read, err := h.file.read.PrepareContext(ctx, pointsOf)
	if err != nil {
		return nil, err
	}
	defer read.Close()
	for _, s := range of {
		rows, err := read.QueryContext(ctx, s.Pipeline, s.Source, s.Stream, micros(since))
		if err != nil {
			return nil, err
		}
		if all, err = appendPoints(all, rows, s); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// pointsOf reads the points of a series. It names both widths, so that the primary key selects the points.
const pointsOf = `SELECT width, at, runs, incomplete, took, longest, complete, fetched, written, deleted, rejected, requests, allowed
	FROM points WHERE pipeline = ? AND source = ? AND stream = ? AND width IN (3600000000, 86400000000) AND at >= ? ORDER BY width, at`

func appendPoints(all []Point, rows *sql.Rows, of Series) ([]Point, error) {
	defer rows.Close()
	for rows.Next() {
		p := Point{Series: of}
		var width, at, took, longest, complete int64
		err := rows.Scan(&width, &at, &p.Runs, &p.Incomplete, &took, &longest, &complete, &p.Fetched, &p.Written, &p.Deleted, &p.Rejected, &p.Requests, &p.Allowed)
		if err != nil {
			return nil, err
		}
		p.Width, p.At, p.Complete = time.Duration(width)*time.Microsecond, timeOf(at), timeOf(complete)
		p.Took, p.Longest = time.Duration(took)*time.Microsecond, time.Duration(longest)*time.Microsecond
		all = append(all, p)
	}
	return all, rows.Err()
}
