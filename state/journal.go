package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// JournalFile records due slots and their outcomes, paused pipelines, and the reports of the last runs. The daemon
// writes it. The journal has exactly one record for each slot of a schedule. It does not decide where a stream
// continues: only the destinations know what was loaded. When a call returns, its changes are synced to the disk.
//
// A JournalFile is a file in the state folder. One process writes it, and others can read it at the same time. A
// JournalFile is safe for concurrent use.
type JournalFile struct {
	file     *sqliteFile
	runBytes int // KeptRunBytes, or less in tests
}

const journalName = "journal.db"

// Limits of a journal, per pipeline. The last run is always kept. // Invariant 6
const (
	KeptSlots    = 5_000
	KeptRuns     = 500
	KeptRunBytes = 64 << 20 // bytes of reports and logs
)

const (
	maxText   = 4 << 10  // bytes of one reason or error
	maxObject = 66 << 10 // bytes of the object of an action: a statement of 64 KiB with the name of its destination
)

// Truncated returns a reason or an error as a journal stores it. It cuts off the end of a long text. // Invariant 6
func Truncated(text string) string { return truncated(text, maxText) }

// TruncatedObject returns the object of an action as a journal stores it. It keeps the largest statement that a visitor
// of the dashboard can run. // Invariant 6
func TruncatedObject(text string) string { return truncated(text, maxObject) }

