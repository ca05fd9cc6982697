package loadtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

func testTypes(t *testing.T, d Driver) {
	b := newFixture(t, d)
	table, rows := everything(nil)
	out := b.commit(load.Sweep{}, put{table, rows})
	require.EqualValues(t, len(rows), out.Written)
	var want []Row
	zeros := 0
	for _, r := range plain(rows) {
		if strings.Contains(r["words"], "\x00") && d.Escape != nil {
			r["words"] = d.Escape(r["words"])
			zeros++
		}
		if text, ok := r["moment"]; ok && d.LastTime != nil && d.LastTime(text) != text {
			r["moment"] = d.LastTime(text)
			zeros++
		}
		want = append(want, r)
	}
	b.same(want, b.rows("everything"))
	require.Len(t, b.driver.Rows(t, b.dest, load.Rejects.Name), zeros, "escaped values are recorded as rejects")
	b.reopen()
	b.same(want, b.rows("everything"))
	b.run(2)
	out = b.commit(sweep("everything"), put{table, rows})
	require.Equal(t, load.Outcome{Unchanged: int64(len(rows)), Alive: int64(len(rows)), Known: true}, out)
}

func (b *fixture) same(want, got []Row) {
	b.Helper()
	byID := map[string]Row{}
	for _, r := range got {
		byID[r["id"]] = r
	}
	require.Len(b, got, len(want))
	for _, r := range want {
		require.Equal(b, r, byID[r["id"]])
	}
}

func testLongText(t *testing.T, d Driver) {
	b := newFixture(t, d)
	text := strings.Repeat("0123456789abcdé\n", 1<<16)
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", text), person(b.pass.Run, 1, "2", "short")}})
	b.run(2)
	b.commit(sweep("people"), put{people, []Row{person(b.pass.Run, 0, "1", text+"!")}})
	b.reopen()
	rows := b.rows("people")
	require.Len(t, rows, 2)
	require.True(t, slices.ContainsFunc(rows, func(r Row) bool { return r["name"] == text+"!" }))
}

func testNulls(t *testing.T, d Driver) {
	b := newFixture(t, d)
	columns := []arrow.Field{column("id", schemas.Int64), column("nothing", schemas.Null), column("empty", schemas.Empty)}
	for _, s := range samples {
		columns = append(columns, column(s.name, s.t))
	}
	table := root("holes", []string{"id"}, columns...)
	b.commit(load.Sweep{}, put{table, []Row{
		with(b.pass.Run, 0, "a", Row{"id": "1"}),
		with(b.pass.Run, 1, "b", Row{"id": "2", "empty": "[]"}),
	}})
	require.ElementsMatch(t, []Row{{"id": "1"}, {"id": "2"}}, b.rows("holes"))
	tables, err := b.dest.Tables(t.Context(), "holes")
	require.NoError(t, err)
	require.Len(t, tables, 1)
	require.False(t, tables[0].Columns.HasField("nothing"), "a column is not created before its first value that is not null")
	require.False(t, tables[0].Columns.HasField("empty"), "a column is not created before its first list that is not empty")
	require.False(t, tables[0].Columns.HasField(schemas.ColOrdinal), "ordinals are not stored")
}

func testEmptyBatch(t *testing.T, d Driver) {
	b := newFixture(t, d)
	table := root("quiet", []string{"id"}, column("id", schemas.Int64))
	out := b.commit(load.Sweep{}, put{table, nil}, put{hanging("quiet__items", schemas.Int64, false, column("n", schemas.Int64)), nil})
	require.Equal(t, load.Outcome{}, out)
	require.Empty(t, b.rows("quiet"))
	b.commit(load.Sweep{}, put{table, []Row{with(b.pass.Run, 0, "a", Row{"id": "1"})}}, put{table, nil})
	require.Len(t, b.rows("quiet"), 1)
}

func testNothing(t *testing.T, d Driver) {
	b := newFixture(t, d)
	b.finish(b.begin())
	b.reopen()
	c, err := b.dest.Cursor(t.Context(), b.key)
	require.NoError(t, err)
	require.Equal(t, b.cursor, c)
}

