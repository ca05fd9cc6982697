package loadtest

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

var people = root("people", []string{"id"}, column("id", schemas.Int64), column("name", schemas.Text))

func person(run string, ordinal int, id, name string) Row {
	return with(run, ordinal, "h-"+name, Row{"id": id, "name": name})
}

func testUnchanged(t *testing.T, d Driver) {
	b := newFixture(t, d)
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann"), person(b.pass.Run, 1, "2", "bob"), person(b.pass.Run, 2, "3", "cid")}})
	b.reopen()
	b.run(2)
	out := b.commit(sweep("people"), put{people, []Row{person(b.pass.Run, 0, "1", "ann"), person(b.pass.Run, 1, "2", "bea"), person(b.pass.Run, 2, "3", "cid"), person(b.pass.Run, 3, "4", "dan")}})
	require.Equal(t, load.Outcome{Written: 2, Inserted: 1, Unchanged: 2, Alive: 4, Known: true}, out)
	require.ElementsMatch(t, []Row{
		{"id": "1", "name": "ann", schemas.ColRun: "run000000001"},
		{"id": "2", "name": "bea", schemas.ColRun: "run000000002"},
		{"id": "3", "name": "cid", schemas.ColRun: "run000000001"},
		{"id": "4", "name": "dan", schemas.ColRun: "run000000002"},
	}, b.rows("people", schemas.ColRun))
}

func testDuplicates(t *testing.T, d Driver) {
	b := newFixture(t, d)
	rows := []Row{
		person(b.pass.Run, 5, "1", "last"), person(b.pass.Run, 1, "1", "first"), person(b.pass.Run, 3, "1", "middle"),
		person(b.pass.Run, 2, "2", "one"), person(b.pass.Run, 4, "2", "one"),
	}
	out := b.commit(load.Sweep{}, put{people, rows[:2]}, put{people, rows[2:]})
	require.Equal(t, load.Outcome{Written: 2, Inserted: 2, Deduplicated: 3}, out)
	require.ElementsMatch(t, []Row{{"id": "1", "name": "last"}, {"id": "2", "name": "one"}}, b.rows("people"))
}

func testDuplicatesInPass(t *testing.T, d Driver) {
	b := newFixture(t, d)
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann"), person(b.pass.Run, 1, "2", "bob"), person(b.pass.Run, 2, "3", "cid")}})
	b.run(2)
	out := b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann"), person(b.pass.Run, 1, "2", "bea")}})
	require.Equal(t, load.Outcome{Written: 1, Unchanged: 1}, out)
	out = b.commit(load.Sweep{}, put{people, []Row{
		person(b.pass.Run, 2, "1", "ann"), person(b.pass.Run, 3, "2", "bo"), person(b.pass.Run, 4, "4", "dan"),
	}})
	require.Equal(t, load.Outcome{Written: 1, Inserted: 1, Deduplicated: 2}, out, "the pass has already found one record unchanged, and written the other")
	out = b.commit(sweep("people"), put{people, []Row{person(b.pass.Run, 5, "1", "amy"), person(b.pass.Run, 6, "4", "dan")}})
	require.Equal(t, load.Outcome{Deduplicated: 2, Alive: 4, Missing: 1, Known: true, Deleted: 1}, out)
	require.ElementsMatch(t, []Row{
		{"id": "1", "name": "amy"}, {"id": "2", "name": "bo"}, {"id": "3", "name": "cid", schemas.ColDeletedAt: b.when()}, {"id": "4", "name": "dan"},
	}, b.rows("people", schemas.ColDeletedAt))
}

