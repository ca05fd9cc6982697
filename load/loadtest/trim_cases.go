package loadtest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// testTrim removes old rows of penstock's own tables. The newest certificate of each stream and its run stay, and so do
// the rows of other pipelines and sources.
func testTrim(t *testing.T, d Driver) {
	b := newFixture(t, d)
	trimmer, able := b.dest.(load.Trimmer)
	if !able {
		t.Skip("the destination cannot remove old rows")
	}
	trim := func(before, events time.Time) load.Trimmed {
		n, err := trimmer.Trim(t.Context(), load.Retention{Pipeline: "nightly", Source: "acme", Tables: []string{"people"}, Before: before, EventsBefore: events})
		require.NoError(t, err)
		return n
	}
	require.Zero(t, trim(noon.AddDate(0, 0, -1), noon.AddDate(0, 0, -1)), "before the first run")
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}})
	certificate := func(run, pipeline, stream string, at time.Time) []any {
		return []any{run, pipeline, stream, at, "proven", `{}`, 1, 1, 0, 1, 0, 0, 0, 1, 1}
	}
	note := func(table string, at time.Time) []any {
		return []any{at, "r1", table, "name", "", load.ActionDrift, "", "", "warned: null_rate"}
	}
	run := func(run, pipeline, status string, started time.Time, ended any) []any {
		return []any{run, pipeline, started, ended, status, `{}`, nil}
	}
	reject := func(pipeline, id string, resolved, accepted any) []any {
		return []any{"r1", pipeline, "a", 1, 0, "", noon.Add(-time.Hour), id, "", "1", "no", true, resolved, id, "load", accepted}
	}
	change := func(pipeline string, at time.Time) []any {
		return []any{"r1", pipeline, "a", "a", at, "insert", `["1"]`, nil, `{}`}
	}
	event := func(source string, at time.Time) []any {
		return []any{source, 1, "e", "lead.updated", at, "hmac", "mapped", `[]`, `{}`, nil}
	}
	old, young := noon.Add(-time.Hour), noon.Add(time.Hour)
	write := func(t schemas.Table, rows ...[]any) {
		next := state.Cursor(t.Name)
		require.NoError(b, load.CommitRows(b.Context(), b.dest, b.key, b.cursor, next, b.pass, t, rows...))
		b.cursor = next
	}
	left := func(t schemas.Table, column string) (all []string) {
		for _, row := range b.driver.Rows(b, b.dest, t.Name) {
			all = append(all, row[column])
		}
		slices.Sort(all)
		return all
	}
	hours := func(t schemas.Table, column, time string) (all []string) {
		for _, row := range b.driver.Rows(b, b.dest, t.Name) {
			all = append(all, row[column]+" "+row[time][len("2026-01-02T"):len("2026-01-02T15")])
		}
		slices.Sort(all)
		return all
	}
	write(load.Certificates,
		certificate("r1", "nightly", "a", old), certificate("r2", "nightly", "a", young),
		certificate("r1", "nightly", "b", old), certificate("r0", "nightly", "b", old),
		certificate("r0", "hourly", "a", old), certificate("r1", "hourly", "a", old))
	write(load.Runs,
		run("r0", "nightly", "complete", old, old), run("r1", "nightly", "complete", old, old),
		run("r2", "nightly", "complete", old, young), run("r3", "nightly", "failed", old, nil),
		run("r4", "nightly", "running", old, nil), run("r5", "hourly", "complete", old, old))
	write(load.Rejects,
		reject("nightly", "open", nil, nil), reject("nightly", "accepted", nil, old), reject("nightly", "resolved", old, nil),
		reject("nightly", "young", young, nil), reject("hourly", "other", old, nil))
	write(load.RowChanges, change("nightly", old), change("nightly", young), change("hourly", old))
	write(load.Events, event("acme", old), event("acme", noon.Add(-time.Second)), event("acme", young), event("globex", old))
	write(load.Changes, note("people", old), note("people", young), note("people__phones", old), note("peoples", old))
	made := len(left(load.Changes, "table"))
	require.Equal(t, load.Trimmed{Certificates: 1, Runs: 2, Rejects: 1, RowChanges: 1, Events: 1, Notes: 2}, trim(noon, noon.Add(-time.Minute)), "only the run r0 has no certificate that is the newest of its stream")
	require.Len(t, left(load.Certificates, "run"), 5)
	require.Equal(t, []string{"r1", "r2", "r4", "r5"}, left(load.Runs, "run"))
	require.Equal(t, []string{"accepted", "open", "other", "young"}, left(load.Rejects, "record_id"))
	require.Equal(t, []string{"hourly 11", "nightly 13"}, hours(load.RowChanges, "pipeline", "at"))
	require.Equal(t, []string{"acme 11", "acme 13", "globex 11"}, hours(load.Events, "source", "received_at"), "the event of 11:59:59 is younger than EventsBefore")
	require.Len(t, left(load.Changes, "table"), made-2)
	write(load.Certificates, certificate("r0", "nightly", "a", old))
	require.Zero(t, trim(noon, noon), "an earlier call on this day has removed the rows")
	require.EqualValues(t, 1, trim(noon.AddDate(0, 0, 1), noon).Certificates)
	b.reopen()
	b.run(2)
	require.EqualValues(t, 1, b.commit(sweep("people"), put{people, []Row{person(b.pass.Run, 0, "1", "ann")}}).Unchanged)
}