func testAddColumns(t *testing.T, d Driver) {
	b := newFixture(t, d)
	narrow := root("grows", []string{"id"}, column("id", schemas.Int64))
	wide := root("grows", []string{"id"}, column("id", schemas.Int64), column("name", schemas.Text), column("tags", arrow.ListOf(schemas.Text)))
	b.commit(load.Sweep{}, put{narrow, []Row{with(b.pass.Run, 0, "a", Row{"id": "1"})}})
	b.commit(load.Sweep{}, put{wide, []Row{with(b.pass.Run, 1, "b", Row{"id": "2", "name": "x", "tags": `["y"]`})}})
	b.commit(load.Sweep{}, put{narrow, []Row{with(b.pass.Run, 2, "c", Row{"id": "3"})}})
	require.ElementsMatch(t, []Row{{"id": "1"}, {"id": "2", "name": "x", "tags": `["y"]`}, {"id": "3"}}, b.rows("grows"))
}

// widenings lists changes of a column from one type to a wider one. Each has a value, as stored before and after the
// change.
var widenings = []struct {
	from, to      arrow.DataType
	before, after string
}{
	{schemas.Int64, decimal(21, 2), "9223372036854775807", "9223372036854775807.00"},
	{decimal(16, 2), decimal(21, 2), "-1.50", "-1.50"},
	{decimal(16, 2), decimal(18, 4), "1.50", "1.5000"},
	{schemas.Bool, schemas.Text, "true", "true"},
	{schemas.Int64, schemas.Text, "-7", "-7"},
	{decimal(16, 2), schemas.Text, "1.50", "1.50"},
	{schemas.Date, schemas.Text, "2026-02-28", "2026-02-28"},
	{schemas.Timestamp, schemas.Text, "2026-11-20T00:00:00Z", "2026-11-20T00:00:00Z"},
	{schemas.Timestamp, schemas.Text, "2026-11-20T00:00:00.000100Z", "2026-11-20T00:00:00.000100Z"},
	{schemas.Text, schemas.JSON, "say \"é\"\n", `"say \"é\"\n"`},
	{schemas.Int64, schemas.JSON, "7", "7"},
	{schemas.Bool, schemas.JSON, "false", "false"},
	{decimal(16, 2), schemas.JSON, "1.50", "1.50"},
	{schemas.Date, schemas.JSON, "2026-02-28", `"2026-02-28"`},
	{schemas.Timestamp, schemas.JSON, "2026-11-20T00:00:00Z", `"2026-11-20T00:00:00Z"`},
	{arrow.ListOf(schemas.Int64), arrow.ListOf(schemas.Text), "[1,null,3]", `["1",null,"3"]`},
	{arrow.ListOf(schemas.Int64), arrow.ListOf(decimal(21, 2)), "[1]", "[1.00]"},
	{arrow.ListOf(schemas.Text), schemas.JSON, `["a\"b",null]`, `["a\"b",null]`},
	{arrow.ListOf(schemas.Int64), schemas.JSON, "[]", "[]"},
}

func testWiden(t *testing.T, d Driver) {
	for _, w := range widenings {
		t.Run(schemas.TypeName(w.from)+" to "+schemas.TypeName(w.to), func(t *testing.T) {
			b := newFixture(t, d)
			before := root("wider", []string{"id"}, column("id", schemas.Int64), column("v", w.from))
			after := root("wider", []string{"id"}, column("id", schemas.Int64), column("v", w.to))
			b.commit(load.Sweep{}, put{before, []Row{
				with(b.pass.Run, 0, "a", Row{"id": "1", "v": w.before}),
				with(b.pass.Run, 1, "b", Row{"id": "2"}),
			}})
			b.commit(load.Sweep{}, put{after, []Row{with(b.pass.Run, 2, "c", Row{"id": "3", "v": w.after})}})
			b.commit(load.Sweep{}, put{before, []Row{with(b.pass.Run, 3, "d", Row{"id": "4", "v": w.before})}})
			want := []Row{{"id": "1", "v": w.after}, {"id": "2"}, {"id": "3", "v": w.after}, {"id": "4", "v": w.after}}
			require.ElementsMatch(t, want, b.rows("wider"))
			b.reopen()
			require.ElementsMatch(t, want, b.rows("wider"), "after reopening")
		})
	}
}