func testCompositeKey(t *testing.T, d Driver) {
	b := newFixture(t, d)
	table := root("pairs", []string{"a", "b"}, column("a", schemas.Int64), column("b", schemas.Text), column("v", schemas.Int64))
	row := func(ordinal int, x, y, v string) Row {
		return with(b.pass.Run, ordinal, v, Row{"a": x, "b": y, "v": v})
	}
	b.commit(load.Sweep{}, put{table, []Row{row(0, "1", "x", "1"), row(1, "1", "y", "2"), row(2, "2", "x", "3"), row(3, "1", "x", "4")}})
	b.run(2)
	out := b.commit(sweep("pairs"), put{table, []Row{row(0, "1", "x", "4"), row(1, "2", "x", "5"), row(2, "12", "x", "6")}})
	require.Equal(t, load.Outcome{Written: 2, Inserted: 1, Unchanged: 1, Alive: 4, Missing: 1, Known: true, Deleted: 1}, out)
	require.ElementsMatch(t, []Row{
		{"a": "1", "b": "x", "v": "4"}, {"a": "1", "b": "y", "v": "2", schemas.ColDeletedAt: b.when()},
		{"a": "2", "b": "x", "v": "5"}, {"a": "12", "b": "x", "v": "6"},
	}, b.rows("pairs", schemas.ColDeletedAt))
}

func testNullKey(t *testing.T, d Driver) {
	b := newFixture(t, d)
	lists := root("lists", []string{"id"}, column("id", schemas.Int64), column("name", schemas.Text))
	for _, p := range []put{
		{people, []Row{with(b.pass.Run, 0, "a", Row{"name": "nobody"})}},
		{lists, []Row{with(b.pass.Run, 0, "a", Row{"id": "1"}), with(b.pass.Run, 1, "b", nil)}},
		{load.Runs, []Row{{"pipeline": "nightly", "status": "running"}}},
		{load.Conventions, []Row{{"pipeline": "nightly", "convention": "{}"}}},
		{schemas.Table{Name: "people", Key: []string{"id"}, Columns: lines.Columns}, linesOf(b.pass.Run, "a")},
		{schemas.Table{Name: "people", Key: []string{"id"}, Columns: lines.Columns}, nil},
	} {
		batch := Batch(t, p.table, p.rows...)
		defer batch.Release()
		x := b.begin()
		err := x.Write(t.Context(), p.table, batch)
		require.ErrorContains(t, err, "key column "+p.table.Key[len(p.table.Key)-1], "rows %v of %s", p.rows, p.table.Name)
		require.ErrorContains(t, err, "write "+p.table.Name)
		require.NoError(t, x.Rollback())
	}
}

func testKeyWidens(t *testing.T, d Driver) {
	b := newFixture(t, d)
	item := func(t arrow.DataType) schemas.Table {
		return hanging("people__items", t, false, column("n", schemas.Int64))
	}
	b.commit(load.Sweep{},
		put{people, []Row{person(b.pass.Run, 0, "1", "ann"), person(b.pass.Run, 1, "2", "bob")}},
		put{item(schemas.Int64), []Row{with(b.pass.Run, 0, "h-ann", Row{schemas.ColParent: "1", schemas.ColIndex: "0", "n": "1"})}})
	texts := root("people", []string{"id"}, column("id", schemas.Text), column("name", schemas.Text))
	b.run(2)
	out := b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "2", "bob")}})
	require.Equal(t, load.Outcome{Unchanged: 1}, out)
	out = b.commit(sweep("people"), put{texts, []Row{person(b.pass.Run, 1, "1", "amy"), person(b.pass.Run, 2, "x2", "cid")}})
	require.Equal(t, load.Outcome{Written: 2, Inserted: 1, Alive: 3, Known: true}, out)
	require.ElementsMatch(t, []Row{{"id": "1", "name": "amy"}, {"id": "2", "name": "bob"}, {"id": "x2", "name": "cid"}}, b.rows("people"))
	require.Empty(t, b.rows("people__items"), "child rows are deleted with their parent")
}

func itemsOf(run string, ordinal int, hash, parent string, values ...string) []Row {
	var rows []Row
	for i, v := range values {
		rows = append(rows, with(run, ordinal, hash, Row{schemas.ColParent: parent, schemas.ColIndex: string(rune('0' + i)), "sku": v}))
	}
	return rows
}

