package loadtest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func testOwnTables(t *testing.T, d Driver) {
	b := newFixture(t, d)
	b.pass.Now = nil
	run := func(status string) {
		x := b.begin()
		runs, err := load.Rows(load.Runs, []any{"r1", "nightly", noon, nil, status, `{"streams":1}`, nil})
		require.NoError(t, err)
		defer runs.Release()
		certificate, err := load.Rows(load.Certificates,
			[]any{"r1", "nightly", "sales.orders", noon, "proven", `[]`, 3, 3, 1, 2, 0, 0, 0, 1, 1})
		require.NoError(t, err)
		defer certificate.Release()
		drift, err := load.Rows(load.Changes, []any{time.Now(), "r1", "people", "name", "", load.ActionDrift, "", "", "warned: null_rate"})
		require.NoError(t, err)
		defer drift.Release()
		b.write(x, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}})
		out, err := x.Apply(t.Context(), load.Sweep{Table: "people"})
		require.NoError(t, err)
		require.EqualValues(t, 1, out.Written+out.Unchanged+out.Deduplicated)
		require.NoError(t, x.Write(t.Context(), load.Runs, runs))
		require.NoError(t, x.Write(t.Context(), load.Certificates, certificate))
		require.NoError(t, x.Write(t.Context(), load.Changes, drift))
		out, err = x.Apply(t.Context(), load.Sweep{})
		require.NoError(t, err)
		require.Equal(t, load.Outcome{}, out, "rows of penstock's own tables are not counted")
		b.finish(x)
	}
	run("running")
	run("complete")
	b.reopen()
	runs := b.driver.Rows(t, b.dest, load.Runs.Name)
	require.Equal(t, []Row{{
		"run": "r1", "pipeline": "nightly", "started_at": "2026-11-20T12:00:00Z", "status": "complete", "counts": `{"streams":1}`,
	}}, runs, "rows with a key are replaced")
	require.Len(t, b.driver.Rows(t, b.dest, load.Certificates.Name), 2, "rows without a key are appended")
	states := b.driver.Rows(t, b.dest, load.State.Name)
	require.Len(t, states, 1)
	at, err := time.Parse(time.RFC3339, states[0]["updated_at"])
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), at, time.Minute)
	delete(states[0], "updated_at")
	require.Equal(t, Row{"pipeline": "nightly", "stream": "sales.orders", "cursor": `{"n":2}`, "sequence": "2"}, states[0])
	changes := b.driver.Rows(t, b.dest, load.Changes.Name)
	require.True(t, slices.ContainsFunc(changes, func(r Row) bool {
		return r["table"] == "people" && r["column"] == "name" && r["source"] == "/name" && r["action"] == load.ActionAdd && r["to_type"] == "text"
	}), "created columns are recorded")
	require.True(t, slices.ContainsFunc(changes, func(r Row) bool { return r["action"] == load.ActionDrift && r["reason"] == "warned: null_rate" }))
	tables, err := b.dest.Tables(t.Context(), "people")
	require.NoError(t, err)
	require.Len(t, tables, 1, "drift of the source is not a change of a table")
}

// testClock uses a clock that differs from this machine's clock by years.
func testClock(t *testing.T, d Driver) {
	b := newFixture(t, d)
	there := time.Date(2031, 2, 3, 4, 5, 6, 789012345, time.FixedZone("", 3600))
	b.pass.Now = func() time.Time { return there }
	bare := person(b.pass.Run, 0, "1", "a\x00b")
	x := b.begin()
	b.write(x, put{people, []Row{bare}})
	b.finish(x)
	b.reopen()
	near := func(table, column string) {
		rows := b.driver.Rows(t, b.dest, table)
		for _, r := range rows {
			at, err := time.Parse(time.RFC3339, r[column])
			require.NoError(t, err)
			require.WithinDuration(t, there.Truncate(time.Microsecond), at, time.Millisecond, "%s of %v", column, r)
		}
		if table != load.Rejects.Name || d.Escape != nil {
			require.NotEmpty(t, rows, table)
		}
	}
	near(load.State.Name, "updated_at")
	near(load.Changes.Name, "at")
	near(load.Rejects.Name, "at")
}

