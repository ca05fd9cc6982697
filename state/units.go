package state

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// UnitsFile is the [UnitStore] of a state folder, for processes of one machine. Several processes may have it open
// and write it.
type UnitsFile struct{ file *sqliteFile }

const unitsName = "units.db"

// unitsSteps are the migrations. Times are microseconds since 1970.
var unitsSteps = []string{`
CREATE TABLE units (
	id         INTEGER PRIMARY KEY AUTOINCREMENT,
	run        TEXT NOT NULL,
	pipeline   TEXT NOT NULL,
	source     TEXT NOT NULL,
	part       TEXT NOT NULL,
	state      TEXT NOT NULL,
	attempt    INTEGER NOT NULL DEFAULT 0,
	broken     INTEGER NOT NULL DEFAULT 0,
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
ALTER TABLE units ADD COLUMN planned INTEGER NOT NULL DEFAULT 0;
`}

const unitsWait = 5 * time.Second

// OpenUnits opens the units file of a state folder, and creates it if it is missing.
func OpenUnits(ctx context.Context, dir string) (*UnitsFile, error) {
	f, err := shareSQLite(ctx, filepath.Join(dir, unitsName), unitsWait, unitsSteps)
	if err != nil {
		return nil, fmt.Errorf("open units: %w", err)
	}
	return &UnitsFile{f}, nil
}

// ReadUnits opens the units file for reading. It returns [fs.ErrNotExist], wrapped, if there is no file.
func ReadUnits(ctx context.Context, dir string) (*UnitsFile, error) {
	f, err := readSQLite(ctx, filepath.Join(dir, unitsName), unitsSteps)
	if err != nil {
		return nil, fmt.Errorf("open units: %w", err)
	}
	return &UnitsFile{f}, nil
}

// Close implements [UnitStore].
func (l *UnitsFile) Close() error { return l.file.Close() }