func testChildren(t *testing.T, d Driver) {
	b := newFixture(t, d)
	items := hanging("people__items", schemas.Int64, false, column("sku", schemas.Text))
	run := b.pass.Run
	b.commit(load.Sweep{},
		put{items, append(itemsOf(run, 0, "h-ann", "1", "lost"), itemsOf(run, 1, "h-bob", "2", "c")...)},
		put{people, []Row{person(run, 0, "1", "ann"), person(run, 1, "2", "bob"), person(run, 2, "3", "cid"), person(run, 3, "1", "ann")}},
		put{items, append(itemsOf(run, 2, "h-cid", "3", "d", "e"), itemsOf(run, 3, "h-ann", "1", "a", "b")...)})
	require.ElementsMatch(t, []Row{{"sku": "a"}, {"sku": "b"}, {"sku": "c"}, {"sku": "d"}, {"sku": "e"}}, b.rows("people__items"))
	b.run(2)
	run = b.pass.Run
	out := b.commit(load.Sweep{},
		put{people, []Row{person(run, 0, "1", "amy"), person(run, 1, "2", "bob"), person(run, 2, "3", "coy")}},
		put{items, append(itemsOf(run, 0, "h-amy", "1", "f"), itemsOf(run, 1, "h-bob", "2", "c")...)})
	require.Equal(t, load.Outcome{Written: 2, Unchanged: 1}, out)
	require.ElementsMatch(t, []Row{
		{"sku": "f", schemas.ColParent: "1", schemas.ColRun: "run000000002"},
		{"sku": "c", schemas.ColParent: "2", schemas.ColRun: "run000000001"},
	}, b.rows("people__items", schemas.ColParent, schemas.ColRun))
	b.run(3)
	out = b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "art"), person(b.pass.Run, 1, "2", "bob")}})
	require.Equal(t, load.Outcome{Written: 1, Unchanged: 1}, out)
	require.Equal(t, []Row{{"sku": "c"}}, b.rows("people__items"), "old child rows are deleted even if no new ones arrive")
}

func testGrandchildren(t *testing.T, d Driver) {
	b := newFixture(t, d)
	items := hanging("people__items", schemas.Int64, false, column("sku", schemas.Text))
	parts := hanging("people__items__parts", schemas.Int64, true, column("sku", schemas.Text))
	part := func(ordinal int, root, parent, sku string) Row {
		return with(b.pass.Run, ordinal, "h", Row{schemas.ColRoot: root, schemas.ColParent: parent, schemas.ColIndex: "0", "sku": sku})
	}
	b.commit(load.Sweep{},
		put{people, []Row{person(b.pass.Run, 0, "1", "ann"), person(b.pass.Run, 1, "2", "bob")}},
		put{items, append(itemsOf(b.pass.Run, 0, "h-ann", "1", "a"), itemsOf(b.pass.Run, 1, "h-bob", "2", "b")...)},
		put{parts, []Row{part(0, "1", "1/0", "p"), part(1, "2", "2/0", "q")}})
	b.run(2)
	b.commit(sweep("people"),
		put{people, []Row{person(b.pass.Run, 0, "1", "amy")}},
		put{items, itemsOf(b.pass.Run, 0, "h-amy", "1", "c")},
		put{parts, []Row{part(0, "1", "1/0", "r")}})
	require.ElementsMatch(t, []Row{{"sku": "c"}, {"sku": "b", schemas.ColDeletedAt: b.when()}}, b.rows("people__items", schemas.ColDeletedAt))
	require.ElementsMatch(t, []Row{{"sku": "r"}, {"sku": "q", schemas.ColDeletedAt: b.when()}}, b.rows("people__items__parts", schemas.ColDeletedAt))
}

func testCompositeChildren(t *testing.T, d Driver) {
	b := newFixture(t, d)
	table := root("pairs", []string{"a", "b"}, column("a", schemas.Int64), column("b", schemas.Text))
	items := hanging("pairs__items", schemas.Text, false, column("sku", schemas.Text))
	pair := func(ordinal int, hash, x, y string) Row {
		return with(b.pass.Run, ordinal, hash, Row{"a": x, "b": y})
	}
	b.commit(load.Sweep{},
		put{table, []Row{pair(0, "p", "1", `x"/é`), pair(1, "q", "1", "y"), pair(2, "r", "2", "y")}},
		put{items, append(append(itemsOf(b.pass.Run, 0, "p", `[1,"x\"/é"]`, "i"), itemsOf(b.pass.Run, 1, "q", `[1,"y"]`, "j")...), itemsOf(b.pass.Run, 2, "r", `[2,"y"]`, "k")...)})
	b.run(2)
	b.commit(sweep("pairs"), put{table, []Row{pair(0, "p2", "1", `x"/é`), pair(1, "q", "1", "y")}})
	require.ElementsMatch(t, []Row{{"sku": "j"}, {"sku": "k", schemas.ColDeletedAt: b.when()}}, b.rows("pairs__items", schemas.ColDeletedAt))
}

