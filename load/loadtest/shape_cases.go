package loadtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

func decimal(p, s int32) arrow.DataType { return &arrow.Decimal128Type{Precision: p, Scale: s} }

// samples are values at the edges of each type of the lattice.
var samples = []struct {
	name  string
	t     arrow.DataType
	cells []string
}{
	{"flag", schemas.Bool, []string{"true", "false"}},
	{"number", schemas.Int64, []string{"0", "-9223372036854775808", "9223372036854775807", "9007199254740993"}},
	{"money", decimal(16, 2), []string{"0.00", "-99999999999999.99", "0.10"}},
	{"fine", decimal(38, 19), []string{"1.0000000000000000001", "-9999999999999999999.9999999999999999999"}},
	{"big", decimal(38, 0), []string{"99999999999999999999999999999999999999"}},
	{"real", schemas.Float64, []string{"1e+300", "-0.1", "5e-324"}},
	{"day", schemas.Date, []string{"2026-02-28", "0001-01-01", "9999-12-31", "1582-10-10"}},
	{"moment", schemas.Timestamp, []string{"2026-11-20T08:00:00Z", "2026-11-20T08:00:00.000001Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"}},
	{"words", schemas.Text, []string{"", " ", "Zoë 🦊 \u202e", "it's \"quoted\"", "line\nbreak\ttab", "a\x00b", strings.Repeat("long ", 5000)}},
	{"document", schemas.JSON, []string{`{"a":[1,2.50,null],"b":"\u00e9"}`, `[]`, `"text"`, `12345678901234567890.5`}},
	{"numbers", arrow.ListOf(schemas.Int64), []string{"[]", "[1,2,3]", "[1,null]"}},
	{"moneys", arrow.ListOf(decimal(16, 2)), []string{"[1.50,-0.01]"}},
	{"texts", arrow.ListOf(schemas.Text), []string{`[]`, `["a","","ü\"x"]`, `[null]`}},
	{"flags", arrow.ListOf(schemas.Bool), []string{"[true,false]"}},
	{"days", arrow.ListOf(schemas.Date), []string{`["2026-02-28"]`}},
	{"moments", arrow.ListOf(schemas.Timestamp), []string{`["2026-11-20T08:00:00Z"]`}},
}

func testTypes(t *testing.T, d Driver) {
	b := newBench(t, d)
	columns := []arrow.Field{column("id", schemas.Int64)}
	var rows, want []Row
	for _, s := range samples {
		columns = append(columns, column(s.name, s.t))
		for _, cell := range s.cells {
			r := Row{"id": fmt.Sprint(len(rows)), s.name: cell}
			want = append(want, r)
			rows = append(rows, with(b.pass.Run, len(rows), fmt.Sprint("h", len(rows)), r))
		}
	}
	table := root("everything", []string{"id"}, columns...)
	out := b.commit(load.Sweep{}, put{table, rows})
	require.EqualValues(t, len(rows), out.Written)
	require.ElementsMatch(t, want, b.rows("everything"))
	b.reopen()
	require.ElementsMatch(t, want, b.rows("everything"), "after reopening")
}

func testNulls(t *testing.T, d Driver) {
	b := newBench(t, d)
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
	require.False(t, tables[0].Columns.HasField("nothing"), "a column of nulls waits for its first value")
	require.False(t, tables[0].Columns.HasField("empty"), "a column of empty lists waits for its first value")
	require.False(t, tables[0].Columns.HasField(schemas.ColOrdinal), "ordinals are not stored")
}

func testEmptyBatch(t *testing.T, d Driver) {
	b := newBench(t, d)
	table := root("quiet", []string{"id"}, column("id", schemas.Int64))
	out := b.commit(load.Sweep{}, put{table, nil}, put{hanging("quiet__items", schemas.Int64, false, column("n", schemas.Int64)), nil})
	require.Equal(t, load.Outcome{}, out)
	require.Empty(t, b.rows("quiet"))
	b.commit(load.Sweep{}, put{table, []Row{with(b.pass.Run, 0, "a", Row{"id": "1"})}}, put{table, nil})
	require.Len(t, b.rows("quiet"), 1)
}

func testNothing(t *testing.T, d Driver) {
	b := newBench(t, d)
	b.finish(b.begin())
	b.reopen()
	c, err := b.dest.Cursor(t.Context(), b.key)
	require.NoError(t, err)
	require.Equal(t, b.cursor, c)
}

