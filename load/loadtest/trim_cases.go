package loadtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// testTrim removes old rows of penstock's own tables. For each stream, the newest certificate and the run of this
// certificate stay. The rows of other pipelines and sources stay too.
func testTrim(t *testing.T, d Driver) {
	b := newFixture(t, d)
	trimmer, able := b.dest.(load.Trimmer)
	if !able {
		t.Skip("the destination cannot remove old rows")
	}
	trim := func(before, events time.Time) load.Trimmed {
		n, err := trimmer.Trim(t.Context(), b.retention("acme", before, events))
		require.NoError(t, err)
		return n
	}
	require.Zero(t, trim(noon.AddDate(0, 0, -1), noon.AddDate(0, 0, -1)), "before the first run")
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}})
	old, late, young := noon.Add(-time.Hour), noon.Add(-time.Second), noon.Add(time.Hour)
	for _, own := range ownRows(old, late, young) {
		b.writeOwn(own.table, own.rows...)
	}
	left := b.left
	made := len(left(load.Changes, "table"))
	committed := func() []string { return left(load.State, "stream", "updated_at") }
	before := committed()
	require.Equal(t, load.Trimmed{Certificates: 1, Runs: 2, Rejects: 1, RowChanges: 1, Checks: 1, Events: 1, Notes: 2}, trim(noon, noon.Add(-time.Minute)), "the runs r0 and r3 do not have the newest certificate of any stream")
	require.Equal(t, before, committed(), "a removal is no commit of a stream")
	require.Equal(t, []string{"hourly r0 a", "hourly r1 a", "nightly r1 a", "nightly r1 b", "nightly r2 a"}, left(load.Certificates, "pipeline", "run", "stream"))
	require.Equal(t, []string{"r1", "r2", "r4", "r5"}, left(load.Runs, "run"))
	require.Equal(t, []string{"accepted", "open", "other", "young"}, left(load.Rejects, "record_id"))
	require.Equal(t, []string{"hourly " + instant(old), "nightly " + instant(young)}, left(load.RowChanges, "pipeline", "at"))
	require.Equal(t, []string{"hourly " + instant(old), "nightly " + instant(young)}, left(load.Checks, "pipeline", "at"))
	require.Equal(t, []string{"acme " + instant(late), "acme " + instant(young), "globex " + instant(old)}, left(load.Events, "source", "received_at"), "the late event was received after EventsBefore")
	require.Len(t, left(load.Changes, "table"), made-2)
	b.writeOwn(load.Certificates, certificateRow("r0", "nightly", "a", old))
	require.Zero(t, trim(noon, noon), "an earlier call on this day has removed the rows")
	before = committed()
	require.EqualValues(t, 1, trim(noon.AddDate(0, 0, 1), noon).Certificates)
	require.Equal(t, before, committed(), "a removal is no commit of a stream")
	b.reopen()
	b.run(2)
	require.EqualValues(t, 1, b.commit(sweep("people"), put{people, []Row{person(b.pass.Run, 0, "1", "ann")}}).Unchanged)
}

// testTrimFails lets a removal of old rows fail at each of its steps. Either all old rows are removed, or none. The
// cursor stays, and a further removal and a further commit succeed.
func testTrimFails(t *testing.T, d Driver) {
	for n, more := int64(1), true; more; n++ {
		more = false
		t.Run(fmt.Sprint("step ", n), func(t *testing.T) { more = trimFailing(t, d, n) >= n })
	}
}

// trimFailing lets the removal of old rows fail at the n-th step. It returns the number of steps that were begun. If
// this number is less than n, the removal has not failed.
func trimFailing(t *testing.T, d Driver, n int64) int64 {
	b := newFixture(t, d)
	if _, able := b.dest.(load.Trimmer); !able {
		t.Skip("the destination cannot remove old rows")
	}
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}})
	own := ownRows(noon.Add(-time.Hour), noon.Add(-time.Second), noon.Add(time.Hour))
	for _, o := range own {
		b.writeOwn(o.table, o.rows...)
	}
	rows := func() (n int) {
		for _, o := range own {
			n += len(b.left(o.table))
		}
		return n
	}
	before := rows()
	var armed atomic.Bool
	var steps atomic.Int64 // atomic, because a destination may clean up in the background
	b.reopenWith(func(string) error {
		if armed.Load() && steps.Add(1) == n {
			return errors.New("broken on purpose")
		}
		return nil
	})
	trim := func() (load.Trimmed, error) {
		return b.dest.(load.Trimmer).Trim(t.Context(), b.retention("acme", noon, noon.Add(-time.Minute)))
	}
	armed.Store(true)
	removed, err := trim()
	armed.Store(false)
	if rows() == before {
		require.Error(t, err)
		require.Zero(t, removed)
		b.reopen()
		_, err = trim()
		require.NoError(t, err)
	}
	require.Equal(t, before-9, rows())
	c, err := b.dest.Cursor(t.Context(), b.key)
	require.NoError(t, err)
	require.Equal(t, b.cursor, c)
	b.reopen()
	b.run(2)
	require.EqualValues(t, 1, b.commit(sweep("people"), put{people, []Row{person(b.pass.Run, 0, "1", "ann")}}).Unchanged)
	return steps.Load()
}