func testTombstone(t *testing.T, d Driver) {
	b := newFixture(t, d)
	items := hanging("people__items", schemas.Int64, false, column("sku", schemas.Text))
	both := func() []put {
		return []put{
			{people, []Row{person(b.pass.Run, 0, "1", "ann"), person(b.pass.Run, 1, "2", "bob")}},
			{items, itemsOf(b.pass.Run, 1, "h-bob", "2", "b")},
		}
	}
	b.commit(sweep("people"), both()...)
	b.run(2)
	out := b.commit(sweep("people"), put{people, []Row{person(b.pass.Run, 0, "1", "ann")}})
	require.Equal(t, load.Outcome{Unchanged: 1, Alive: 2, Missing: 1, Known: true, Deleted: 1}, out)
	require.Equal(t, []Row{{"sku": "b", schemas.ColDeletedAt: b.when()}}, b.rows("people__items", schemas.ColDeletedAt))
	b.run(3)
	out = b.commit(sweep("people"), put{people, []Row{person(b.pass.Run, 0, "1", "ann")}})
	require.Equal(t, load.Outcome{Unchanged: 1, Alive: 1, Known: true}, out, "tombstones do not count as missing again")
	b.run(4)
	out = b.commit(sweep("people"), both()...)
	require.Equal(t, load.Outcome{Written: 1, Unchanged: 1, Revived: 1, Alive: 2, Known: true}, out)
	require.ElementsMatch(t, []Row{{"id": "1", "name": "ann"}, {"id": "2", "name": "bob"}}, b.rows("people", schemas.ColDeletedAt))
	require.Equal(t, []Row{{"sku": "b"}}, b.rows("people__items", schemas.ColDeletedAt))
}

func testSweepCounts(t *testing.T, d Driver) {
	b := newFixture(t, d)
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann"), person(b.pass.Run, 1, "2", "bob")}})
	b.run(2)
	x := b.begin()
	b.write(x, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}})
	out, err := x.Apply(t.Context(), load.Sweep{Table: "people"})
	require.NoError(t, err)
	require.Equal(t, load.Outcome{Unchanged: 1, Alive: 2, Missing: 1, Known: true}, out)
	out, err = x.Apply(t.Context(), sweep("people"))
	require.NoError(t, err)
	require.Equal(t, load.Outcome{Alive: 2, Missing: 1, Known: true, Deleted: 1}, out, "the second sweep deletes")
	b.finish(x)
	require.ElementsMatch(t, []Row{{"id": "1", "name": "ann"}, {"id": "2", "name": "bob", schemas.ColDeletedAt: b.when()}}, b.rows("people", schemas.ColDeletedAt))
}

