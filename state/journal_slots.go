package state

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// SlotState is the state of a [SlotRecord].
type SlotState string

// States of a slot.
const (
	SlotWaiting SlotState = "waiting" // the run must start, or was interrupted and must continue
	SlotRunning SlotState = "running" // its run is in progress, or the process ended during the run
	SlotRan     SlotState = "ran"
	SlotSkipped SlotState = "skipped"
)

// SlotRecord is the record of one time at which a pipeline was due. Each such time has exactly one record, even after
// crashes and changes of the clock. // Invariant 18
type SlotRecord struct {
	Pipeline string
	Due      time.Time
	State    SlotState
	Why      string // why the slot was skipped, or what went wrong in its run
	Cause    string // a word or two: what started the run, or why the slot was skipped
	Run      string // id of the run; the last run, if there were several
	Status   string // status of the run
	Started  time.Time
	Ended    time.Time
	Attempts int // number of runs
	Broken   int // number of runs during which the process ended
	Count    int // number of slots that the record covers; more than 1 if many slots were missed

	Patient bool // if a run is in progress, the slot waits (true), or AddSlots skips it (false); not stored
}

// Causes of slots that AddSlots itself skips.
const (
	CausePaused  = "paused"     // a person has paused the schedule
	CauseOverlap = "still busy" // an earlier run of the pipeline has not ended
)

// OverlapReason says why a slot with the cause CauseOverlap was skipped.
func OverlapReason(run string) string { return "run " + run + " was still in progress" }

// AddSlots records the slots that are not recorded yet, and returns them. It adds all of them or none. From then on,
// [JournalFile.Seen] returns the time seenUntil. If there are too many records, AddSlots deletes the oldest slots. It
// never deletes a slot that is waiting or running.
func (j *JournalFile) AddSlots(ctx context.Context, pipeline string, seenUntil time.Time, slots []SlotRecord) (added []SlotRecord, err error) {
	err = j.change(ctx, "slots", func(tx *sql.Tx) error {
		added = nil
		for _, s := range slots {
			s.Pipeline, s.Count = pipeline, max(1, s.Count)
			res, err := tx.ExecContext(ctx, `INSERT INTO slots VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, s.values()...)
			if err != nil {
				return err
			}
			if n, err := res.RowsAffected(); err != nil {
				return err
			} else if n > 0 {
				added = append(added, s)
			}
		}
		if _, err := tx.ExecContext(ctx, `UPDATE pipelines SET seen = ? WHERE name = ?`, micros(seenUntil), pipeline); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM slots WHERE pipeline = ?1 AND state IN ('ran', 'skipped') AND due <
			(SELECT due FROM slots WHERE pipeline = ?1 ORDER BY due DESC LIMIT 1 OFFSET ?2)`, pipeline, KeptSlots-1)
		return err
	})
	return added, err
}

// SetSlot implements [SlotStore]. It needs no check for runs of other processes, because only this process has the file
// open.
func (j *JournalFile) SetSlot(ctx context.Context, s SlotRecord, runs ...RunRecord) error {
	return j.change(ctx, "slot", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `REPLACE INTO slots VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, s.values()...)
		for i := 0; err == nil && i < len(runs); i++ {
			err = j.keepRun(ctx, tx, runs[i])
		}
		return err
	})
}

// OpenSlots returns the waiting and running slots of a pipeline, oldest first.
func (j *JournalFile) OpenSlots(ctx context.Context, pipeline string) ([]SlotRecord, error) {
	return j.slots(ctx, `WHERE pipeline = ? AND state IN ('waiting', 'running') ORDER BY due`, pipeline)
}

// Orphans implements [SlotStore]. It returns no slots, because no other process can have the file open.
func (j *JournalFile) Orphans(context.Context, string) ([]SlotRecord, error) { return nil, nil }

// Slots returns the last records of a pipeline, newest first.
func (j *JournalFile) Slots(ctx context.Context, pipeline string, limit int) ([]SlotRecord, error) {
	return j.slots(ctx, `WHERE pipeline = ? ORDER BY due DESC LIMIT ?`, pipeline, limit)
}

func (j *JournalFile) slots(ctx context.Context, where string, args ...any) ([]SlotRecord, error) {
	rows, err := j.file.read.QueryContext(ctx, `SELECT * FROM slots `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	defer rows.Close()
	var all []SlotRecord
	for rows.Next() {
		var s SlotRecord
		var due, started, ended int64
		if err := rows.Scan(&s.Pipeline, &due, &s.State, &s.Why, &s.Cause, &s.Run, &s.Status, &started, &ended, &s.Attempts, &s.Broken, &s.Count); err != nil {
			return nil, fmt.Errorf("read journal: %w", err)
		}
		s.Due, s.Started, s.Ended = timeOf(due), timeOf(started), timeOf(ended)
		all = append(all, s)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	return all, nil
}

func (s SlotRecord) values() []any {
	return []any{s.Pipeline, micros(s.Due), s.State, Truncated(s.Why), s.Cause, s.Run, s.Status, micros(s.Started), micros(s.Ended), s.Attempts, s.Broken, s.Count}
}