func testAddColumns(t *testing.T, d Driver) {
	b := newBench(t, d)
	narrow := root("grows", []string{"id"}, column("id", schemas.Int64))
	wide := root("grows", []string{"id"}, column("id", schemas.Int64), column("name", schemas.Text), column("tags", arrow.ListOf(schemas.Text)))
	b.commit(load.Sweep{}, put{narrow, []Row{with(b.pass.Run, 0, "a", Row{"id": "1"})}})
	b.commit(load.Sweep{}, put{wide, []Row{with(b.pass.Run, 1, "b", Row{"id": "2", "name": "x", "tags": `["y"]`})}})
	b.commit(load.Sweep{}, put{narrow, []Row{with(b.pass.Run, 2, "c", Row{"id": "3"})}})
	require.ElementsMatch(t, []Row{{"id": "1"}, {"id": "2", "name": "x", "tags": `["y"]`}, {"id": "3"}}, b.rows("grows"))
}

// widenings are single steps in the lattice, with a cell before and after.
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
			b := newBench(t, d)
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
	b := newBench(t, d)
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
	b := newBench(t, d)
	first := root("mixed", []string{"id"}, column("id", schemas.Int64), column("v", schemas.Int64))
	second := root("mixed", []string{"id"}, column("v", schemas.Text), column("id", schemas.Int64), column("w", schemas.Date))
	out := b.commit(load.Sweep{},
		put{first, []Row{with(b.pass.Run, 0, "a", Row{"id": "1", "v": "1"})}},
		put{second, []Row{with(b.pass.Run, 1, "b", Row{"id": "2", "v": "two", "w": "2026-01-01"})}},
		put{first, []Row{with(b.pass.Run, 2, "c", Row{"id": "1", "v": "3"})}})
	require.Equal(t, load.Outcome{Written: 2, Inserted: 2, Deduplicated: 1}, out)
	require.ElementsMatch(t, []Row{{"id": "1", "v": "3"}, {"id": "2", "v": "two", "w": "2026-01-01"}}, b.rows("mixed"))
}

// testInexact widens columns whose stored values lost their spelling: the pass
// after it must be able to write them anew, though their hashes are the same.
func testInexact(t *testing.T, d Driver) {
	b := newBench(t, d)
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

func testHostileNames(t *testing.T, d Driver) {
	names := []string{
		"select", "user", "order", "group", " ", "a.b", `a"b`, "a'b", "a;--", "%s", "$1", "{x}", "1st", "ctid", "xmin", "tableoid",
		"rowid", "_penstock_ord", "🦊", "שלום", "a\u202eb", "é", "e\u0301", "k0", "o", "n", "st", "h", "t", "s", "c", "carried", "again",
		strings.Repeat("x", 63), `x"; DROP TABLE t; --`, "`", "]", "\\", "a\nb",
	}
	b := newBench(t, d)
	columns := []arrow.Field{column("id", schemas.Int64)}
	want := Row{"id": "1"}
	for i, n := range names {
		columns = append(columns, column(n, schemas.Text))
		want[n] = fmt.Sprint("v", i)
	}
	for i, name := range []string{"select", `tab"le`, "a'b; --", "🦊", "a b.c"} {
		for _, key := range [][]string{{"id"}, {`a"b`, "k0"}, nil} {
			table := root(fmt.Sprint(name, "_", len(key)), key, columns...)
			b.key.Stream = fmt.Sprintf("s'%d.%d", i, len(key))
			b.cursor = ""
			b.commit(load.Sweep{}, put{table, []Row{with("run000000001", 0, "old", want)}})
			b.commit(load.Sweep{}, put{table, []Row{with("run000000001", 1, "new", want)}})
			b.run(2)
			b.commit(sweep(table.Name), put{table, []Row{with("run000000002", 1, "newer", want)}})
			rows := b.driver.Rows(t, b.dest, table.Name)
			require.Len(t, rows, 1, table.Name)
			for n, text := range want {
				require.Equal(t, text, rows[0][n], "column %q of %s", n, table.Name)
			}
			b.run(1)
		}
	}
}

func testHostileValues(t *testing.T, d Driver) {
	b := newBench(t, d)
	b.key = orders
	b.key.Pipeline = `o'clock"; --`
	b.key.Stream = "x'||chr(65)||'\x00y"
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