// testIncrementalPass calls Apply several times in one transaction. First it merges rows that should already exist.
// Then it merges other rows, whose ordinals may be smaller than those of the first rows. Finally it deletes rows by
// their keys.
func testIncrementalPass(t *testing.T, d Driver) {
	b := newFixture(t, d)
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann"), person(b.pass.Run, 1, "2", "bob"), person(b.pass.Run, 2, "3", "cid"), person(b.pass.Run, 3, "4", "dan")}})
	b.run(2)
	x := b.begin()
	apply := func(s load.Sweep, rows ...Row) load.Outcome {
		if len(rows) > 0 {
			b.write(x, put{people, rows})
		}
		out, err := x.Apply(t.Context(), s)
		require.NoError(t, err)
		return out
	}
	out := apply(load.Sweep{}, person(b.pass.Run, 4, "1", "ann"), person(b.pass.Run, 5, "2", "bea"))
	require.Equal(t, load.Outcome{Written: 1, Unchanged: 1}, out, "outcome of the rows that should already exist")
	out = apply(load.Sweep{}, person(b.pass.Run, 0, "1", "amy"), person(b.pass.Run, 1, "3", "coy"), person(b.pass.Run, 2, "5", "eve"))
	require.Equal(t, load.Outcome{Written: 2, Inserted: 1, Deduplicated: 1}, out, "outcome of the other rows")
	ids := schemas.Table{Name: "keys", Columns: arrow.NewSchema([]arrow.Field{column("id", schemas.Int64)}, nil)}
	keys := []arrow.RecordBatch{Batch(t, ids, Row{"id": "3"}, Row{"id": "4"}, Row{"id": "99"})}
	defer keys[0].Release()
	out = apply(load.Sweep{Table: "people", Delete: true, Keys: keys})
	require.EqualValues(t, 2, out.Deleted)
	require.Equal(t, load.Outcome{}, apply(load.Sweep{}))
	b.finish(x)
	require.ElementsMatch(t, []Row{
		{"id": "1", "name": "amy"}, {"id": "2", "name": "bea"}, {"id": "5", "name": "eve"},
		{"id": "3", "name": "coy", schemas.ColDeletedAt: b.when()}, {"id": "4", "name": "dan", schemas.ColDeletedAt: b.when()},
	}, b.rows("people", schemas.ColDeletedAt))
}

func testSweepCommits(t *testing.T, d Driver) {
	b := newFixture(t, d)
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann"), person(b.pass.Run, 1, "2", "bob"), person(b.pass.Run, 2, "3", "cid")}})
	b.run(2)
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}})
	x := b.begin()
	b.write(x, put{people, []Row{person(b.pass.Run, 1, "2", "bob")}})
	_, err := x.Apply(t.Context(), load.Sweep{})
	require.NoError(t, err)
	require.NoError(t, x.Rollback(), "after the rollback, the keys that this transaction found unchanged are forgotten")
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 2, "3", "coy")}})
	out := b.commit(sweep("people"))
	require.Equal(t, load.Outcome{Alive: 3, Missing: 1, Known: true, Deleted: 1}, out)
	require.ElementsMatch(t, []Row{{"id": "1"}, {"id": "2", schemas.ColDeletedAt: b.when()}, {"id": "3"}}, without(b.rows("people", schemas.ColDeletedAt), "name"))
}

func without(rows []Row, column string) []Row {
	for _, r := range rows {
		delete(r, column)
	}
	return rows
}

func testSweepResumed(t *testing.T, d Driver) {
	b := newFixture(t, d)
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann"), person(b.pass.Run, 1, "2", "bob")}})
	b.run(2)
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}})
	b.reopen()
	b.pass.Whole = false
	out := b.commit(sweep("people"), put{people, []Row{person("run000000003", 1, "2", "bea")}})
	require.Equal(t, load.Outcome{Written: 1, Alive: 2, Missing: 1}, out, "a row that was found unchanged before the resume looks like a missing row")
	require.ElementsMatch(t, []Row{{"id": "1", "name": "ann"}, {"id": "2", "name": "bea"}}, b.rows("people", schemas.ColDeletedAt))
	b.run(4)
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "amy")}})
	b.reopen()
	b.pass.Whole = false
	out = b.commit(sweep("people"), put{people, []Row{person("run000000005", 1, "2", "bob")}})
	require.Equal(t, load.Outcome{Written: 1, Alive: 2, Known: true}, out, "all rows have the run id of the pass")
}

// testSweepPassBetween runs another pass between two transactions of a pass. Then the first pass no longer knows
// which records it found unchanged, so it deletes nothing. Invariant 12
func testSweepPassBetween(t *testing.T, d Driver) {
	b := newFixture(t, d)
	b.run(2)
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann"), person(b.pass.Run, 1, "2", "bob")}})
	b.run(3)
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "amy")}})
	b.run(2)
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 2, "3", "cid")}})
	b.run(4)
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "amy")}})
	b.run(5)
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "amy")}})
	b.run(4)
	out := b.commit(sweep("people"))
	require.False(t, out.Known)
	require.Zero(t, out.Deleted)
	require.Len(t, b.rows("people"), 3)
}

