package statetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

func contextOf(t require.TestingT) context.Context {
	if c, ok := t.(interface{ Context() context.Context }); ok {
		return c.Context()
	}
	return context.Background()
}

func day(hour int) time.Time { return time.Date(2026, 11, 21, hour, 0, 0, 0, time.UTC) }

func journalSlots(t *testing.T, _ Rig, open func() state.Store) {
	ctx, s := t.Context(), opened(t, open)
	j, err := s.OpenJournal(ctx)
	require.NoError(t, err)
	seen, err := j.Seen(ctx, "nightly", "@hourly", day(1))
	require.NoError(t, err)
	require.Equal(t, day(1), seen, "a new pipeline must have no slots before the present")
	added, err := j.AddSlots(ctx, "nightly", day(3), []state.SlotRecord{
		{Due: day(2), State: state.SlotSkipped, Why: "pau\x00sed"}, {Due: day(3), State: state.SlotWaiting, Cause: "schedule"},
	})
	require.NoError(t, err)
	require.Len(t, added, 2)
	added, err = j.AddSlots(ctx, "nightly", day(4), []state.SlotRecord{{Due: day(3), State: state.SlotSkipped}, {Due: day(4), State: state.SlotWaiting}})
	require.NoError(t, err)
	require.Len(t, added, 1, "a slot that is already recorded must not be added again")
	require.Equal(t, day(4), added[0].Due)
	require.NoError(t, j.SetSlot(ctx, state.SlotRecord{
		Pipeline: "nightly", Due: day(3), State: state.SlotRan, Run: "r1", Status: "complete", Started: day(3), Ended: day(4), Attempts: 1, Count: 1,
	}, state.RunRecord{Pipeline: "nightly", Run: "r1", Due: day(3), Status: "complete"}))
	require.NoError(t, j.Close())
	j = journalOf(t, s)
	all, err := j.Slots(ctx, "nightly", 10)
	require.NoError(t, err)
	require.Len(t, all, 3)
	require.Equal(t, []time.Time{day(4), day(3), day(2)}, []time.Time{all[0].Due, all[1].Due, all[2].Due})
	require.Equal(t, "complete", all[1].Status)
	require.Equal(t, day(4), all[1].Ended)
	run, known, err := j.Run(ctx, "r1")
	require.NoError(t, err)
	require.True(t, known)
	require.Equal(t, day(3), run.Due)
	require.True(t, all[0].Started.IsZero())
	left, err := j.OpenSlots(ctx, "nightly")
	require.NoError(t, err)
	require.Len(t, left, 1, "the previous process has left one slot open")
	seen, err = j.Seen(ctx, "nightly", "@hourly", day(9))
	require.NoError(t, err)
	require.Equal(t, day(4), seen, "Seen must return the time up to which slots are recorded, although later slots were missed")
	seen, err = j.Seen(ctx, "nightly", "@daily", day(9))
	require.NoError(t, err)
	require.Equal(t, day(9), seen, "a new schedule has missed no slots")
}

