//go:build iceberg && unix

package iceberg

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/load/parquet/partition"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// putAll commits one pass over the records of the table `things`.
func putAll(t *testing.T, l *parquet.Lake, from state.Cursor, n int, columns []arrow.Field, rows ...loadtest.Row) (state.Cursor, error) {
	t.Helper()
	things := schemas.Table{Name: "things", Key: []string{"id"}, Columns: arrow.NewSchema(append(columns, own...), nil)}
	for i, r := range rows {
		r[schemas.ColSyncedAt], r[schemas.ColRun], r[schemas.ColHash], r[schemas.ColOrdinal] = "2026-11-20T12:00:00Z", run(n), fmt.Sprint(n, r), fmt.Sprint(i)
	}
	x, err := l.Begin(t.Context(), key, from, load.Pass{Run: run(n), Whole: true})
	require.NoError(t, err)
	b := loadtest.Batch(t, things, rows...)
	defer b.Release()
	require.NoError(t, x.Write(t.Context(), things, b))
	next := state.Cursor(fmt.Sprint("at ", n))
	return next, x.Commit(t.Context(), next)
}

var partitionColumns = []arrow.Field{
	schemas.Field("id", schemas.Int64, "/id"), schemas.Field("name", schemas.Text, "/name"),
	schemas.Field("day", schemas.Date, "/day"), schemas.Field("at", schemas.Timestamp, "/at"),
}

// partitionRows returns n records. Each hour has one record, and 24 records have the same day and name.
func partitionRows(n int) (out []loadtest.Row) {
	for i := range n {
		out = append(out, loadtest.Row{
			"id": fmt.Sprint(i), "name": fmt.Sprintf("%c%c/%d", 'a'+i/48, 'a'+i/24, i/24),
			"day": fmt.Sprintf("2026-11-%02d", 1+i/24), "at": fmt.Sprintf("2026-11-%02dT%02d:30:00Z", 1+i/24, i%24),
		})
	}
	return out
}

// partitionFilters has a filter for each partitioning: as text for pyiceberg, and as an expression for iceberg-go. It
// also has three numbers: the files in the table, the files that a scan with the filter reads, and the rows that the
// scan returns.
var partitionFilters = map[string]struct {
	filter             string
	expr               iceberg.BooleanExpression
	files, read, found int
}{
	"name:identity":   {"name = 'bc/2'", is(iceberg.OpEQ, "name", "bc/2"), 6, 1, 24},
	"name:truncate:1": {"name >= 'c' and name < 'd'", iceberg.NewAnd(is(iceberg.OpGTEQ, "name", "c"), is(iceberg.OpLT, "name", "d")), 3, 1, 48},
	"name:bucket:64":  {"name = 'bc/2'", is(iceberg.OpEQ, "name", "bc/2"), 6, 1, 24},
	"id:truncate:24":  {"id >= 24 and id < 72", iceberg.NewAnd(is(iceberg.OpGTEQ, "id", "24"), is(iceberg.OpLT, "id", "72")), 6, 2, 48},
	"id:bucket:8":     {"id = 50", is(iceberg.OpEQ, "id", "50"), 8, 1, 1},
	"day:year":        {"day = '2025-11-03'", is(iceberg.OpEQ, "day", "2025-11-03"), 1, 0, 0},
	"day:identity":    {"day = '2026-11-03'", is(iceberg.OpEQ, "day", "2026-11-03"), 6, 1, 24},
	"at:day":          {"at >= '2026-11-06T00:00:00+00:00'", is(iceberg.OpGTEQ, "at", "2026-11-06T00:00:00+00:00"), 6, 1, 24},
	"at:hour":         {"at >= '2026-11-06T20:00:00+00:00'", is(iceberg.OpGTEQ, "at", "2026-11-06T20:00:00+00:00"), 144, 4, 4},
}

func is(op iceberg.Operation, column, value string) iceberg.BooleanExpression {
	return iceberg.LiteralPredicate(op, iceberg.Reference(column), iceberg.NewLiteral(value))
}

const pyplans = `
import json, sys
from pyiceberg.catalog.sql import SqlCatalog
out = {}
for path, f in zip(sys.argv[1::2], sys.argv[2::2]):
    catalog = SqlCatalog("penstock", uri="sqlite:///" + path + "/catalog.db", warehouse="file://" + path, init_catalog_tables="false")
    scan = catalog.load_table("penstock.things").scan(row_filter=f)
    out[path] = [len(list(scan.plan_files())), scan.to_arrow().num_rows]
print(json.dumps(out))
`