// testTrimMeanwhile removes old rows during a pass. The pass can go on: its open transaction commits, and its sweep
// deletes only rows that the pass has not seen.
func testTrimMeanwhile(t *testing.T, d Driver) {
	b := newFixture(t, d)
	trimmer, able := b.dest.(load.Trimmer)
	if !able {
		t.Skip("the destination cannot remove old rows")
	}
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann"), person(b.pass.Run, 1, "2", "bob"), person(b.pass.Run, 2, "3", "cid")}})
	old := noon.Add(-time.Hour)
	b.writeOwn(load.Certificates, certificateRow("r0", "nightly", "a", old), certificateRow("r1", "nightly", "a", old))
	b.run(2)
	require.EqualValues(t, 1, b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}}).Unchanged)
	x := b.begin()
	n, err := trimmer.Trim(t.Context(), b.retention("acme", noon, noon))
	require.NoError(t, err)
	require.Equal(t, load.Trimmed{Certificates: 1}, n)
	b.write(x, put{people, []Row{person(b.pass.Run, 1, "2", "bea")}})
	out, err := x.Apply(t.Context(), sweep("people"))
	require.NoError(t, err)
	require.Equal(t, load.Outcome{Written: 1, Missing: 1, Deleted: 1, Alive: 3, Known: true}, out)
	b.finish(x)
	require.Equal(t, []string{"1 ann", "2 bea", "3 cid"}, b.left(people, "id", "name"))
	require.Equal(t, []string{"r1"}, b.left(load.Certificates, "run"), "the removed row stays removed")
	b.reopen()
	c, err := b.dest.Cursor(t.Context(), b.key)
	require.NoError(t, err)
	require.Equal(t, b.cursor, c)
}

// testTrimShared removes old rows of two sources that share the tables. Each source keeps its newest certificate.
func testTrimShared(t *testing.T, d Driver) {
	if !sharing(t, d) {
		t.Skip("tables cannot be shared")
	}
	whole, all := workspaces(t, d, "ann", "bob")
	trimmer, able := whole.(load.Trimmer)
	if !able {
		t.Skip("the destination cannot remove old rows")
	}
	old := noon.Add(-time.Hour)
	for i, b := range all {
		b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}})
		newest := []string{"r2", "r3"}[i]
		b.writeOwn(load.Certificates, certificateRow("r1", "nightly", "a", old), certificateRow(newest, "nightly", "a", old))
	}
	var removed int64
	for _, source := range []string{"ann", "bob", "ann"} {
		n, err := trimmer.Trim(t.Context(), all[0].retention(source, noon, noon))
		require.NoError(t, err)
		removed += n.Certificates
		if removed == 1 {
			require.Equal(t, []string{"r2"}, all[0].left(load.Certificates, "run"), "the source ann has called Trim")
		}
	}
	require.EqualValues(t, 2, removed)
	for i, b := range all {
		require.Equal(t, []string{"r2", "r3"}[i:i+1], b.left(load.Certificates, "run"))
		b.run(2)
		require.EqualValues(t, 1, b.commit(sweep("people"), put{people, []Row{person(b.pass.Run, 0, "1", "ann")}}).Unchanged)
	}
}

// retention returns the arguments of Trim for the pipeline of the fixture.
func (b *fixture) retention(source string, before, events time.Time) load.Retention {
	return load.Retention{Pipeline: "nightly", Source: source, Tables: []string{"people"}, Before: before, EventsBefore: events, Now: b.pass.Time()}
}

// left returns the rows of a table, as texts with the values of the given columns.
func (b *fixture) left(t schemas.Table, columns ...string) (all []string) {
	for _, row := range b.driver.Rows(b, b.dest, t.Name) {
		var values []string
		for _, c := range columns {
			values = append(values, row[c])
		}
		all = append(all, strings.Join(values, " "))
	}
	slices.Sort(all)
	return all
}