func journalSlotsShared(t *testing.T, r Rig, open func() state.Store) {
	if !r.Shared {
		j := journalOf(t, opened(t, open))
		require.NoError(t, j.Close())
		return
	}
	const processes, slots = 3, 40
	var mu sync.Mutex
	got := map[time.Time]int{}
	var wg sync.WaitGroup
	for range processes {
		j := journalOf(t, opened(t, open))
		_, err := j.Seen(t.Context(), "p", "@hourly", day(0))
		require.NoError(t, err)
		wg.Go(func() {
			for n := range slots {
				due := day(0).Add(time.Duration(n) * time.Hour)
				added, err := j.AddSlots(t.Context(), "p", due, []state.SlotRecord{{Due: due, State: state.SlotWaiting}})
				require.NoError(t, err)
				mu.Lock()
				for _, s := range added {
					got[s.Due]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(t, got, slots)
	for due, n := range got {
		require.Equal(t, 1, n, "%s", due)
	}
}

func journalOrphans(t *testing.T, r Rig, open func() state.Store) {
	if !r.Shared {
		j := journalOf(t, opened(t, open))
		none, err := j.Orphans(t.Context(), "p")
		require.NoError(t, err)
		require.Empty(t, none)
		return
	}
	ctx := t.Context()
	first, err := opened(t, open).OpenJournal(ctx)
	require.NoError(t, err)
	second, third := journalOf(t, opened(t, open)), journalOf(t, opened(t, open))
	_, err = first.Seen(ctx, "p", "@hourly", day(0))
	require.NoError(t, err)
	added, err := first.AddSlots(ctx, "p", day(1), []state.SlotRecord{{Due: day(1), State: state.SlotWaiting}})
	require.NoError(t, err)
	require.Len(t, added, 1)
	none, err := second.Orphans(ctx, "p")
	require.NoError(t, err)
	require.Empty(t, none, "a slot is not an orphan while its process is alive")
	none, err = second.OpenSlots(ctx, "p")
	require.NoError(t, err)
	require.Empty(t, none)
	require.ErrorIs(t, second.SetSlot(ctx, added[0], state.RunRecord{Pipeline: "p", Run: "r9", Due: day(1)}), state.ErrTaken)
	_, known, err := second.Run(ctx, "r9")
	require.NoError(t, err)
	require.False(t, known, "only the process that owns a slot may record its runs")
	require.NoError(t, first.KeepRun(ctx, state.RunRecord{Pipeline: "p", Run: "r1", Status: "running"}))
	require.NoError(t, second.BreakRuns(ctx, "gone"))
	run, _, err := second.Run(ctx, "r1")
	require.NoError(t, err)
	require.Equal(t, "running", run.Status)
	require.NoError(t, first.KeepRun(ctx, state.RunRecord{Pipeline: "p", Run: "r3", Status: "running"}))
	require.NoError(t, first.Close())
	taken, err := second.Orphans(ctx, "p")
	require.NoError(t, err)
	require.Len(t, taken, 1)
	none, err = third.Orphans(ctx, "p")
	require.NoError(t, err)
	require.Empty(t, none)
	require.NoError(t, second.SetSlot(ctx, taken[0], state.RunRecord{Pipeline: "p", Run: "r2", Status: "running"}))
	require.NoError(t, third.KeepRun(ctx, state.RunRecord{Pipeline: "p", Run: "r2", Status: "failed"}))
	run, _, err = second.Run(ctx, "r2")
	require.NoError(t, err)
	require.Equal(t, "running", run.Status, "only the process that continues the run may record it")
	require.NoError(t, first.KeepRun(ctx, state.RunRecord{Pipeline: "p", Run: "r3", Status: "complete"}))
	run, _, err = second.Run(ctx, "r3")
	require.NoError(t, err)
	require.Equal(t, "complete", run.Status, "the process may record its run, because no other process has continued it")
	require.NoError(t, second.BreakRuns(ctx, "gone"))
	run, _, err = second.Run(ctx, "r1")
	require.NoError(t, err)
	require.Equal(t, "stopped", run.Status)
}

func journalPause(t *testing.T, r Rig, open func() state.Store) {
	ctx, j := t.Context(), journalOf(t, opened(t, open))
	_, err := j.Seen(ctx, "a", "@daily", day(1))
	require.NoError(t, err)
	for _, at := range []time.Time{day(2), {}} {
		require.NoError(t, j.Pause(ctx, "a", at))
		got, err := j.Paused(ctx, "a")
		require.NoError(t, err)
		require.True(t, at.Equal(got), "%s", got)
	}
	none, err := j.Paused(ctx, "nobody")
	require.NoError(t, err)
	require.True(t, none.IsZero())
	if !r.Shared {
		return
	}
	require.NoError(t, journalOf(t, opened(t, open)).Pause(ctx, "a", day(3)))
	added, err := j.AddSlots(ctx, "a", day(4), []state.SlotRecord{{Due: day(4), State: state.SlotWaiting, Cause: "schedule"}})
	require.NoError(t, err)
	require.Equal(t, state.SlotSkipped, added[0].State, "another process has paused the pipeline")
	require.Equal(t, "paused", added[0].Why)
}

func journalRuns(t *testing.T, _ Rig, open func() state.Store) {
	ctx, j := t.Context(), journalOf(t, opened(t, open))
	for _, r := range []state.RunRecord{
		{Pipeline: "a", Run: "r1", Cause: "schedule", Due: day(1), Started: day(1), Ended: day(2), Status: "complete", Report: json.RawMessage(`{"run":"r1"}`)},
		{Pipeline: "b", Run: "r2", Cause: "manual", Started: day(2), Status: "running"},
		{Pipeline: "a", Run: "r3", Cause: "schedule", Started: day(3), Status: "running"},
	} {
		require.NoError(t, j.KeepRun(ctx, r))
	}
	log := []state.LogLine{{At: day(3), Level: "error", Stream: "crm.leads", Text: "<b>503</b>\x00"}}
	require.NoError(t, j.KeepRun(ctx, state.RunRecord{Pipeline: "a", Run: "r3", Cause: "schedule", Started: day(3), Ended: day(4), Status: "failed", Error: "no", Log: log}))
	all, err := j.Runs(ctx, "", "", 10)
	require.NoError(t, err)
	require.Len(t, all, 3)
	require.Equal(t, "r3", all[0].Run)
	require.Empty(t, all[0].Log, "Runs returns no logs")
	require.JSONEq(t, `{"run":"r1"}`, string(all[2].Report))
	require.Equal(t, day(2), all[2].Ended)
	require.Nil(t, all[1].Report)
	before, err := j.Runs(ctx, "a", "r3", 10)
	require.NoError(t, err)
	require.Len(t, before, 1)
	one, ok, err := j.Run(ctx, "r3")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, log, one.Log)
	_, ok, err = j.Run(ctx, "r9")
	require.NoError(t, err)
	require.False(t, ok)
}

// A journal keeps the last run, and as many earlier runs as the limits allow. It cuts long reasons and errors.
// Invariant 6
func journalBounded(t *testing.T, _ Rig, open func() state.Store) {
	ctx, j := t.Context(), journalOf(t, opened(t, open))
	report := json.RawMessage(`"` + strings.Repeat("r", 24<<20) + `"`)
	long := "\x00" + strings.Repeat("e", 1<<20)
	names := func(pipeline string) (all []string) {
		t.Helper()
		runs, err := j.Runs(ctx, pipeline, "", state.KeptRuns+100)
		require.NoError(t, err)
		for _, r := range runs {
			require.Less(t, len(r.Error), 5<<10)
			all = append(all, r.Run)
		}
		return all
	}
	for n := range 4 {
		require.NoError(t, j.KeepRun(ctx, state.RunRecord{Pipeline: "a", Run: fmt.Sprint("r", n), Status: "failed", Report: report, Error: long}))
	}
	require.Equal(t, []string{"r3", "r2"}, names("a"), "with a third run, the limit of bytes would be exceeded")
	require.NoError(t, j.KeepRun(ctx, state.RunRecord{Pipeline: "b", Run: "r0", Status: "running"}))
	require.NoError(t, j.BreakRuns(ctx, long))
	require.Equal(t, []string{"r0"}, names("b"), "each pipeline has its own limits")
	huge := json.RawMessage(`"` + strings.Repeat("h", state.KeptRunBytes) + `"`)
	require.NoError(t, j.KeepRun(ctx, state.RunRecord{Pipeline: "a", Run: "r4", Report: huge}))
	require.Equal(t, []string{"r4"}, names("a"), "the last run is kept, even if it is too large")
	for n := range state.KeptRuns + 2 {
		require.NoError(t, j.KeepRun(ctx, state.RunRecord{Pipeline: "b", Run: fmt.Sprintf("s%04d", n)}))
	}
	all := names("b")
	require.Len(t, all, state.KeptRuns)
	require.Equal(t, fmt.Sprintf("s%04d", state.KeptRuns+1), all[0])

	_, err := j.Seen(ctx, "a", "@daily", day(0))
	require.NoError(t, err)
	_, err = j.AddSlots(ctx, "a", day(1), []state.SlotRecord{{Due: day(1), State: state.SlotSkipped, Why: long}})
	require.NoError(t, err)
	slots, err := j.Slots(ctx, "a", 10)
	require.NoError(t, err)
	require.Less(t, len(slots[0].Why), 5<<10)
}

func journalAudit(t *testing.T, _ Rig, open func() state.Store) {
	ctx, j := t.Context(), journalOf(t, opened(t, open))
	did := state.AuditRecord{At: day(1), Who: "ann", What: "query", Object: "warehouse: " + strings.Repeat("x", 64<<10), From: "192.0.2.1", Outcome: "done"}
	require.NoError(t, j.KeepAudit(ctx, did))
	for range state.KeptAuditRefused/100 + 5 {
		require.NoError(t, j.KeepAudit(ctx, state.AuditRecord{At: day(2), What: "sign\x00 in", From: "203.0.113.9", Outcome: "wrong token", Refused: true}))
	}
	all, total, err := j.Audit(ctx, 0, 2)
	require.NoError(t, err)
	require.Equal(t, state.KeptAuditRefused/100+6, total)
	require.Len(t, all, 2)
	require.True(t, all[0].Refused)
	last, _, err := j.Audit(ctx, total-1, 10)
	require.NoError(t, err)
	require.Equal(t, []state.AuditRecord{did}, last)
}
