package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/penstock-data/penstock/state"
)

// lockRuns locks the runs of a pipeline until the transaction ends. So only one process at a time decides whether a run
// may begin. // Invariant 18
func lockRuns(ctx context.Context, tx pgx.Tx, pipeline string) error {
	_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended(format('runs %s %I', current_schema, $1::text), 0))", pipeline)
	return err
}

// heldSlots is the condition that the run of a slot has begun and has not ended. An interrupted run, whose slot is
// waiting, has not ended, because some process will continue it. While the pipeline is paused, no process continues an
// interrupted run. Then the condition is true only as long as workers have units of the run.
const heldSlots = `(state = 'running' OR state = 'waiting' AND attempts > 0 AND (
	NOT EXISTS (SELECT FROM pipelines WHERE name = slots.pipeline AND paused IS NOT NULL)
	OR EXISTS (SELECT FROM units WHERE units.pipeline = slots.pipeline AND units.run = slots.run AND units.` + activeUnits + `)))`

// slotRun finds a slot of the pipeline whose run has begun and has not ended, and returns this run. If there is none,
// it returns "". The caller must have called lockRuns.
func slotRun(ctx context.Context, tx pgx.Tx, pipeline string) (run string, err error) {
	err = tx.QueryRow(ctx, "SELECT coalesce(max(run), '') FROM slots WHERE pipeline = $1 AND "+heldSlots, pipeline).Scan(&run)
	return run, err
}

// refuseRun returns [state.ErrUnderWay], wrapped, if another run of the pipeline has not ended. A run has not ended if
// its slot says so, if its process is alive and the run is running, or if it has units that have not ended. The
// parameter run is the run that wants to begin. refuseRun locks the runs of the pipeline. // Invariant 18
func refuseRun(ctx context.Context, tx pgx.Tx, pipeline, run string) error {
	if err := lockRuns(ctx, tx, pipeline); err != nil {
		return err
	}
	var other string
	err := tx.QueryRow(ctx, `SELECT coalesce(
		(SELECT max(run) FROM slots WHERE pipeline = $1 AND run <> $2 AND `+heldSlots+`),
		(SELECT max(run) FROM runs WHERE pipeline = $1 AND run <> $2 AND status = 'running' AND NOT `+orphaned+`),
		(SELECT max(run) FROM units WHERE pipeline = $1 AND run <> $2 AND `+activeUnits+`), '')`, pipeline, run).Scan(&other)
	if err == nil && other != "" {
		err = &state.UnderWay{Run: other}
	}
	return err
}

// refuseEarly returns [state.ErrUnderWay], wrapped, if another run has ended while this run waited to begin. The caller
// then tries again with a later start time. So the times of two runs in the journal do not overlap. If the clock was
// set back, refuseEarly lets the run begin anyway.
func refuseEarly(ctx context.Context, tx pgx.Tx, s state.SlotRecord) error {
	var other string
	err := tx.QueryRow(ctx, `SELECT coalesce(max(run), '') FROM runs WHERE pipeline = $1 AND run <> $2 AND ended > $3 AND ended < $3 + interval '1 minute'`,
		s.Pipeline, s.Run, nullTime(s.Started)).Scan(&other)
	if err == nil && other != "" {
		err = &state.UnderWay{Run: other, Ended: true}
	}
	return err
}

// refuseUnits returns [state.ErrUnderWay], wrapped, if another run of a new unit's pipeline has units that have not
// ended. // Invariant 14
func refuseUnits(ctx context.Context, tx pgx.Tx, units []state.Unit) error {
	for _, p := range pipelinesOf(units) {
		if err := lockRuns(ctx, tx, p); err != nil {
			return err
		}
	}
	var runs, pipelines []string
	seen := map[[2]string]bool{}
	for _, u := range units {
		if key := [2]string{u.Run, u.Pipeline}; !seen[key] {
			seen[key] = true
			runs, pipelines = append(runs, u.Run), append(pipelines, u.Pipeline)
		}
	}
	var other string
	err := tx.QueryRow(ctx, `SELECT coalesce(max(units.run), '') FROM units JOIN unnest($1::text[], $2::text[]) n(run, pipeline) USING (pipeline)
		WHERE units.run <> n.run AND `+activeUnits, runs, pipelines).Scan(&other)
	if err == nil && other != "" {
		err = &state.UnderWay{Run: other}
	}
	return err
}
