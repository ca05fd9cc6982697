package state

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"
)

// unitColumns are what a unit is read from, in the order of scanUnit.
const unitColumns = `id, run, pipeline, source, part, state, attempt, broken, worker, not_before, started, ended, report`

// activeUnits are those that have not ended.
const activeUnits = `state IN ('waiting', 'running', 'parked')`

// AddUnits implements [Units].
func (j *JournalFile) AddUnits(ctx context.Context, units []Unit) (added []Unit, err error) {
	err = j.change(ctx, "add units", func(tx *sql.Tx) error {
		added = nil
		for _, u := range DistinctUnits(units) {
			one, err := scanUnits(tx.QueryContext(ctx, `INSERT INTO units (run, pipeline, source, part, state, not_before) VALUES (?, ?, ?, ?, 'waiting', ?)
				ON CONFLICT (pipeline, source, part) WHERE `+activeUnits+` DO UPDATE SET run = excluded.run WHERE run = excluded.run
				RETURNING `+unitColumns, u.Run, u.Pipeline, u.Source, u.Part, micros(u.NotBefore)))
			if err != nil {
				return err
			}
			added = append(added, one...)
		}
		return forgetUnits(ctx, tx, units)
	})
	return added, err
}

// forgetUnits takes out those that ended long ago. // Invariant 6
func forgetUnits(ctx context.Context, tx *sql.Tx, units []Unit) error {
	done := map[string]bool{}
	for _, u := range units {
		if done[u.Pipeline] {
			continue
		}
		done[u.Pipeline] = true
		_, err := tx.ExecContext(ctx, `DELETE FROM units WHERE pipeline = ?1 AND NOT `+activeUnits+` AND run <
			(SELECT run FROM (SELECT DISTINCT run FROM units WHERE pipeline = ?1 ORDER BY run DESC) LIMIT 1 OFFSET ?2)`, u.Pipeline, keptUnitRuns-1)
		if err != nil {
			return err
		}
	}
	return nil
}

// ClaimUnits implements [Units].
func (j *JournalFile) ClaimUnits(ctx context.Context, c Claim) (units []Unit, err error) {
	err = j.change(ctx, "claim units", func(tx *sql.Tx) error {
		units = nil
		now := time.Now()
		if err := reviveUnits(ctx, tx, now); err != nil {
			return err
		}
		const due = `state IN ('waiting', 'parked') AND not_before <= ?1`
		first, err := scanUnits(tx.QueryContext(ctx, `SELECT `+unitColumns+` FROM units WHERE `+due+` AND (broken >= ?6) = ?7
			AND (?2 = '' OR pipeline = ?2) AND (?3 = '' OR run = ?3) AND (?4 IS NULL OR source = ?4) AND (?5 = 0 OR id = ?5)
			ORDER BY not_before, broken, id LIMIT 1`, now.UnixMicro(), c.Pipeline, c.Run, c.Source, c.Unit, SuspectBroken, c.Suspect))
		if err != nil || len(first) == 0 {
			return err
		}
		u := first[0]
		if c.Suspect {
			c.Unit = u.ID
		}
		units, err = scanUnits(tx.QueryContext(ctx, `UPDATE units SET state = 'running', attempt = attempt + 1, worker = ?2, started = ?1, ended = 0, beat = ?3
			WHERE id IN (SELECT id FROM units WHERE `+due+` AND run = ?4 AND pipeline = ?5 AND source = ?6 AND (id = ?7 OR ?7 = 0 AND broken < ?9)
				ORDER BY id LIMIT ?8) RETURNING `+unitColumns,
			now.UnixMicro(), c.Worker, now.Add(c.For).UnixMicro(), u.Run, u.Pipeline, u.Source, c.Unit, orAll(c.Limit), SuspectBroken))
		return err
	})
	slices.SortFunc(units, func(a, b Unit) int { return cmp.Compare(a.ID, b.ID) })
	return units, err
}

