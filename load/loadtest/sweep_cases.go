package loadtest

import (
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

func testList(t *testing.T, d Driver) {
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			b, f := newFixture(t, d), newFamily(mode, true)
			b.play(f, step{run: 1, rows: "1:ann 2:bob 3:cid 4:dan", sweep: true})
			b.play(f, step{run: 2, rows: "1:ann 2:bob 3:cid", sweep: true})
			before := b.all(f)
			b.run(3)
			x := b.begin()
			b.write(x, f.puts(b.pass.Run, "1:ann")...)
			for asked, want := range map[int]int{0: 0, 1: 1, 2: 2, 100: 2} {
				if mode == schemas.Append {
					want = 0
				}
				out, err := x.Apply(t.Context(), load.Sweep{Table: "people", List: asked})
				require.NoError(t, err)
				require.True(t, out.Known)
				listed := b.keys(out)
				require.Len(t, listed, want)
				require.Subset(t, []Row{{"id": "2"}, {"id": "3"}}, listed)
			}
			b.finish(x)
			require.Equal(t, before, b.all(f), "listing deletes nothing")
		})
	}
}

func (b *fixture) keys(out load.Outcome) (rows []Row) {
	for _, batch := range out.Keys {
		rows = append(rows, RowsOf(batch)...)
		batch.Release()
	}
	return rows
}

func testSweepKeys(t *testing.T, d Driver) {
	want := each("1:ann@1 2:bob@1†2 3:cid@1†2 4:dan@1", "1:ann@1 2:bob@1 3:cid@1 4:dan@1", "1:ann@1 4:dan@1", "1:ann@1[1,) 2:bob@1[1,2†) 3:cid@1[1,2†) 4:dan@1[1,)")
	back := each("1:ann@1 2:bob@3 3:cid@1†2 4:dan@1", "1:ann@1 2:bob@1 3:cid@1 4:dan@1", "1:ann@1 2:bob@3 4:dan@1", "1:ann@1[1,) 2:bob@1[1,2†) 2:bob@3[3,) 3:cid@1[1,2†) 4:dan@1[1,)")
	ids := schemas.Table{Name: "keys", Columns: arrow.NewSchema([]arrow.Field{column("id", schemas.Int64)}, nil)}
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			b, f := newFixture(t, d), newFamily(mode, true)
			b.play(f, step{run: 1, rows: "1:ann 2:bob 3:cid 4:dan", sweep: true})
			b.run(2)
			b.pass.Whole = false // does not stop the deletion of rows with given keys, because each of these records was requested from the source
			x := b.begin()
			b.write(x, f.puts(b.pass.Run, "1:ann 2:bob")...)
			_, err := x.Apply(t.Context(), load.Sweep{Table: "people"})
			require.NoError(t, err)
			for _, keys := range [][]arrow.RecordBatch{
				{},
				{Batch(t, ids, Row{"id": "3"}), Batch(t, ids, Row{"id": "2"}, Row{"id": "99"})},
				{Batch(t, ids, Row{"id": "3"}, Row{"id": "3"})}, // a deleted row cannot be deleted again
			} {
				out, err := x.Apply(t.Context(), load.Sweep{Table: "people", Delete: true, Keys: keys})
				require.NoError(t, err)
				deleted := int64(0)
				if len(keys) == 2 && mode != schemas.Append {
					deleted = 2
				}
				require.Equal(t, deleted, out.Deleted)
				for _, k := range keys {
					k.Release()
				}
			}
			b.finish(x)
			require.Equal(t, want[mode], b.content(f))
			b.play(f, step{run: 3, rows: "2:bob"})
			require.Equal(t, back[mode], b.content(f))
			b.chronological(f)
		})
	}
}

// testSweepKeysOfOthers deletes by keys whose types differ from the table's, and by keys of two columns.
func testSweepKeysOfOthers(t *testing.T, d Driver) {
	b := newFixture(t, d)
	pairs := func(a arrow.DataType) schemas.Table {
		return root("pairs", []string{"a", "b"}, column("a", a), column("b", schemas.Text))
	}
	row := func(ordinal int, x, y string) Row { return with(b.pass.Run, ordinal, x+y, Row{"a": x, "b": y}) }
	b.commit(load.Sweep{}, put{pairs(schemas.Text), []Row{row(0, "1", "x"), row(1, "1", "y"), row(2, "z", "x")}})
	keys := Batch(t, schemas.Table{Columns: arrow.NewSchema(pairs(schemas.Int64).Columns.Fields()[:2], nil)}, Row{"a": "1", "b": "x"})
	defer keys.Release()
	b.run(2)
	s := sweep("pairs")
	s.Keys = []arrow.RecordBatch{keys}
	out := b.commit(s)
	require.EqualValues(t, 1, out.Deleted)
	require.ElementsMatch(t, []Row{{"a": "1", "b": "x", schemas.ColDeletedAt: b.when()}, {"a": "1", "b": "y"}, {"a": "z", "b": "x"}},
		b.rows("pairs", schemas.ColDeletedAt))
	x := b.begin()
	out, err := x.Apply(t.Context(), load.Sweep{Table: "pairs", List: 9})
	require.NoError(t, err)
	require.ElementsMatch(t, []Row{{"a": "1", "b": "y"}, {"a": "z", "b": "x"}}, b.keys(out))
}

