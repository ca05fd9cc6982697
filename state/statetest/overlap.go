package statetest

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

// journalOverlap checks that a run can begin only if no other process has begun a run of the pipeline. // Invariant 18
func journalOverlap(t *testing.T, r Rig, open func() state.Store) {
	if !r.Shared {
		t.Skip("only one process can have the journal open")
	}
	ctx := t.Context()
	store := opened(t, open)
	j, other := journalOf(t, store), journalOf(t, opened(t, open))
	units := unitsOf(t, store)
	_, err := j.Seen(ctx, "p", "@hourly", day(0))
	require.NoError(t, err)
	slot := func(j state.Journal, hour int, patient bool) state.SlotRecord {
		t.Helper()
		added, err := j.AddSlots(ctx, "p", day(hour), []state.SlotRecord{{Due: day(hour), State: state.SlotWaiting, Cause: "schedule", Patient: patient}})
		require.NoError(t, err)
		require.Len(t, added, 1)
		return added[0]
	}
	set := func(j state.Journal, s state.SlotRecord, to state.SlotState, run, status string) error {
		s.State, s.Run, s.Attempts = to, run, 1
		return j.SetSlot(ctx, s, state.RunRecord{Pipeline: "p", Run: run, Due: s.Due, Status: status})
	}
	first := slot(j, 1, false)
	require.NoError(t, set(j, first, state.SlotRunning, "r1", "running"))

	skipped := slot(other, 2, false)
	require.Equal(t, "skipped still busy: run r1 was still in progress", fmt.Sprintf("%s %s: %s", skipped.State, skipped.Cause, skipped.Why))
	patient := slot(other, 3, true)
	require.Equal(t, state.SlotWaiting, patient.State)
	require.ErrorIs(t, set(other, patient, state.SlotRunning, "r3", "running"), state.ErrUnderWay)
	manual := state.RunRecord{Pipeline: "p", Run: "r4", Status: "running"}
	require.ErrorIs(t, other.BeginRun(ctx, manual), state.ErrUnderWay)
	require.NoError(t, other.BeginRun(ctx, state.RunRecord{Pipeline: "q", Run: "r4", Status: "running"}), "a run of another pipeline can begin")

	require.NoError(t, set(j, first, state.SlotWaiting, "r1", "stopped"))
	require.Equal(t, state.SlotSkipped, slot(other, 4, false).State, "an interrupted run will continue later, so it counts as in progress")
	require.NoError(t, j.Pause(ctx, "p", day(4)))
	require.NoError(t, set(other, patient, state.SlotRunning, "r3", "running"), "while the pipeline is paused, no process continues the interrupted run, so another run can begin")
	require.NoError(t, set(other, patient, state.SlotWaiting, "r3", "stopped"))
	require.NoError(t, other.SetSlot(ctx, patient))
	left := add(t, units, state.Unit{Run: "r1", Pipeline: "p", Source: "s", Part: "left"})
	require.Len(t, left, 1)
	require.ErrorIs(t, other.BeginRun(ctx, manual), state.ErrUnderWay, "workers still have units of the interrupted run")
	_, err = units.CancelUnits(ctx, state.UnitFilter{Run: "r1"})
	require.NoError(t, err)
	require.NoError(t, j.Pause(ctx, "p", time.Time{}))
	require.ErrorIs(t, other.BeginRun(ctx, manual), state.ErrUnderWay, "the interrupted run continues, because the pipeline is no longer paused")
	require.NoError(t, set(j, first, state.SlotRan, "r1", "complete"))
	add(t, units, state.Unit{Run: "r1", Pipeline: "p", Source: "s", Part: "a"})
	var under *state.UnderWay
	require.ErrorAs(t, set(other, patient, state.SlotRunning, "r3", "running"), &under, "the first run has a unit that has not ended")
	require.Equal(t, state.UnderWay{Run: "r1"}, *under)
	_, err = units.CancelUnits(ctx, state.UnitFilter{Run: "r1"})
	require.NoError(t, err)
	require.NoError(t, j.BeginRun(ctx, manual))
	require.ErrorIs(t, set(other, patient, state.SlotRunning, "r3", "running"), state.ErrUnderWay, "a person has begun a run")
	manual.Status = "complete"
	require.NoError(t, j.KeepRun(ctx, manual))
	require.NoError(t, set(other, patient, state.SlotRunning, "r3", "running"))
	_, known, err := j.Run(ctx, "r3")
	require.NoError(t, err)
	require.True(t, known)
}

// In journalBeginRace, many processes try to begin a run of one pipeline at the same time. Only one process succeeds.
func journalBeginRace(t *testing.T, r Rig, open func() state.Store) {
	if !r.Shared {
		t.Skip("only one process can have the journal open")
	}
	const processes, rounds = 4, 10
	var journals []state.Journal
	for range processes {
		journals = append(journals, journalOf(t, opened(t, open)))
	}
	for round := range rounds {
		var mu sync.Mutex
		var begun []state.RunRecord
		var wg sync.WaitGroup
		for n, j := range journals {
			wg.Go(func() {
				run := state.RunRecord{Pipeline: "p", Run: fmt.Sprintf("r%02d%d", round, n), Started: time.Now(), Status: "running"}
				err := j.BeginRun(t.Context(), run)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					begun = append(begun, run)
					return
				}
				if !errors.Is(err, state.ErrUnderWay) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.Len(t, begun, 1)
		begun[0].Status = "complete"
		for _, j := range journals { // only the process that has begun the run can end it
			require.NoError(t, j.KeepRun(t.Context(), begun[0]))
		}
	}
}

// journalRead checks that a command can read the runs of the daemons.
func journalRead(t *testing.T, r Rig, open func() state.Store) {
	ctx, verb := t.Context(), opened(t, open)
	if !r.Shared {
		_, err := verb.ReadJournal(ctx)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	j := journalOf(t, opened(t, open))
	require.NoError(t, j.KeepRun(ctx, state.RunRecord{Pipeline: "p", Run: "r1", Status: "running"}))
	reader, err := verb.ReadJournal(ctx)
	require.NoError(t, err)
	all, err := reader.Runs(ctx, "", "", 10)
	require.NoError(t, err)
	require.Len(t, all, 1)
	one, known, err := reader.Run(ctx, "r1")
	require.NoError(t, err)
	require.True(t, known)
	require.Equal(t, "running", one.Status)
	require.NoError(t, reader.Close())
}