func testSweepNothing(t *testing.T, d Driver) {
	b := newFixture(t, d)
	out := b.commit(sweep("nowhere"))
	require.Equal(t, load.Outcome{Known: true}, out)
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}})
	b.run(2)
	out = b.commit(load.Sweep{Table: "people"})
	require.Equal(t, load.Outcome{Alive: 1, Missing: 1, Known: true}, out)
	b.run(3)
	out = b.commit(sweep("people"), put{people, nil})
	require.Equal(t, load.Outcome{Alive: 1, Missing: 1, Known: true, Deleted: 1}, out)
}

func testCompositeKeyWidens(t *testing.T, d Driver) {
	b := newFixture(t, d)
	pairs := func(a arrow.DataType) schemas.Table {
		return root("pairs", []string{"a", "b"}, column("a", a), column("b", schemas.Text))
	}
	items := hanging("pairs__items", schemas.Text, false, column("sku", schemas.Text))
	pair := func(ordinal int, hash, x, y string) Row {
		return with(b.pass.Run, ordinal, hash, Row{"a": x, "b": y})
	}
	b.commit(load.Sweep{}, put{pairs(schemas.Int64), []Row{pair(0, "p", "1", "y"), pair(1, "q", "2", "y"), pair(2, "s", "3", "y")}},
		put{items, append(append(itemsOf(b.pass.Run, 0, "p", `[1,"y"]`, "i"), itemsOf(b.pass.Run, 1, "q", `[2,"y"]`, "z")...), itemsOf(b.pass.Run, 2, "s", `[3,"y"]`, "k")...)})
	b.run(2)
	b.commit(sweep("pairs"), put{pairs(schemas.Text), []Row{pair(0, "p2", "1", "y"), pair(1, "r", "x", "y"), pair(2, "s", "3", "y")}},
		put{items, itemsOf(b.pass.Run, 0, "p2", `["1","y"]`, "j")})
	require.ElementsMatch(t, []Row{{"sku": "j"}, {"sku": "z", schemas.ColDeletedAt: b.when()}, {"sku": "k"}},
		b.rows("pairs__items", schemas.ColDeletedAt))
}

func testKeyWidensChildrenStay(t *testing.T, d Driver) {
	b := newFixture(t, d)
	items := hanging("people__items", schemas.Int64, false, column("sku", schemas.Text))
	b.commit(sweep("people"), put{people, []Row{person(b.pass.Run, 0, "1", "ann")}}, put{items, itemsOf(b.pass.Run, 0, "h-ann", "1", "a", "b")})
	texts := root("people", []string{"id"}, column("id", schemas.Text), column("name", schemas.Text))
	for i, name := range []string{"bob", "bea"} {
		b.run(2 + i)
		b.commit(sweep("people"), put{texts, []Row{person(b.pass.Run, 0, "1", "ann"), person(b.pass.Run, 1, "01", name)}})
		require.ElementsMatch(t, []Row{{"sku": "a"}, {"sku": "b"}}, b.rows("people__items", schemas.ColDeletedAt))
	}
	b.run(4)
	b.commit(sweep("people"), put{texts, []Row{person(b.pass.Run, 0, "1", "ann")}})
	require.ElementsMatch(t, []Row{{"sku": "a"}, {"sku": "b"}}, b.rows("people__items", schemas.ColDeletedAt), "record 01 is deleted, record 1 is not")
}

func testPlace(t *testing.T, d Driver) {
	b := newFixture(t, d)
	items := hanging("people__items_1", schemas.Int64, false, column("sku", schemas.Text))
	at := arrow.NewMetadata([]string{schemas.SourceKey}, []string{"/Items"})
	items.Columns = arrow.NewSchema(items.Columns.Fields(), &at)
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}}, put{items, itemsOf(b.pass.Run, 0, "h-ann", "1", "a")})
	b.reopen()
	tables, err := b.dest.Tables(t.Context(), "people")
	require.NoError(t, err)
	require.Len(t, tables, 2)
	require.Empty(t, load.SourcePointer(tables[0].Columns))
	require.Equal(t, "/Items", load.SourcePointer(tables[1].Columns), "the source pointer distinguishes this table from the table of /items")
}
