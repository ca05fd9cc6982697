//go:build iceberg && unix

package iceberg

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/load/parquet/partition"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// engine reads all rows of a table with a program by other authors. All values of a row are texts. A column that is
// NULL has no entry in the row.
type engine func(*testing.T, schemas.Table) []loadtest.Row

// startEngine starts a program once. It returns an engine for each place.
type startEngine func(*testing.T, []Options) []engine

// The test makes the same commits in a lake and in a loadtest.Memory. After each commit, each engine must read from the
// lake the rows that the loadtest.Memory has.
func TestEngines(t *testing.T) {
	rest := inREST(t, startReference(t))
	for name, start := range map[string]startEngine{
		"PyIceberg": inPython("PyIceberg"), "Polars": inPython("Polars"), "Daft": inPython("Daft"), "DuckDB": inPython("DuckDB"),
		"Spark": inSpark, "Trino": inTrino,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each program starts for a long time
			names := []string{"folder", "folder, with deletes", "rest"}
			places := []Options{warehouse(t), withDeletes(warehouse)(t), rest(t)}
			for i := range places {
				places[i].Name, places[i].Namespace = fmt.Sprint("place", i), namespaceOf(places[i])
			}
			widened := []string{"count:bucket:4", "count:truncate:1", "count:identity"}
			if name == "Trino" { // Trino 476 has Iceberg 1.9.1, which needs the type of the column for the other two transforms
				widened = widened[:1]
			}
			for i, read := range start(t, places) {
				t.Run(names[i], func(t *testing.T) {
					readEachCommit(t, places[i], read)
					for _, by := range widened {
						readWidened(t, places[i], by, read)
					}
				})
			}
		})
	}
}

func readEachCommit(t *testing.T, o Options, read engine) {
	lake, memory := open(t, o), loadtest.NewMemory(nil)
	for n, c := range story() {
		c.in(t, lake, n)
		c.in(t, memory, n)
		for _, w := range c.writes {
			got := read(t, w.table)
			for i, r := range got {
				got[i] = canonical(t, w.table, r)
			}
			require.NotEmpty(t, got)
			require.ElementsMatch(t, memory.Rows(w.table.Name), got, "%s after commit %d", w.table.Name, n+1)
		}
		head := read(t, schemas.Table{Name: parquet.HeadTable(key.Stream), Columns: load.State.Columns}) // an internal table, in its own namespace
		require.Len(t, head, 1)
		require.Equal(t, fmt.Sprint("at ", n+1), head[0]["cursor"])
	}
}

// readWidened is about tables that are partitioned by a column whose type changes, so that the partitioning ends. The
// table still has the partition spec, but the column no longer exists. An engine may refuse such a table.
func readWidened(t *testing.T, o Options, text string, read engine) {
	by, err := partition.Parse(text)
	require.NoError(t, err)
	o.PartitionBy = by
	for _, sources := range [][]string{{""}, {"berlin", "boston"}} {
		name := fmt.Sprint("widened_", by.Transform, len(sources))
		want := []loadtest.Row{}
		for i, typ := range []arrow.DataType{schemas.Int64, schemas.Text} {
			d, source := load.Destination(open(t, o)), sources[i%len(sources)]
			if source != "" {
				d = of(t, d.(*parquet.Lake), source)
			}
			rows := []loadtest.Row{{"id": fmt.Sprint(2 * i), "count": "7"}, {"id": fmt.Sprint(2*i + 1), "count": fmt.Sprint(10 * i)}}
			things := commitCounts(t, d, name, typ, rows)
			if source != "" {
				things.Columns = arrow.NewSchema(append(things.Columns.Fields(), schemas.Field(schemas.ColSource, schemas.Text, "")), nil)
			}
			for _, r := range rows {
				row := loadtest.Row{"id": r["id"], "count": r["count"]}
				if source != "" {
					row[schemas.ColSource] = source
				}
				want = append(want, row)
			}
			var got []loadtest.Row
			for _, r := range read(t, things) {
				row := loadtest.Row{"id": r["id"], "count": r["count"]}
				if source != "" {
					row[schemas.ColSource] = r[schemas.ColSource]
				}
				got = append(got, row)
			}
			require.ElementsMatch(t, want, got, "%s, %s", name, typ)
		}
	}
}