func TestPartitionTransforms(t *testing.T) {
	var args []string
	plans, got := map[string][]int{}, map[string][]int{}
	for text, want := range partitionFilters {
		by, err := partition.Parse(text)
		require.NoError(t, err)
		o := warehouse(t)
		o.PartitionBy = by
		l := open(t, o)
		rows := partitionRows(144)
		at, err := putAll(t, l, "", 1, partitionColumns, rows...)
		require.NoError(t, err)
		require.Equal(t, want.files, planned(t, o, iceberg.AlwaysTrue{}), text)
		rows[7]["name"], rows[7]["at"], rows[7]["day"] = "zz", "2024-11-01T00:30:00Z", "2024-11-01"
		delete(rows[8], "name")
		delete(rows[8], "at")
		delete(rows[8], "day")
		at, err = putAll(t, l, at, 2, partitionColumns, rows...)
		require.NoError(t, err)
		require.Equal(t, byID(rows), byID(read(t, o, "things")), text)
		_, err = putAll(t, l, at, 3, partitionColumns, partitionRows(144)...)
		require.NoError(t, err)
		require.Equal(t, byID(partitionRows(144)), byID(read(t, o, "things")), text)
		require.Equal(t, want.read, planned(t, o, want.expr), text)
		args = append(args, o.Path, want.filter)
		plans[o.Path] = []int{want.read, want.found}
	}
	ask(t, &got, pyplans, args...)
	require.Equal(t, plans, got)
}

// byID returns a map from the IDs of the records to their names.
func byID(rows []loadtest.Row) map[string]string {
	out := map[string]string{}
	for _, r := range rows {
		out[r["id"]] = r["name"]
	}
	return out
}

// planned returns the number of files in the table `things` that a scan with the given filter reads.
func planned(t *testing.T, o Options, filter iceberg.BooleanExpression) int {
	t.Helper()
	all, err := metadata(t, o, "things").Scan(table.WithRowFilter(filter)).PlanFiles(t.Context())
	require.NoError(t, err)
	return len(all)
}

// If a column does not fit the partitioning, the destination returns an error before the first write. If the type of
// the column changes later, the partitioning ends.
func TestPartitionMisfit(t *testing.T) {
	o := warehouse(t)
	o.PartitionBy = partition.Spec{Column: "name", Transform: partition.Month}
	l := open(t, o)
	_, err := putAll(t, l, "", 1, partitionColumns, partitionRows(1)...)
	require.ErrorContains(t, err, `table things: partition_by=name:month: column "name" has the type text, which cannot be partitioned by month; these transforms fit: identity, bucket, truncate`)
	tables, err := l.Tables(t.Context(), "things")
	require.NoError(t, err)
	require.Empty(t, tables)
	require.NoError(t, l.CheckTable(schemas.Table{Name: "other", Columns: arrow.NewSchema(partitionColumns[:1], nil)}))
	require.ErrorAs(t, l.CheckTable(schemas.Table{Name: "other", Columns: arrow.NewSchema(partitionColumns, nil)}), new(*partition.MisfitError))
}

func TestPartitionColumnWidens(t *testing.T) {
	o := warehouse(t)
	o.PartitionBy = partition.Spec{Column: "id2", Transform: partition.Bucket, Width: 4}
	l := open(t, o)
	id := schemas.Field("id", schemas.Int64, "/id")
	at, err := putAll(t, l, "", 1, []arrow.Field{id, schemas.Field("id2", schemas.Int64, "/id2")}, loadtest.Row{"id": "1", "id2": "1"}, loadtest.Row{"id": "2", "id2": "2"})
	require.NoError(t, err)
	spec := metadata(t, o, "things").Spec()
	require.Equal(t, "id2_bucket_4", spec.Field(0).Name)
	_, err = putAll(t, l, at, 2, []arrow.Field{id, schemas.Field("id2", schemas.Text, "/id2")}, loadtest.Row{"id": "1", "id2": "x"}, loadtest.Row{"id": "2", "id2": "2"})
	require.NoError(t, err)
	spec = metadata(t, o, "things").Spec()
	require.Zero(t, spec.NumFields(), "the text of a number is in another bucket than the number, so the partitioning ends")
	columnsOfManifestsExist(t, o)
	require.Len(t, read(t, o, "things"), 2)
}

// A time of the year 9999 may be in the year 10000 in UTC.
func TestPartitionYear10000(t *testing.T) {
	for _, transform := range []partition.Transform{partition.Year, partition.Month, partition.Day, partition.Hour} {
		o := warehouse(t)
		o.PartitionBy = partition.Spec{Column: "at", Transform: transform}
		rows := partitionRows(2)
		rows[1]["at"] = "10000-01-01T06:59:59Z"
		_, err := putAll(t, open(t, o), "", 1, partitionColumns, rows...)
		require.NoError(t, err, transform)
		require.Equal(t, 1, planned(t, o, is(iceberg.OpGTEQ, "at", "9999-12-31T23:59:59+00:00")), transform)
	}
}