// testOwnOrder writes rows of penstock's own tables again in a later batch. These rows have no ordinals to order them,
// so the row that was written last is kept.
func testOwnOrder(t *testing.T, d Driver) {
	b := newFixture(t, d)
	x := b.begin()
	run := func(id, status string) Row { return Row{"run": id, "pipeline": "nightly", "status": status} }
	b.write(x,
		put{load.Runs, []Row{run("r1", "running"), run("r2", "running"), run("r3", "running")}},
		put{load.Runs, []Row{run("r3", "complete"), run("r4", "running")}},
		put{load.Runs, []Row{run("r2", "complete")}})
	b.finish(x)
	require.ElementsMatch(t, []Row{run("r1", "running"), run("r2", "complete"), run("r3", "complete"), run("r4", "running")},
		d.Rows(t, b.dest, load.Runs.Name))
}

// testRejectsMetAgain writes the rejects of an unchanged source in several runs. Each reject stays one row, with the
// values of the last run.
func testRejectsMetAgain(t *testing.T, d Driver) {
	b := newFixture(t, d)
	reject := func(run, stream, id, pointer string) Row {
		return Row{"run": run, "pipeline": "nightly", "stream": stream, "pass": "1", "ordinal": "3", "pointer": pointer, "key": id, "record_id": id, "record": "true", "raw": "{}"}
	}
	var want []Row
	for _, run := range []string{"r1", "r2", "r3"} {
		want = []Row{reject(run, "crm.leads", "1", ""), reject(run, "crm.leads", "1", "/a"), reject(run, "crm.leads", `"#x"`, ""), reject(run, "crm.deals", "1", "")}
		x := b.begin()
		b.write(x, put{load.Rejects, want})
		b.finish(x)
	}
	require.ElementsMatch(t, want, d.Rows(t, b.dest, load.Rejects.Name))
}

func testTables(t *testing.T, d Driver) {
	b := newFixture(t, d)
	tables, err := b.dest.Tables(t.Context(), "people")
	require.NoError(t, err)
	require.Empty(t, tables)
	items := hanging("people__items", schemas.Int64, false, column("sku", schemas.JSON))
	other := root("people_other", []string{"id"}, column("id", schemas.Int64))
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}}, put{items, itemsOf(b.pass.Run, 0, "h-ann", "1", "{}")}, put{other, nil})
	for range 2 {
		tables, err = b.dest.Tables(t.Context(), "people")
		require.NoError(t, err)
		require.Len(t, tables, 2)
		require.Equal(t, "people", tables[0].Name)
		require.Equal(t, []string{"id"}, tables[0].Key)
		require.Equal(t, "people__items", tables[1].Name)
		require.Empty(t, tables[1].Key)
		f, ok := tables[1].Columns.FieldsByName("sku")
		require.True(t, ok)
		require.Equal(t, "json", schemas.TypeName(schemas.TypeOf(f[0])))
		require.Equal(t, "/sku", schemas.Source(f[0]))
		b.reopen()
	}
}

func testMoved(t *testing.T, d Driver) {
	b := newFixture(t, d)
	b.finish(b.begin())
	b.cursor = "elsewhere"
	x, err := b.dest.Begin(t.Context(), b.key, b.cursor, b.pass)
	if err == nil {
		b.write(x, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}})
		err = x.Commit(t.Context(), "next")
	}
	require.ErrorIs(t, err, state.ErrMoved)
	require.Empty(t, b.rows("people"))
	c, err := b.dest.Cursor(t.Context(), b.key)
	require.NoError(t, err)
	require.EqualValues(t, `{"n":1}`, c)
}

func testMovedABA(t *testing.T, d Driver) {
	b := newFixture(t, d)
	b.finish(b.begin())
	late := b.begin()
	b.write(late, put{people, []Row{person(b.pass.Run, 0, "1", "late")}})
	again := b.cursor
	for _, next := range []state.Cursor{"other", again} {
		x := b.begin()
		require.NoError(t, x.Commit(t.Context(), next))
		b.cursor = next
	}
	require.ErrorIs(t, late.Commit(t.Context(), "next"), state.ErrMoved)
	require.Empty(t, b.rows("people"))
}