func testWidenChain(t *testing.T, d Driver) {
	b := newFixture(t, d)
	chain := []arrow.DataType{schemas.Int64, decimal(21, 2), decimal(23, 4), schemas.Text, schemas.JSON}
	for round := range 2 {
		for i, typ := range chain {
			table := root("chain", []string{"id"}, column("id", schemas.Int64), column("v", typ))
			b.commit(load.Sweep{}, put{table, []Row{with(b.pass.Run, i, "a", Row{"id": fmt.Sprint(10*round + i), "v": "1"})}})
		}
	}
	require.ElementsMatch(t, []Row{
		{"id": "0", "v": `"1.0000"`}, {"id": "1", "v": `"1.0000"`}, {"id": "2", "v": `"1.0000"`}, {"id": "3", "v": `"1"`}, {"id": "4", "v": "1"},
		{"id": "10", "v": "1"}, {"id": "11", "v": "1.00"}, {"id": "12", "v": "1.0000"}, {"id": "13", "v": `"1"`}, {"id": "14", "v": "1"},
	}, b.rows("chain"))
	widened := 0
	for _, r := range b.driver.Rows(t, b.dest, load.Changes.Name) {
		if r["table"] == "chain" && r["action"] == load.ActionWiden {
			widened++
		}
	}
	require.Equal(t, len(chain)-1, widened, "each widening happens once")
}

func testShapes(t *testing.T, d Driver) {
	b := newFixture(t, d)
	first := root("mixed", []string{"id"}, column("id", schemas.Int64), column("v", schemas.Int64))
	second := root("mixed", []string{"id"}, column("v", schemas.Text), column("id", schemas.Int64), column("w", schemas.Date))
	out := b.commit(load.Sweep{},
		put{first, []Row{with(b.pass.Run, 0, "a", Row{"id": "1", "v": "1"})}},
		put{second, []Row{with(b.pass.Run, 1, "b", Row{"id": "2", "v": "two", "w": "2026-01-01"})}},
		put{first, []Row{with(b.pass.Run, 2, "c", Row{"id": "1", "v": "3"})}})
	require.Equal(t, load.Outcome{Written: 2, Inserted: 2, Deduplicated: 1}, out)
	require.ElementsMatch(t, []Row{{"id": "1", "v": "3"}, {"id": "2", "v": "two", "w": "2026-01-01"}}, b.rows("mixed"))
}

// testInexact widens columns so that the stored values lose the form that the source wrote. For example, 1.50 may
// become the text 1.5. The next pass must write the records again, although their hashes are equal.
func testInexact(t *testing.T, d Driver) {
	b := newFixture(t, d)
	item := func(t arrow.DataType) schemas.Table {
		return hanging("exact__items", schemas.Int64, false, column("p", t))
	}
	table := func(t arrow.DataType) schemas.Table {
		return root("exact", []string{"id"}, column("id", schemas.Int64), column("v", t))
	}
	child := func(run string, ordinal int, hash, cell string) Row {
		return with(run, ordinal, hash, Row{schemas.ColParent: fmt.Sprint(ordinal), schemas.ColIndex: "0", "p": cell})
	}
	money := decimal(16, 2)
	b.commit(load.Sweep{},
		put{table(money), []Row{
			with(b.pass.Run, 1, "a", Row{"id": "1", "v": "1.50"}), with(b.pass.Run, 2, "b", Row{"id": "2"}), with(b.pass.Run, 3, "c", Row{"id": "3"}),
		}},
		put{item(money), []Row{child(b.pass.Run, 2, "b", "2.50")}})
	b.run(2)
	b.commit(load.Sweep{}, put{table(schemas.Text), []Row{with(b.pass.Run, 9, "x", Row{"id": "9", "v": "odd"})}}, put{item(schemas.Text), nil})
	b.run(3)
	out := b.commit(load.Sweep{},
		put{table(schemas.Text), []Row{
			with(b.pass.Run, 1, "a", Row{"id": "1", "v": "1.5"}), with(b.pass.Run, 2, "b", Row{"id": "2"}), with(b.pass.Run, 3, "c", Row{"id": "3"}),
		}},
		put{item(schemas.Text), []Row{child(b.pass.Run, 2, "b", "2.5")}})
	require.Equal(t, load.Outcome{Written: 2, Unchanged: 1}, out)
	require.ElementsMatch(t, []Row{{"id": "1", "v": "1.5"}, {"id": "2"}, {"id": "3"}, {"id": "9", "v": "odd"}}, b.rows("exact"))
	require.ElementsMatch(t, []Row{{"p": "2.5"}}, b.rows("exact__items"))
}