// commitCounts commits rows with a count of the given type. It returns the table.
func commitCounts(t *testing.T, d load.Destination, name string, of arrow.DataType, rows []loadtest.Row) schemas.Table {
	t.Helper()
	things := schemas.Table{Name: name, Key: []string{"id"}, Columns: arrow.NewSchema(append([]arrow.Field{
		schemas.Field("id", schemas.Int64, "/id"), schemas.Field("count", of, "/count"),
	}, own...), nil)}
	stream := state.Key{Pipeline: "crm", Stream: "crm." + name}
	at, err := d.Cursor(t.Context(), stream)
	require.NoError(t, err)
	x, err := d.Begin(t.Context(), stream, at, load.Pass{Run: run(1), Whole: true})
	require.NoError(t, err)
	for i, r := range rows {
		r[schemas.ColSyncedAt], r[schemas.ColRun], r[schemas.ColHash], r[schemas.ColOrdinal] = "2026-11-20T12:00:00Z", run(1), r["id"], fmt.Sprint(i)
	}
	b := loadtest.Batch(t, things, rows...)
	defer b.Release()
	require.NoError(t, x.Write(t.Context(), things, b))
	require.NoError(t, x.Commit(t.Context(), at+"x"))
	return things
}

// canonical returns the row with values in the text form of package loadtest. Some engines write the number 1.5 as 1.50
// or as 15E-1.
func canonical(t *testing.T, table schemas.Table, r loadtest.Row) loadtest.Row {
	t.Helper()
	b := loadtest.Batch(t, table, r)
	defer b.Release()
	for name := range r {
		require.True(t, table.Columns.HasField(name), name)
	}
	return loadtest.RowsOf(b)[0]
}

type storyCommit struct {
	sweep  bool // delete the rows that are not in writes
	writes []storyWrite
}

type storyWrite struct {
	table schemas.Table
	rows  []loadtest.Row
}

func (c storyCommit) in(t *testing.T, d load.Destination, n int) {
	t.Helper()
	from := state.Cursor("")
	if n > 0 {
		from = state.Cursor(fmt.Sprint("at ", n))
	}
	now := func() time.Time { return storyTime(n) }
	x, err := d.Begin(t.Context(), key, from, load.Pass{Run: run(n + 1), Whole: true, Now: now})
	require.NoError(t, err)
	defer func() { _ = x.Rollback() }()
	for _, w := range c.writes {
		rows := make([]loadtest.Row, len(w.rows))
		for i, r := range w.rows {
			rows[i] = maps.Clone(r)
			rows[i][schemas.ColSyncedAt], rows[i][schemas.ColRun] = storyTime(n).Format(time.RFC3339), run(n+1)
			rows[i][schemas.ColOrdinal], rows[i][schemas.ColVia] = fmt.Sprint(i), "poll"
		}
		b := loadtest.Batch(t, w.table, rows...)
		err := x.Write(t.Context(), w.table, b)
		b.Release()
		require.NoError(t, err)
	}
	if c.sweep {
		out, err := x.Apply(t.Context(), load.Sweep{Table: "things", Delete: true})
		require.NoError(t, err)
		require.Positive(t, out.Missing)
	}
	require.NoError(t, x.Commit(t.Context(), state.Cursor(fmt.Sprint("at ", n+1))))
}

func storyTime(n int) time.Time { return time.Date(2026, 11, 20, 12, n, 0, 0, time.UTC) }