func truncated(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// journalSteps are the migrations. Times are microseconds since 1970. The last step gives row numbers (ROWID) to the
// table of runs. Without them, SQLite would have to read a whole run with its large report, only to compare the key of
// the run.
var journalSteps = []string{`
CREATE TABLE pipelines (
	name     TEXT PRIMARY KEY,
	schedule TEXT NOT NULL,
	seen     INTEGER NOT NULL,
	paused   INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE slots (
	pipeline TEXT NOT NULL,
	due      INTEGER NOT NULL,
	state    TEXT NOT NULL,
	why      TEXT NOT NULL,
	cause    TEXT NOT NULL,
	run      TEXT NOT NULL,
	status   TEXT NOT NULL,
	started  INTEGER NOT NULL,
	ended    INTEGER NOT NULL,
	attempts INTEGER NOT NULL,
	broken   INTEGER NOT NULL,
	count    INTEGER NOT NULL,
	PRIMARY KEY (pipeline, due)
) WITHOUT ROWID;
CREATE INDEX slots_open ON slots (pipeline, state) WHERE state IN ('waiting', 'running');
CREATE TABLE runs (
	pipeline TEXT NOT NULL,
	run      TEXT NOT NULL,
	cause    TEXT NOT NULL,
	due      INTEGER NOT NULL,
	started  INTEGER NOT NULL,
	ended    INTEGER NOT NULL,
	status   TEXT NOT NULL,
	error    TEXT NOT NULL,
	report   BLOB NOT NULL,
	log      BLOB NOT NULL,
	PRIMARY KEY (pipeline, run)
) WITHOUT ROWID;
CREATE INDEX runs_by_run ON runs (run);
`, `
CREATE TABLE units (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	run        TEXT NOT NULL,
	pipeline   TEXT NOT NULL,
	source     TEXT NOT NULL,
	part       TEXT NOT NULL,
	state      TEXT NOT NULL,
	attempt    INTEGER NOT NULL DEFAULT 0,
	worker     TEXT NOT NULL DEFAULT '',
	not_before INTEGER NOT NULL,
	started    INTEGER NOT NULL DEFAULT 0,
	ended      INTEGER NOT NULL DEFAULT 0,
	beat       INTEGER NOT NULL DEFAULT 0, -- end of its worker's claim
	report     BLOB NOT NULL DEFAULT x''
);
CREATE UNIQUE INDEX units_active ON units (pipeline, source, part) WHERE state IN ('waiting', 'running', 'parked');
CREATE INDEX units_by_run ON units (pipeline, run);
`, `
ALTER TABLE units ADD COLUMN broken INTEGER NOT NULL DEFAULT 0;
`, `
DROP TABLE units;
`, `
CREATE TABLE audit (
	id      INTEGER PRIMARY KEY AUTOINCREMENT,
	at      INTEGER NOT NULL,
	who     TEXT NOT NULL,
	what    TEXT NOT NULL,
	object  TEXT NOT NULL,
	address TEXT NOT NULL,
	outcome TEXT NOT NULL,
	refused INTEGER NOT NULL
);
CREATE INDEX audit_refused ON audit (refused, id);
`, `
CREATE TABLE keyed (
	pipeline TEXT NOT NULL,
	run      TEXT NOT NULL,
	cause    TEXT NOT NULL,
	due      INTEGER NOT NULL,
	started  INTEGER NOT NULL,
	ended    INTEGER NOT NULL,
	status   TEXT NOT NULL,
	error    TEXT NOT NULL,
	report   BLOB NOT NULL,
	log      BLOB NOT NULL,
	PRIMARY KEY (pipeline, run)
);
INSERT INTO keyed SELECT * FROM runs;
DROP TABLE runs;
ALTER TABLE keyed RENAME TO runs;
CREATE INDEX runs_by_run ON runs (run);
`} // one step drops the table of units, because units have their own file: see [UnitsFile]

// lastGasp is how long to wait until the files of a killed process are free. The system releases them only after it has
// freed the memory of the process.
const lastGasp = 3 * time.Second

// OpenJournal opens the journal of a state folder, and creates it if it is missing. It returns [ErrLocked], wrapped,
// while another process writes it.
func OpenJournal(ctx context.Context, dir string) (*JournalFile, error) {
	f, err := openSQLite(ctx, filepath.Join(dir, journalName), lastGasp, journalSteps)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return &JournalFile{f, KeptRunBytes}, nil
}

// ReadJournal opens the journal of a state folder for reading. Another process may be writing it. ReadJournal returns
// [fs.ErrNotExist], wrapped, if there is no journal.
func ReadJournal(ctx context.Context, dir string) (*JournalFile, error) {
	f, err := readSQLite(ctx, filepath.Join(dir, journalName), journalSteps)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return &JournalFile{f, KeptRunBytes}, nil
}

// Close closes the journal.
func (j *JournalFile) Close() error { return j.file.Close() }

// Seen returns the time up to which the slots of a pipeline were recorded. If the pipeline or its schedule is new, it
// has no earlier slots. Then Seen records the current time and returns it.
func (j *JournalFile) Seen(ctx context.Context, pipeline, schedule string, now time.Time) (time.Time, error) {
	var had string
	var seen int64
	err := j.change(ctx, "begin schedule", func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `SELECT schedule, seen FROM pipelines WHERE name = ?`, pipeline).Scan(&had, &seen)
		if err == nil && had == schedule {
			return nil
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		seen = micros(now)
		_, err = tx.ExecContext(ctx, `INSERT INTO pipelines (name, schedule, seen) VALUES (?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET schedule = excluded.schedule, seen = excluded.seen`, pipeline, schedule, seen)
		return err
	})
	return timeOf(seen), err
}

// Pause records that the slots of the pipeline are skipped from the given time on. If that time is zero, Pause ends the
// pause.
func (j *JournalFile) Pause(ctx context.Context, pipeline string, start time.Time) error {
	return j.change(ctx, "pause", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE pipelines SET paused = ? WHERE name = ?`, micros(start), pipeline)
		return err
	})
}

// Paused returns the time since which a pipeline is paused, or the zero time.
func (j *JournalFile) Paused(ctx context.Context, pipeline string) (time.Time, error) {
	var at int64
	err := j.file.read.QueryRowContext(ctx, `SELECT paused FROM pipelines WHERE name = ?`, pipeline).Scan(&at)
	if err == sql.ErrNoRows {
		err = nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read journal: %w", err)
	}
	return timeOf(at), nil
}

func (j *JournalFile) change(ctx context.Context, what string, do func(*sql.Tx) error) error {
	if err := j.file.change(ctx, do); err != nil {
		return fmt.Errorf("write journal: %s: %w", what, err)
	}
	return nil
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func timeOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