// reviveUnits has units wait again whose worker has given no sign of life, or fail
// if that was so too often.
func reviveUnits(ctx context.Context, tx *sql.Tx, now time.Time) error {
	_, err := tx.ExecContext(ctx, `UPDATE units SET broken = broken + 1, not_before = 0,
		state = CASE WHEN broken + 1 < ?2 THEN 'waiting' ELSE 'failed' END, ended = CASE WHEN broken + 1 < ?2 THEN 0 ELSE ?1 END
		WHERE state = 'running' AND beat < ?1`, now.UnixMicro(), MostBroken)
	return err
}

// orAll is n as the LIMIT of a statement; 0 is none.
func orAll(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// BeatUnits implements [Units].
func (j *JournalFile) BeatUnits(ctx context.Context, worker string, ids []int64, d time.Duration) (kept []int64, err error) {
	err = j.change(ctx, "beat units", func(tx *sql.Tx) error {
		kept = nil
		for _, id := range ids {
			res, err := tx.ExecContext(ctx, `UPDATE units SET beat = ? WHERE id = ? AND worker = ? AND state = 'running'`,
				time.Now().Add(d).UnixMicro(), id, worker)
			if err != nil {
				return err
			}
			if n, err := res.RowsAffected(); err != nil {
				return err
			} else if n > 0 {
				kept = append(kept, id)
			}
		}
		return nil
	})
	return kept, err
}

// SettleUnit implements [Units].
func (j *JournalFile) SettleUnit(ctx context.Context, u Unit) error {
	return j.change(ctx, fmt.Sprintf("settle unit %d", u.ID), func(tx *sql.Tx) error {
		ended := int64(0)
		if u.State.Ended() {
			ended = time.Now().UnixMicro()
		}
		res, err := tx.ExecContext(ctx, `UPDATE units SET state = ?, broken = 0, not_before = ?, ended = ?, report = ? WHERE id = ? AND worker = ? AND attempt = ? AND state = 'running'`,
			u.State, micros(u.NotBefore), ended, blob(u.Report), u.ID, u.Worker, u.Attempt)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil {
			return err
		} else if n == 0 {
			return ErrTaken
		}
		return nil
	})
}

// CancelUnits implements [Units].
func (j *JournalFile) CancelUnits(ctx context.Context, run string) (n int, err error) {
	err = j.change(ctx, "cancel units", func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE units SET state = 'cancelled', ended = ? WHERE run = ? AND `+activeUnits, time.Now().UnixMicro(), run)
		if err != nil {
			return err
		}
		changed, err := res.RowsAffected()
		n = int(changed)
		return err
	})
	return n, err
}

// mostUnits is how many units one call returns where nothing else is said.
const mostUnits = 1000

// Units implements [Units].
func (j *JournalFile) Units(ctx context.Context, f UnitFilter) ([]Unit, error) {
	if f.Limit == 0 {
		f.Limit = mostUnits
	}
	units, err := scanUnits(j.file.read.QueryContext(ctx, `SELECT `+unitColumns+` FROM units
		WHERE (?1 = '' OR run = ?1) AND (?2 = '' OR pipeline = ?2) AND (?3 IS NULL OR source = ?3) AND (NOT ?4 OR `+activeUnits+`) AND id > ?5
		ORDER BY id LIMIT ?6`, f.Run, f.Pipeline, f.Source, f.Active, f.After, f.Limit))
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	return units, nil
}

func scanUnits(rows *sql.Rows, err error) (units []Unit, _ error) {
	if err != nil {
		return nil, err
	}
	err = eachOf(rows, func(scan func(...any) error) error {
		var u Unit
		var notBefore, started, ended int64
		var report []byte
		err := scan(&u.ID, &u.Run, &u.Pipeline, &u.Source, &u.Part, &u.State, &u.Attempt, &u.Broken, &u.Worker, &notBefore, &started, &ended, &report)
		u.NotBefore, u.Started, u.Ended = timeOf(notBefore), timeOf(started), timeOf(ended)
		if len(report) > 0 {
			u.Report = report
		}
		units = append(units, u)
		return err
	})
	return units, err
}