// testTrimParts removes more rows than one transaction of Trim removes, and stops after the first transaction. Trim then
// returns the number of rows that are really gone. It has removed the run before the row changes of the run. The next
// call removes the others.
func testTrimParts(t *testing.T, d Driver) {
	const many = 12_000
	b := newFixture(t, d)
	if _, able := b.dest.(load.Trimmer); !able {
		t.Skip("the destination cannot remove old rows")
	}
	old := noon.Add(-time.Hour)
	changes := make([][]any, many)
	for i := range changes {
		changes[i] = []any{"r1", "nightly", "a", "a", old, "insert", fmt.Sprintf(`["%d"]`, i), nil, `{}`}
	}
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}})
	b.writeOwn(load.Runs, []any{"r1", "nightly", old, old, "complete", `{}`, nil})
	b.writeOwn(load.RowChanges, append(changes, []any{"r2", "nightly", "a", "a", noon, "insert", `["0"]`, nil, `{}`})...)
	trim := func() (load.Trimmed, error) {
		return b.dest.(load.Trimmer).Trim(t.Context(), b.retention("acme", noon, time.Time{}))
	}
	stop, parts := errors.New("stop"), 0
	b.reopenWith(func(name string) error {
		if name != "trimmed" {
			return nil
		}
		parts++
		return stop
	})
	first, err := trim()
	if parts == 0 {
		t.Skip("the destination removes old rows without transactions")
	}
	require.ErrorIs(t, err, stop)
	require.Less(t, first.RowChanges, int64(many/2), "one transaction must stay short")
	require.Positive(t, first.RowChanges)
	require.EqualValues(t, 1, first.Runs)
	require.Empty(t, b.driver.Rows(b, b.dest, load.Runs.Name), "a run must not stay without its row changes")
	require.Len(t, b.driver.Rows(b, b.dest, load.RowChanges.Name), many+1-int(first.RowChanges))
	b.reopenWith(func(name string) error {
		if name == "trimmed" {
			parts++
		}
		return nil
	})
	second, err := trim()
	require.NoError(t, err)
	require.Equal(t, load.Trimmed{RowChanges: many - first.RowChanges}, second)
	require.Equal(t, 3, parts)
	require.Len(t, b.driver.Rows(b, b.dest, load.RowChanges.Name), 1, "the young row change stays")
}

// ownRows returns rows of penstock's own tables with the three given times.
func ownRows(old, late, young time.Time) []ownTable {
	note := func(table string, at time.Time) []any {
		return []any{at, "r1", table, "name", "", load.ActionDrift, "", "", "warned: null_rate"}
	}
	run := func(run, pipeline, status string, started time.Time, ended any) []any {
		return []any{run, pipeline, started, ended, status, `{}`, nil}
	}
	reject := func(pipeline, id string, resolved, accepted any) []any {
		return []any{"r1", pipeline, "a", 1, 0, "", old, id, "", "1", "no", true, resolved, id, "load", accepted}
	}
	change := func(pipeline string, at time.Time) []any {
		return []any{"r1", pipeline, "a", "a", at, "insert", `["1"]`, nil, `{}`}
	}
	event := func(source string, at time.Time) []any {
		return []any{source, 1, "e", "lead.updated", at, "hmac", "mapped", `[]`, `{}`, nil}
	}
	return []ownTable{
		{load.Certificates, [][]any{
			certificateRow("r1", "nightly", "a", old), certificateRow("r2", "nightly", "a", young),
			certificateRow("r1", "nightly", "b", old), certificateRow("r0", "nightly", "b", old),
			certificateRow("r0", "hourly", "a", old), certificateRow("r1", "hourly", "a", old),
		}},
		{load.Runs, [][]any{
			run("r0", "nightly", "complete", old, old), run("r1", "nightly", "complete", old, old),
			run("r2", "nightly", "complete", old, young), run("r3", "nightly", "failed", old, nil),
			run("r4", "nightly", "running", old, nil), run("r5", "hourly", "complete", old, old),
		}},
		{load.Rejects, [][]any{
			reject("nightly", "open", nil, nil), reject("nightly", "accepted", nil, old), reject("nightly", "resolved", old, nil),
			reject("nightly", "young", young, nil), reject("hourly", "other", old, nil),
		}},
		{load.RowChanges, [][]any{
			change("nightly", old), change("nightly", young), change("hourly", old),
		}},
		{load.Checks, [][]any{
			checkRow("nightly", old), checkRow("nightly", young), checkRow("hourly", old),
		}},
		{load.Events, [][]any{
			event("acme", old), event("acme", late), event("acme", young), event("globex", old),
		}},
		{load.Changes, [][]any{
			note("people", old), note("people", young), note("people__phones", old), note("peoples", old),
		}},
	}
}

// ownTable has rows of one of penstock's own tables.
type ownTable struct {
	table schemas.Table
	rows  [][]any
}

func certificateRow(run, pipeline, stream string, at time.Time) []any {
	return []any{run, pipeline, stream, at, "proven", `{}`, 1, 1, 0, 1, 0, 0, 0, 1, 1}
}

func checkRow(pipeline string, at time.Time) []any {
	return []any{"r1", pipeline, "a", "a", "rows", "rows", "warn", at, "ok", 0, 3, nil, nil, 1}
}

// writeOwn commits rows of one of penstock's own tables.
func (b *fixture) writeOwn(t schemas.Table, rows ...[]any) {
	b.Helper()
	next := state.Cursor(t.Name)
	require.NoError(b, load.CommitRows(b.Context(), b.dest, b.key, b.cursor, next, b.pass, t, rows...))
	b.cursor = next
}
