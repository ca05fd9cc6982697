package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstock-data/penstock/state"
)

const slotColumns = "pipeline, due, state, why, cause, run, status, started, ended, attempts, broken, count"

func nonce() string { return rand.Text()[:16] }

// AddSlots implements [state.SlotStore]. If several processes add the same slot, only one of them gets it. If any
// process has paused the pipeline, the slot is skipped. // Invariant 18
func (j *journal) AddSlots(ctx context.Context, pipeline string, seenUntil time.Time, slots []state.SlotRecord) (added []state.SlotRecord, err error) {
	call := nonce()
	err = j.change(ctx, "slots", func(tx pgx.Tx) error {
		added = nil
		var paused bool
		if err := tx.QueryRow(ctx, "SELECT coalesce((SELECT paused IS NOT NULL FROM pipelines WHERE name = $1 FOR UPDATE), false)", pipeline).Scan(&paused); err != nil {
			return err
		}
		if err := lockRuns(ctx, tx, pipeline); err != nil {
			return err
		}
		busy, err := slotRun(ctx, tx, pipeline)
		if err != nil {
			return err
		}
		for _, s := range slots {
			s.Pipeline, s.Count = pipeline, max(1, s.Count)
			switch {
			case s.State != state.SlotWaiting:
			case paused:
				s.State, s.Cause, s.Why = state.SlotSkipped, state.CausePaused, "paused"
			case busy != "" && !s.Patient:
				s.State, s.Cause, s.Why = state.SlotSkipped, state.CauseOverlap, state.OverlapReason(busy)
			}
			args := append(values(s), j.process, call)
			// If the answer to a commit was lost, this function is called a second time, and finds the slots that its
			// first call has already added. These slots have the id of this call in the column `call`, so they are
			// returned too.
			tag, err := tx.Exec(ctx, `INSERT INTO slots VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
				ON CONFLICT (pipeline, due) DO UPDATE SET call = excluded.call WHERE slots.call = excluded.call`, args...)
			if err != nil {
				return err
			}
			if tag.RowsAffected() > 0 {
				added = append(added, s)
			}
		}
		if _, err = tx.Exec(ctx, "UPDATE pipelines SET seen = greatest(seen, $1) WHERE name = $2", seenUntil, pipeline); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM slots WHERE pipeline = $1 AND state IN ('ran', 'skipped') AND due <
			(SELECT due FROM slots WHERE pipeline = $1 ORDER BY due DESC LIMIT 1 OFFSET $2)`, pipeline, state.KeptSlots-1)
		return err
	})
	return added, err
}

// SetSlot implements [state.SlotStore]. If another process has taken over the slot, SetSlot records nothing and
// returns [state.ErrTaken], wrapped.
func (j *journal) SetSlot(ctx context.Context, s state.SlotRecord, runs ...state.RunRecord) error {
	return j.change(ctx, "slot", func(tx pgx.Tx) error {
		if s.State == state.SlotRunning {
			err := refuseRun(ctx, tx, s.Pipeline, s.Run)
			if err == nil {
				err = refuseEarly(ctx, tx, s)
			}
			if err != nil {
				return err
			}
		}
		tag, err := tx.Exec(ctx, `UPDATE slots SET state = $3, why = $4, cause = $5, run = $6, status = $7, started = $8, ended = $9, attempts = $10, broken = $11, count = $12
			WHERE pipeline = $1 AND due = $2 AND owner = $13`, append(values(s), j.process)...)
		if err == nil && tag.RowsAffected() == 0 {
			err = state.ErrTaken
		}
		for i := 0; err == nil && i < len(runs); i++ {
			err = j.keepRun(ctx, tx, runs[i], true)
		}
		return err
	})
}

// OpenSlots implements [state.SlotStore]. It returns this process's own slots, and takes over the slots of dead
// processes.
func (j *journal) OpenSlots(ctx context.Context, pipeline string) ([]state.SlotRecord, error) {
	return j.adopt(ctx, pipeline, "owner = $2 OR "+orphaned)
}

// Orphans implements [state.SlotStore]. It marks the running runs of dead processes as stopped. If such a run has a
// slot, the caller may continue the run.
func (j *journal) Orphans(ctx context.Context, pipeline string) ([]state.SlotRecord, error) {
	err := j.change(ctx, "runs", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE runs SET status = 'stopped', error = $2 WHERE pipeline = $1 AND status = 'running' AND "+orphaned, pipeline, "the process ended during the run")
		return err
	})
	if err != nil {
		return nil, err
	}
	return j.adopt(ctx, pipeline, "owner <> $2 AND "+orphaned)
}

func (j *journal) adopt(ctx context.Context, pipeline, whose string) (slots []state.SlotRecord, err error) {
	call := nonce()
	err = j.change(ctx, "take slots over", func(tx pgx.Tx) error {
		// If the answer to a first attempt was lost, also return the slots that this attempt has already taken over.
		rows, err := tx.Query(ctx, "UPDATE slots SET owner = $2, call = $3 WHERE pipeline = $1 AND state IN ('waiting', 'running') AND (call = $3 OR "+whose+") RETURNING "+slotColumns,
			pipeline, j.process, call)
		if err != nil {
			return err
		}
		slots, err = pgx.CollectRows(rows, slotOf)
		return err
	})
	slices.SortFunc(slots, func(a, b state.SlotRecord) int { return a.Due.Compare(b.Due) })
	return slots, err
}

// Slots implements [state.SlotStore].
func (j *journal) Slots(ctx context.Context, pipeline string, limit int) (slots []state.SlotRecord, err error) {
	err = j.s.read(ctx, func(q querier) error {
		rows, err := q.Query(ctx, "SELECT "+slotColumns+" FROM slots WHERE pipeline = $1 ORDER BY due DESC LIMIT $2", pipeline, limit)
		if err != nil {
			return err
		}
		slots, err = pgx.CollectRows(rows, slotOf)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	return slots, nil
}

func slotOf(row pgx.CollectableRow) (s state.SlotRecord, err error) {
	var started, ended *time.Time
	err = row.Scan(&s.Pipeline, &s.Due, &s.State, &s.Why, &s.Cause, &s.Run, &s.Status, &started, &ended, &s.Attempts, &s.Broken, &s.Count)
	s.Due, s.Started, s.Ended = s.Due.UTC(), timeOf(started), timeOf(ended)
	return s, err
}

func values(s state.SlotRecord) []any {
	return []any{s.Pipeline, s.Due, s.State, short(s.Why), s.Cause, s.Run, s.Status, nullTime(s.Started), nullTime(s.Ended), s.Attempts, s.Broken, s.Count}
}