func testRedelivered(t *testing.T, d Driver) {
	for i, mode := range modes {
		for _, keyed := range d.kinds(i) {
			rows := map[bool]string{true: "1:amy 2:bob 3:cid", false: "a b b"}[keyed]
			t.Run(string(mode)+map[bool]string{true: "", false: " without a key"}[keyed], func(t *testing.T) {
				b, f := newFixture(t, d), newFamily(mode, keyed)
				b.play(f, step{run: 1, rows: map[bool]string{true: "1:ann 2:bob", false: "a"}[keyed], sweep: true})
				b.run(2)
				late := b.begin()
				b.write(late, f.puts(b.pass.Run, rows)...)
				other := *b
				other.dest = nil
				other.reopen()
				other.play(f, step{run: 2, rows: rows, sweep: true})
				require.NoError(t, other.dest.Close())
				_, err := late.Apply(t.Context(), load.Sweep{})
				if err == nil {
					err = late.Commit(t.Context(), "late")
				}
				require.Error(t, err)
				require.NoError(t, late.Rollback())
				b.cursor, b.count = other.cursor, other.count
				told, before := b.content(f), b.all(f)
				out := b.play(f, step{rows: rows, sweep: true})
				require.Zero(t, out.Written+out.Deleted)
				require.Equal(t, before, b.all(f), told)
			})
		}
	}
}

func testTurns(t *testing.T, d Driver) {
	for _, c := range []struct {
		from, to schemas.Mode
		want     string
	}{
		{schemas.Merge, schemas.Append, "1:amy@2 1:art@3 2:bob@1†2 3:cid@1"},
		{schemas.Merge, schemas.Replace, "1:art@3 3:cid@1"},
		{schemas.Merge, schemas.History, "1:amy@2[2,3) 1:art@3[3,) 2:bob@1[2,2†) 3:cid@1[1,)"},
		{schemas.Replace, schemas.Merge, "1:art@3 3:cid@1"},
		{schemas.Replace, schemas.Append, "1:amy@2 1:art@3 3:cid@1"},
		{schemas.Replace, schemas.History, "1:amy@2[2,3) 1:art@3[3,) 3:cid@1[1,)"},
		{schemas.Append, schemas.Merge, ""}, {schemas.Append, schemas.Replace, ""}, {schemas.Append, schemas.History, ""},
		{schemas.History, schemas.Merge, ""}, {schemas.History, schemas.Append, ""}, {schemas.History, schemas.Replace, ""},
	} {
		t.Run(string(c.from)+" to "+string(c.to), func(t *testing.T) {
			b, before, after := newFixture(t, d), newFamily(c.from, true), newFamily(c.to, true)
			b.play(before, step{run: 1, rows: "1:ann 2:bob 3:cid", sweep: true})
			b.play(before, step{run: 2, rows: "1:amy 3:cid", sweep: true})
			b.reopen()
			b.run(3)
			if c.want == "" {
				b.refuses(before, after)
				return
			}
			b.commit(load.Sweep{}, put{table: after.root})
			tables, err := b.dest.Tables(t.Context(), "people")
			require.NoError(t, err)
			require.Len(t, tables, 3)
			for _, table := range tables {
				require.Equal(t, c.to, table.Mode, table.Name)
			}
			b.reopen()
			b.play(after, step{rows: "1:art 3:cid", sweep: true})
			require.Equal(t, c.want, b.content(after))
			turns := slices.DeleteFunc(b.driver.Rows(b, b.dest, load.Changes.Name), func(r Row) bool { return r["action"] != load.ActionChangeMode || r["to_type"] != string(c.to) })
			require.GreaterOrEqual(t, len(turns), 3, "changes of mode are recorded")
			b.chronological(after)
			b.unchanged(after, []step{{run: 3, rows: "1:art 3:cid", sweep: true}})
		})
	}
}

func (b *fixture) refuses(before, after family) {
	b.Helper()
	told := b.content(before)
	x := b.begin()
	batch := Batch(b, after.root, after.puts(b.pass.Run, "1:art")[0].rows...)
	defer batch.Release()
	err := x.Write(b.Context(), after.root, batch)
	if err == nil {
		_, err = x.Apply(b.Context(), load.Sweep{})
	}
	require.ErrorContains(b, err, string(before.root.Mode))
	require.ErrorContains(b, err, string(after.root.Mode))
	require.NoError(b, x.Rollback())
	require.Equal(b, told, b.content(before))
}