func testMovedElsewhere(t *testing.T, d Driver) {
	b := newFixture(t, d)
	b.finish(b.begin())
	late := b.begin()
	other := *b
	other.dest = nil
	other.reopen()
	other.finish(other.begin())
	require.NoError(t, other.dest.Close())
	b.write(late, put{people, []Row{person(b.pass.Run, 0, "1", "late")}})
	require.ErrorIs(t, late.Commit(t.Context(), "next"), state.ErrMoved)
	require.Empty(t, b.rows("people"))
	c, err := b.dest.Cursor(t.Context(), b.key)
	require.NoError(t, err)
	require.Equal(t, other.cursor, c)
}

func testConcurrent(t *testing.T, d Driver) {
	b := newFixture(t, d)
	const streams, commits = 8, 4
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			s := *b
			s.key.Stream = fmt.Sprint("s.", i)
			table := root(fmt.Sprint("t", i), []string{"id"}, column("id", schemas.Int64))
			for n := range commits {
				s.commit(load.Sweep{Table: table.Name}, put{table, []Row{with(s.pass.Run, n, "a", Row{"id": fmt.Sprint(n)})}})
			}
		})
	}
	wg.Wait()
	b.reopen()
	for i := range streams {
		require.Len(t, b.rows(fmt.Sprint("t", i)), commits)
	}
	require.Len(t, b.driver.Rows(t, b.dest, load.State.Name), streams)
}

// testRace starts many transactions from one cursor. Only one may commit.
func testRace(t *testing.T, d Driver) {
	b := newFixture(t, d)
	const n = 6
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		x := b.begin()
		b.write(x, put{people, []Row{person(b.pass.Run, 0, fmt.Sprint(i), "ann")}})
		wg.Go(func() { errs[i] = x.Commit(t.Context(), state.Cursor(fmt.Sprint("c", i))) })
	}
	wg.Wait()
	won := -1
	for i, err := range errs {
		if err == nil {
			require.Equal(t, -1, won, "two transactions that began from the same cursor have committed")
			won = i
			continue
		}
		require.ErrorIs(t, err, state.ErrMoved)
	}
	require.Equal(t, []Row{{"id": fmt.Sprint(won), "name": "ann"}}, b.rows("people"))
}

func testRollback(t *testing.T, d Driver) {
	b := newFixture(t, d)
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}})
	b.run(2)
	wider := root("people", []string{"id"}, column("id", schemas.Text), column("name", schemas.Text), column("more", schemas.Text))
	x := b.begin()
	b.write(x, put{wider, []Row{with(b.pass.Run, 0, "n", Row{"id": "1", "name": "new", "more": "x"})}}, put{lines, linesOf(b.pass.Run, "a")})
	_, err := x.Apply(t.Context(), sweep("people"))
	require.NoError(t, err)
	require.NoError(t, x.Rollback())
	require.NoError(t, x.Rollback(), "a second rollback does nothing")
	require.Equal(t, []Row{{"id": "1", "name": "ann"}}, b.rows("people"))
	require.Empty(t, b.rows("lines"))
	tables, err := b.dest.Tables(t.Context(), "people")
	require.NoError(t, err)
	require.Len(t, tables, 1)
	require.False(t, tables[0].Columns.HasField("more"))
	c, err := b.dest.Cursor(t.Context(), b.key)
	require.NoError(t, err)
	require.Equal(t, b.cursor, c)
	out := b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}})
	require.Equal(t, load.Outcome{Unchanged: 1}, out)
}

func testUsedUp(t *testing.T, d Driver) {
	b := newFixture(t, d)
	x := b.begin()
	b.finish(x)
	require.NoError(t, x.Rollback())
	batch := Batch(t, people)
	defer batch.Release()
	require.Error(t, x.Write(t.Context(), people, batch))
	_, err := x.Apply(t.Context(), load.Sweep{})
	require.Error(t, err)
	require.Error(t, x.Commit(t.Context(), "again"))
	c, err := b.dest.Cursor(t.Context(), b.key)
	require.NoError(t, err)
	require.Equal(t, b.cursor, c)
}