func testHostileColumns(t *testing.T, d Driver) {
	columns := []arrow.Field{column("id", schemas.Int64)}
	want := Row{"id": "1"}
	for i, n := range hostile {
		if slices.Contains(d.Reserved, n) {
			continue
		}
		columns = append(columns, column(n, schemas.Text))
		want[n] = fmt.Sprint("v", i)
	}
	for i, key := range [][]string{{"id"}, {`a"b`, "k0"}, nil} {
		t.Run(fmt.Sprint(key), func(t *testing.T) {
			b := newFixture(t, d)
			b.pass.Log = true
			narrow := root(fmt.Sprint("wide", i), key, append(slices.Clone(columns[:len(columns)/2]), named(columns, key)...)...)
			table := root(fmt.Sprint("wide", i), key, columns...)
			b.commit(load.Sweep{}, put{narrow, []Row{with(runID(1), 0, "old", want)}})
			b.commit(load.Sweep{}, put{table, []Row{with(runID(1), 1, "new", want)}})
			b.run(2)
			b.commit(sweep(table.Name), put{table, []Row{with(runID(2), 1, "newer", want)}})
			b.holds(want, b.rows(table.Name))
			rows, _ := b.scanned(table.Name, nil)
			b.holds(want, plain(rows))
			b.reopen()
			b.run(3)
			out := b.commit(sweep(table.Name), put{table, []Row{with(runID(3), 1, "newer", want)}})
			require.Equal(t, load.Outcome{Unchanged: 1, Alive: 1, Known: true}, out, "no column was added again")
		})
	}
}

func (b *fixture) holds(want Row, rows []Row) {
	b.Helper()
	require.Len(b, rows, 1)
	for name, text := range want {
		require.Equal(b, text, rows[0][name], "column %q", name)
	}
	require.Len(b, rows[0], len(want))
}

func named(columns []arrow.Field, names []string) (out []arrow.Field) {
	for _, f := range columns[len(columns)/2:] {
		if slices.Contains(names, f.Name) {
			out = append(out, f)
		}
	}
	return out
}

// testHostileTables creates a table and a child table for each hostile name. One transaction creates the tables of 25
// names. A brief suite creates them only for every fourth name. testHostileColumns always uses all names.
func testHostileTables(t *testing.T, d Driver) {
	b := newFixture(t, d)
	all := func(names []string, name string) (puts []put) {
		for _, n := range names {
			f := newFamily(schemas.Merge, true)
			for i, p := range f.puts(b.pass.Run, "1:"+name+" 2:bob")[:2] {
				if p.table.Name = n + strings.Repeat("__items", i); len(p.table.Name) <= schemas.MaxName {
					puts = append(puts, p)
				}
			}
		}
		return puts
	}
	some := hostile
	if d.brief() {
		some = nil
		for i := 1; i < len(hostile); i += 4 {
			some = append(some, hostile[i])
		}
	}
	for names := range slices.Chunk(some, 25) {
		b.run(1)
		b.commit(load.Sweep{}, all(names, "ann")...)
		b.run(2)
		b.commit(load.Sweep{}, all(names, "amy")...)
	}
	b.reopen()
	for _, n := range some {
		require.ElementsMatch(t, []Row{{"id": "1", "name": "amy"}, {"id": "2", "name": "bob"}}, b.rows(n), "table %q", n)
		if items := n + "__items"; len(items) <= schemas.MaxName {
			require.ElementsMatch(t, []Row{{"sku": "amy.item"}, {"sku": "bob.item"}}, b.rows(items), "table %q", items)
		}
		tables, err := b.dest.Tables(t.Context(), n)
		require.NoError(t, err)
		require.NotEmpty(t, tables, "table %q", n)
		require.Equal(t, n, tables[0].Name)
	}
}

func testHostileValues(t *testing.T, d Driver) {
	b := newFixture(t, d)
	b.key = orders
	b.key.Pipeline = `o'clock"; --`
	b.key.Stream = "x'||chr(65)||'y"
	table := root("values", []string{"id"}, column("id", schemas.Text))
	rows := []Row{with("run'1", 0, "h'", Row{"id": "'; DROP TABLE values; --"}), with("run'1", 1, "h2", Row{"id": "a\x00b"})}
	b.pass.Run = "run'1"
	b.commit(sweep("values"), put{table, rows})
	b.commit(sweep("values"), put{table, rows})
	require.Len(t, b.rows("values"), 2)
	b.reopen()
	c, err := b.dest.Cursor(t.Context(), b.key)
	require.NoError(t, err)
	require.Equal(t, b.cursor, c)
}