func (l *UnitsFile) change(ctx context.Context, what string, do func(*sql.Tx) error) error {
	if err := l.file.change(ctx, do); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// unitColumns are the columns that scanUnits reads, in its order.
const unitColumns = `id, run, pipeline, source, part, planned, state, attempt, broken, worker, not_before, started, ended, report`

// activeUnits is the condition that a unit has not ended.
const activeUnits = `state IN ('waiting', 'running', 'parked')`

// AddUnits implements [Units].
func (l *UnitsFile) AddUnits(ctx context.Context, units []Unit) (added []Unit, err error) {
	err = l.change(ctx, "add units", func(tx *sql.Tx) error {
		added = nil
		begun, err := newRuns(ctx, tx, units)
		if err != nil {
			return err
		}
		for _, u := range DistinctUnits(units) {
			one, err := scanUnits(tx.QueryContext(ctx, `INSERT INTO units (run, pipeline, source, part, planned, state, not_before) VALUES (?, ?, ?, ?, ?, 'waiting', ?)
				ON CONFLICT (pipeline, source, part) WHERE `+activeUnits+` DO UPDATE SET run = excluded.run WHERE run = excluded.run
				RETURNING `+unitColumns, u.Run, u.Pipeline, u.Source, u.Part, u.Planned, micros(u.NotBefore)))
			if err != nil {
				return err
			}
			if len(one) == 0 {
				var run string
				err := tx.QueryRowContext(ctx, "SELECT run FROM units WHERE pipeline = ? AND source = ? AND part = ? AND "+activeUnits, u.Pipeline, u.Source, u.Part).Scan(&run)
				return errors.Join(fmt.Errorf("%w: %s", ErrUnderWay, run), err) // Invariant 14
			}
			added = append(added, one...)
		}
		return forgetUnits(ctx, tx, begun)
	})
	if err != nil {
		return nil, err
	}
	return added, nil
}

// forgetUnits deletes ended units of old runs. It does this only for the given pipelines, which have just begun a run:
// see [KeptUnits]. // Invariant 6
func forgetUnits(ctx context.Context, tx *sql.Tx, begun []string) error {
	for _, p := range begun {
		_, err := tx.ExecContext(ctx, `DELETE FROM units WHERE pipeline = ?1 AND NOT `+activeUnits+` AND run NOT IN (SELECT run FROM units WHERE pipeline = ?1 AND `+activeUnits+`) AND run < (SELECT min(run) FROM
			(SELECT run, row_number() OVER last AS n, sum(count(*)) OVER last AS total FROM units WHERE pipeline = ?1 GROUP BY run WINDOW last AS (ORDER BY run DESC))
			WHERE n = 1 OR n <= ?2 AND total <= ?3)`, p, KeptUnitRuns, KeptUnits)
		if err != nil {
			return err
		}
	}
	return nil
}

func newRuns(ctx context.Context, tx *sql.Tx, units []Unit) (begun []string, err error) {
	looked := map[string]bool{}
	for _, u := range units {
		if looked[u.Pipeline] {
			continue
		}
		looked[u.Pipeline] = true
		var there bool
		if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM units WHERE pipeline = ? AND run = ?)`, u.Pipeline, u.Run).Scan(&there); err != nil {
			return nil, err
		}
		if !there {
			begun = append(begun, u.Pipeline)
		}
	}
	return begun, nil
}

// ClaimUnits implements [Units].
func (l *UnitsFile) ClaimUnits(ctx context.Context, c Claim) (units []Unit, err error) {
	err = l.change(ctx, "claim units", func(tx *sql.Tx) error {
		units = nil
		now := time.Now()
		if err := reviveUnits(ctx, tx, now); err != nil {
			return err
		}
		due := `state IN ('waiting', 'parked')`
		if !c.Early {
			due += ` AND not_before <= ?1`
		}
		first, err := scanUnits(tx.QueryContext(ctx, `SELECT `+unitColumns+` FROM units WHERE `+due+` AND (broken >= ?6) = ?7
			AND (?2 = '' OR pipeline = ?2) AND (?3 = '' OR run = ?3) AND (?4 IS NULL OR source = ?4) AND (?5 = 0 OR id = ?5)
			ORDER BY not_before, broken, id LIMIT 1`, now.UnixMicro(), c.Pipeline, c.Run, c.Source, c.Unit, SuspectBroken, c.Suspect))
		if err != nil || len(first) == 0 {
			return err
		}
		u := first[0]
		limit, least, most := orAll(c.Limit), 0, SuspectBroken-1
		if c.Suspect {
			limit, least, most = SuspectsTogether(u.Broken), u.Broken, u.Broken
		}
		units, err = scanUnits(tx.QueryContext(ctx, `UPDATE units SET state = 'running', attempt = attempt + 1, worker = ?2, started = ?1, ended = 0, beat = ?3
			WHERE id IN (SELECT id FROM units WHERE `+due+` AND run = ?4 AND pipeline = ?5 AND source = ?6 AND (?7 = 0 OR id = ?7) AND broken BETWEEN ?9 AND ?10
				ORDER BY id LIMIT ?8) RETURNING `+unitColumns,
			now.UnixMicro(), c.Worker, now.Add(c.For).UnixMicro(), u.Run, u.Pipeline, u.Source, c.Unit, limit, least, most))
		return err
	})
	slices.SortFunc(units, func(a, b Unit) int { return cmp.Compare(a.ID, b.ID) })
	return units, err
}

// reviveUnits releases running units whose claims have expired. They wait again. If this has happened to a unit
// [MostBroken] times in a row, the unit fails instead.
func reviveUnits(ctx context.Context, tx *sql.Tx, now time.Time) error {
	_, err := tx.ExecContext(ctx, `UPDATE units SET broken = broken + 1, not_before = 0,
		state = CASE WHEN broken + 1 < ?2 THEN 'waiting' ELSE 'failed' END, ended = CASE WHEN broken + 1 < ?2 THEN 0 ELSE ?1 END
		WHERE state = 'running' AND beat < ?1`, now.UnixMicro(), MostBroken)
	return err
}

// orAll returns n as the value of LIMIT. If n is 0, there is no limit.
func orAll(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// ExtendClaims implements [Units].
func (l *UnitsFile) ExtendClaims(ctx context.Context, worker string, ids []int64, d time.Duration) (kept []int64, err error) {
	err = l.change(ctx, "extend claims of units", func(tx *sql.Tx) error {
		kept = nil
		for _, id := range ids {
			n, err := changed(tx.ExecContext(ctx, `UPDATE units SET beat = ? WHERE id = ? AND worker = ? AND state = 'running'`,
				time.Now().Add(d).UnixMicro(), id, worker))
			if err != nil {
				return err
			}
			if n > 0 {
				kept = append(kept, id)
			}
		}
		return nil
	})
	return kept, err
}

// EndAttempts implements [Units].
func (l *UnitsFile) EndAttempts(ctx context.Context, units []Unit) error {
	taken := 0
	err := l.change(ctx, "end attempts at units", func(tx *sql.Tx) error {
		taken = 0
		for _, u := range units {
			ended := int64(0)
			if u.State.Ended() {
				ended = time.Now().UnixMicro()
			}
			n, err := changed(tx.ExecContext(ctx, `UPDATE units SET state = ?, broken = 0, not_before = ?, ended = ?, report = ?
				WHERE id = ? AND worker = ? AND attempt = ? AND state = 'running'`, u.State, micros(u.NotBefore), ended, blob(u.Report), u.ID, u.Worker, u.Attempt))
			if err != nil {
				return err
			}
			if n == 0 {
				taken++
			}
		}
		return nil
	})
	if err == nil && taken > 0 {
		err = fmt.Errorf("end attempts at units: for %d of %d units: the unit %w", taken, len(units), ErrTaken)
	}
	return err
}

func changed(r sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := r.RowsAffected()
	return int(n), err
}

// ofFilter is the condition that a unit matches a [UnitFilter]. Its parameters are the result of UnitFilter.values.
const ofFilter = `(?1 = '' OR run = ?1) AND (?2 = '' OR pipeline = ?2) AND (?3 IS NULL OR source = ?3) AND (NOT ?4 OR ` + activeUnits + `) AND id > ?5`

func (f UnitFilter) values() []any { return []any{f.Run, f.Pipeline, f.Source, f.Active, f.After} }

// CancelUnits implements [Units].
func (l *UnitsFile) CancelUnits(ctx context.Context, f UnitFilter) (n int, err error) {
	f.Active = true
	err = l.change(ctx, "cancel units", func(tx *sql.Tx) error {
		var err error
		n, err = changed(tx.ExecContext(ctx, `UPDATE units SET state = 'cancelled', ended = ?6 WHERE `+ofFilter, append(f.values(), time.Now().UnixMicro())...))
		return err
	})
	return n, err
}

const mostUnits = 1000

// Units implements [Units].
func (l *UnitsFile) Units(ctx context.Context, f UnitFilter) ([]Unit, error) {
	if f.Limit == 0 {
		f.Limit = mostUnits
	}
	units, err := scanUnits(l.file.read.QueryContext(ctx, `SELECT `+unitColumns+` FROM units WHERE `+ofFilter+` ORDER BY id LIMIT ?6`, append(f.values(), f.Limit)...))
	if err != nil {
		return nil, fmt.Errorf("read units: %w", err)
	}
	return units, nil
}

func scanUnits(rows *sql.Rows, err error) (units []Unit, _ error) {
	if err != nil {
		return nil, err
	}
	err = forEachRow(rows, func(scan func(...any) error) error {
		var u Unit
		var notBefore, started, ended int64
		var report []byte
		err := scan(&u.ID, &u.Run, &u.Pipeline, &u.Source, &u.Part, &u.Planned, &u.State, &u.Attempt, &u.Broken, &u.Worker, &notBefore, &started, &ended, &report)
		u.NotBefore, u.Started, u.Ended = timeOf(notBefore), timeOf(started), timeOf(ended)
		if len(report) > 0 {
			u.Report = report
		}
		units = append(units, u)
		return err
	})
	return units, err
}
