package state

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func day(hour int) time.Time { return time.Date(2026, 11, 21, hour, 0, 0, 0, time.UTC) }

func openJournal(t *testing.T, dir string) *JournalFile {
	t.Helper()
	j, err := OpenJournal(t.Context(), dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func TestJournalSlots(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	j := openJournal(t, dir)
	seen, err := j.Seen(ctx, "nightly", "@hourly", day(1))
	require.NoError(t, err)
	require.Equal(t, day(1), seen, "a new pipeline has no slots before now")

	added, err := j.AddSlots(ctx, "nightly", day(3), []SlotRecord{
		{Due: day(2), State: SlotSkipped, Why: "paused"}, {Due: day(3), State: SlotWaiting, Cause: "schedule"},
	})
	require.NoError(t, err)
	require.Len(t, added, 2)
	added, err = j.AddSlots(ctx, "nightly", day(4), []SlotRecord{{Due: day(3), State: SlotSkipped}, {Due: day(4), State: SlotWaiting}})
	require.NoError(t, err)
	require.Len(t, added, 1, "a slot that is recorded already is not added again")
	require.Equal(t, day(4), added[0].Due)

	require.NoError(t, j.SetSlot(ctx, SlotRecord{
		Pipeline: "nightly", Due: day(3), State: SlotRan, Run: "r1", Status: "complete", Started: day(3), Ended: day(4), Attempts: 1, Count: 1,
	}))
	require.NoError(t, j.Close())

	_, err = ReadJournal(ctx, t.TempDir())
	require.ErrorIs(t, err, fs.ErrNotExist)
	j = openJournal(t, dir)
	r, err := ReadJournal(ctx, dir)
	require.NoError(t, err)
	defer r.Close()
	all, err := r.Slots(ctx, "nightly", 10)
	require.NoError(t, err)
	require.Len(t, all, 3)
	require.Equal(t, []time.Time{day(4), day(3), day(2)}, []time.Time{all[0].Due, all[1].Due, all[2].Due})
	require.Equal(t, "complete", all[1].Status)
	require.Equal(t, day(4), all[1].Ended)
	open, err := r.OpenSlots(ctx, "nightly")
	require.NoError(t, err)
	require.Len(t, open, 1)
	seen, err = j.Seen(ctx, "nightly", "@hourly", day(9))
	require.NoError(t, err)
	require.Equal(t, day(4), seen, "Seen returns the end of the recorded slots, although later slots were missed")
	seen, err = j.Seen(ctx, "nightly", "@daily", day(9))
	require.NoError(t, err)
	require.Equal(t, day(9), seen, "a new schedule has missed nothing")
}

func TestJournalPause(t *testing.T) {
	ctx, j := t.Context(), openJournal(t, t.TempDir())
	_, err := j.Seen(ctx, "a", "@daily", day(1))
	require.NoError(t, err)
	for _, at := range []time.Time{day(2), {}} {
		require.NoError(t, j.Pause(ctx, "a", at))
		got, err := j.Paused(ctx, "a")
		require.NoError(t, err)
		require.True(t, at.Equal(got), "%s", got)
	}
}

// The journal does not grow with time. // Invariant 6
func TestJournalForgets(t *testing.T) {
	ctx, j := t.Context(), openJournal(t, t.TempDir())
	_, err := j.Seen(ctx, "a", "@every 1s", day(0))
	require.NoError(t, err)
	var many []SlotRecord
	for i := range KeptSlots + 100 {
		many = append(many, SlotRecord{Due: day(0).Add(time.Duration(i) * time.Second), State: SlotSkipped})
	}
	many[0].State = SlotWaiting
	_, err = j.AddSlots(ctx, "a", many[len(many)-1].Due, many)
	require.NoError(t, err)
	all, err := j.Slots(ctx, "a", 2*KeptSlots)
	require.NoError(t, err)
	require.Len(t, all, KeptSlots+1, "the journal keeps KeptSlots skipped slots, and the waiting slot")
	require.Equal(t, SlotWaiting, all[len(all)-1].State)
}

func TestJournalRuns(t *testing.T) {
	ctx, j := t.Context(), openJournal(t, t.TempDir())
	for _, r := range []RunRecord{
		{Pipeline: "a", Run: "r1", Cause: "schedule", Due: day(1), Started: day(1), Ended: day(2), Status: "complete", Report: json.RawMessage(`{"run":"r1"}`)},
		{Pipeline: "b", Run: "r2", Cause: "manual", Started: day(2), Status: "running"},
		{Pipeline: "a", Run: "r3", Cause: "schedule", Started: day(3), Status: "running"},
	} {
		require.NoError(t, j.KeepRun(ctx, r))
	}
	log := []LogLine{{At: day(3), Level: "error", Stream: "crm.leads", Text: "<b>503</b>"}}
	require.NoError(t, j.KeepRun(ctx, RunRecord{Pipeline: "a", Run: "r3", Cause: "schedule", Started: day(3), Ended: day(4), Status: "failed", Error: "no", Log: log}))

	all, err := j.Runs(ctx, "", "", 10)
	require.NoError(t, err)
	require.Len(t, all, 3)
	require.Equal(t, "r3", all[0].Run)
	require.Empty(t, all[0].Log, "Runs returns no logs")
	require.JSONEq(t, `{"run":"r1"}`, string(all[2].Report))
	require.Nil(t, all[1].Report)
	before, err := j.Runs(ctx, "a", "r3", 10)
	require.NoError(t, err)
	require.Len(t, before, 1)
	one, ok, err := j.Run(ctx, "r3")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, log, one.Log)
	require.Equal(t, "failed", one.Status)
	require.NoError(t, j.BreakRuns(ctx, "killed"))
	one, _, err = j.Run(ctx, "r2")
	require.NoError(t, err)
	require.Equal(t, "stopped killed", one.Status+" "+one.Error)
	_, ok, err = j.Run(ctx, "r9")
	require.NoError(t, err)
	require.False(t, ok)
}

// Opening a journal of an older version keeps its runs.
func TestJournalKeepsRunsOfOlderVersions(t *testing.T) {
	dir := t.TempDir()
	want := RunRecord{Pipeline: "p", Run: "r1", Status: "failed", Error: "why", Report: json.RawMessage(`{"a":1}`), Log: []LogLine{{Text: "a line"}}}
	old, err := openSQLite(t.Context(), filepath.Join(dir, journalName), 0, journalSteps[:5])
	require.NoError(t, err)
	require.NoError(t, (&JournalFile{old, KeptRunBytes}).KeepRun(t.Context(), want))
	require.NoError(t, old.Close())

	j, err := OpenJournal(t.Context(), dir)
	require.NoError(t, err)
	defer j.Close()
	kept, ok, err := j.Run(t.Context(), "r1")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, want, kept)
}