// story returns commits that add, change, delete and revive rows and their child rows, and that add and widen columns.
func story() []storyCommit {
	money, _ := schemas.Decimal(8, 2)
	more, _ := schemas.Decimal(16, 2)
	large, _ := schemas.Decimal(28, 10)
	first := []arrow.Field{
		schemas.Field("id", schemas.Int64, "/id"), schemas.Field("flag", schemas.Bool, "/flag"), schemas.Field("money", money, "/money"),
		schemas.Field("large", large, "/large"), schemas.Field("score", schemas.Float64, "/score"), schemas.Field("day", schemas.Date, "/day"),
		schemas.Field("at", schemas.Timestamp, "/at"), schemas.Field("name", schemas.Text, "/name"), schemas.Field("doc", schemas.JSON, "/doc"),
		schemas.Field("tags", arrow.ListOf(schemas.Text), "/tags"), schemas.Field("counts", arrow.ListOf(schemas.Int64), "/counts"),
		schemas.Field("number", schemas.Int64, "/number"),
	}
	last := append(append([]arrow.Field(nil), first[:11]...), schemas.Field("number", schemas.Text, "/number"), schemas.Field("note", schemas.Text, "/note"))
	last[2] = schemas.Field("money", more, "/money")
	full := loadtest.Row{
		"id": "1", "flag": "true", "money": "12.50", "large": "-1234567890123456789012345678.0123456789", "score": "0.1", "day": "2026-11-20",
		"at": "2026-11-20T08:30:15.123456Z", "name": `grüße "日本", 'it’s' None null`, "doc": `{"a": [1, 2.50, null], "b": "x\ny"}`, "tags": `["x","y \" z",""]`,
		"counts": `[9007199254740993,-1]`, "number": "9223372036854775807", schemas.ColHash: "h1",
	}
	old := loadtest.Row{
		"id": "2", "flag": "false", "money": "-0.01", "large": "0.0000000001", "score": "-1.7976931348623157e+308", "day": "1899-12-31",
		"at": "1969-12-31T23:59:59.999999Z", "name": "", "doc": "null", "tags": `[]`, "counts": `[]`, "number": "-9223372036854775808", schemas.ColHash: "h2",
	}
	late := loadtest.Row{"id": "-3", "money": "0.00", "large": "0.0000000000", "score": "1e-300", "day": "9999-12-31", "at": "9999-12-31T23:59:59Z", schemas.ColHash: "h3"}
	none := loadtest.Row{"id": "4", schemas.ColHash: "h4"}
	changed := with(full, loadtest.Row{"flag": "false", "money": "13.00", "name": "changed", "tags": `["z"]`, schemas.ColHash: "h1b"})
	revived := with(old, loadtest.Row{"money": "1234567890.25", "number": "many", "note": "new", schemas.ColHash: "h2b"})
	return []storyCommit{
		{writes: storyWrites(first, full, old, late, none)},
		{writes: storyWrites(first, changed, late, loadtest.Row{"id": "5", "name": "added", schemas.ColHash: "h5"}), sweep: true},
		{writes: storyWrites(last, with(changed, loadtest.Row{"number": "7", schemas.ColHash: "h1c"}), revived)},
	}
}

func with(r, cells loadtest.Row) loadtest.Row {
	r = maps.Clone(r)
	maps.Copy(r, cells)
	return r
}

// storyWrites returns the rows with their child rows. The first row has two items, and the second of these items has
// one part. The other rows have no child rows.
func storyWrites(columns []arrow.Field, rows ...loadtest.Row) []storyWrite {
	child := func(name string, parent arrow.DataType, columns ...arrow.Field) schemas.Table {
		columns = append(columns, schemas.Field(schemas.ColParent, parent, ""), schemas.Field(schemas.ColIndex, schemas.Int64, ""))
		return schemas.Table{Name: name, Columns: arrow.NewSchema(append(columns, own...), nil)}
	}
	sku := schemas.Field("sku", schemas.Text, "/items/sku")
	id, hash := rows[0]["id"], rows[0][schemas.ColHash]
	price, _ := schemas.Decimal(8, 2)
	return []storyWrite{
		{schemas.Table{Name: "things", Key: []string{"id"}, Columns: arrow.NewSchema(append(columns[:len(columns):len(columns)], own...), nil)}, rows},
		{child("things__items", schemas.Int64, sku, schemas.Field("price", price, "/items/price")), []loadtest.Row{
			{schemas.ColParent: id, schemas.ColIndex: "0", "sku": hash + ".0", "price": "1.50", schemas.ColHash: hash},
			{schemas.ColParent: id, schemas.ColIndex: "1", "sku": hash + ".1", schemas.ColHash: hash},
		}},
		{child("things__items__parts", schemas.Text, sku, schemas.Field(schemas.ColRoot, schemas.Int64, "")), []loadtest.Row{
			{schemas.ColParent: id + "/1", schemas.ColRoot: id, schemas.ColIndex: "0", "sku": hash + ".1.0", schemas.ColHash: hash},
		}},
	}
}