// The size of the journal is limited, however large the reports are. // Invariant 6
func TestJournalIsBounded(t *testing.T) {
	dir := t.TempDir()
	j, err := OpenJournal(t.Context(), dir)
	require.NoError(t, err)
	defer j.Close()
	j.runBytes = 640 << 10
	report, err := json.Marshal(strings.Repeat("r", 80<<10))
	require.NoError(t, err)
	for i := range 20 {
		require.NoError(t, j.KeepRun(t.Context(), RunRecord{Pipeline: "p", Run: fmt.Sprintf("r%02d", i), Report: report, Error: strings.Repeat("e", 1<<20)}))
	}
	all, err := j.Runs(t.Context(), "p", "", 100)
	require.NoError(t, err)
	require.Len(t, all, 7, "seven runs fit into the limit")
	require.Equal(t, "r19", all[0].Run)
	require.Less(t, len(all[0].Error), 5<<10)
	info, err := os.Stat(filepath.Join(dir, journalName))
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(1<<20), "the space of deleted runs is reused")

	huge, err := json.Marshal(strings.Repeat("h", 641<<10))
	require.NoError(t, err)
	require.NoError(t, j.KeepRun(t.Context(), RunRecord{Pipeline: "p", Run: "r20", Report: huge}))
	all, err = j.Runs(t.Context(), "p", "", 100)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "r20", all[0].Run, "the last run is kept, even if it is too large")

	_, err = j.Seen(t.Context(), "p", "@daily", time.Unix(0, 0))
	require.NoError(t, err)
	_, err = j.AddSlots(t.Context(), "p", time.Unix(1, 0), []SlotRecord{{Due: time.Unix(1, 0), State: SlotSkipped, Why: strings.Repeat("w", 1<<20)}})
	require.NoError(t, err)
	slots, err := j.Slots(t.Context(), "p", 10)
	require.NoError(t, err)
	require.Less(t, len(slots[0].Why), 5<<10)
}

func TestAuditIsBounded(t *testing.T) {
	ctx := t.Context()
	j, err := OpenJournal(ctx, t.TempDir())
	require.NoError(t, err)
	defer j.Close()
	require.NoError(t, j.KeepAudit(ctx, AuditRecord{Who: "ann", What: "pause", Outcome: "done"}))
	require.NoError(t, j.change(ctx, "fill", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO audit (at, who, what, object, address, outcome, refused)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT i, '', 'sign in', '', '', 'wrong token', 1 FROM n`, KeptAuditRefused+500)
		return err
	}))
	require.NoError(t, j.KeepAudit(ctx, AuditRecord{What: "sign in", Outcome: "wrong token", Refused: true}))
	all, total, err := j.Audit(ctx, KeptAuditRefused, 10)
	require.NoError(t, err)
	require.Equal(t, KeptAuditRefused+1, total)
	require.Len(t, all, 1)
	require.Equal(t, "ann", all[0].Who)
}
