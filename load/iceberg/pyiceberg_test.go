//go:build iceberg && unix

package iceberg

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/parquet/partition"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

const pyiceberg = `
import json, sys
from pyiceberg.catalog.sql import SqlCatalog
catalog = SqlCatalog("penstock", uri="sqlite:///" + sys.argv[1], warehouse="file://" + sys.argv[2], init_catalog_tables="false")
out = {}
for name in catalog.list_tables("penstock") + catalog.list_tables("penstock_penstock"):
    t = catalog.load_table(name)
    rows = t.scan().to_arrow().to_pylist()
    out[name[1]] = {
        "rows": [{k: str(v) for k, v in r.items() if v is not None} for r in rows],
        "cursor": t.current_snapshot().summary["penstock.cursor"],
        "snapshots": [t.scan(snapshot_id=s.snapshot_id).to_arrow().num_rows for s in t.snapshots()],
        "types": {f.name: str(f.field_type) for f in t.schema().fields},
    }
print(json.dumps(out))
`

type pyTable struct {
	Rows      []map[string]string
	Cursor    string
	Snapshots []int64
	Types     map[string]string
}

// python reads the tables with pyiceberg. PENSTOCK_TEST_PYTHON names an interpreter that has pyiceberg. If it is not
// set, the test is skipped.
func python(t *testing.T, o Options) (out map[string]pyTable) {
	t.Helper()
	ask(t, &out, pyiceberg, filepath.Join(o.Path, catalogFile), o.Path)
	return out
}

func ask(t *testing.T, answer any, text string, args ...string) {
	t.Helper()
	program := cmp.Or(os.Getenv("PENSTOCK_TEST_PYTHON"), "python3")
	if err := exec.Command(program, "-c", "import pyiceberg.catalog.sql, pyarrow, sqlalchemy").Run(); err != nil {
		t.Skip("no pyiceberg: set PENSTOCK_TEST_PYTHON to an interpreter that has it (pip install 'pyiceberg[sql-sqlite,pyarrow]')")
	}
	cmd := exec.Command(program, append([]string{"-c", text}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, answer))
}

func TestPython(t *testing.T) {
	o := warehouse(t)
	o.PartitionBy = partition.Spec{Column: "on", Transform: partition.Month}
	l := open(t, o)
	at := must(t, l, "", 1, 3)
	at = must(t, l, at, 2, 5)
	got := python(t, o)
	require.Len(t, got["leads"].Rows, 5)
	require.Equal(t, []int64{3, 5}, got["leads"].Snapshots)
	require.EqualValues(t, at, got["leads"].Cursor)
	for _, r := range got["leads"].Rows {
		require.Equal(t, []string{"2", "2026-11-03 00:00:00+00:00"}, []string{r["batch"], r["on"]})
	}
	require.Len(t, got["leads__mails"].Rows, 5)
	require.Equal(t, string(at), got["penstock_state__crm__leads"].Rows[0]["cursor"])
}

// If Iceberg allows the change from the old type to the new one, the widened column keeps its field ID. Otherwise it
// becomes a new column.
func TestPythonTypes(t *testing.T) {
	o := warehouse(t)
	l := open(t, o)
	number := func(digits, scale int32) arrow.DataType {
		d, _ := schemas.Decimal(digits, scale)
		return d
	}
	commit := func(from, next string, columns []arrow.Field, row loadtest.Row) {
		t.Helper()
		row[schemas.ColSyncedAt], row[schemas.ColRun], row[schemas.ColHash] = "2026-11-20T12:00:00Z", run(1), next
		row[schemas.ColOrdinal] = "0"
		table := schemas.Table{Name: "things", Key: []string{"id"}, Columns: arrow.NewSchema(append(columns, own...), nil)}
		b := loadtest.Batch(t, table, row)
		defer b.Release()
		x, err := l.Begin(t.Context(), key, "", load.Pass{Run: run(1), Whole: true})
		if from != "" {
			x, err = l.Begin(t.Context(), key, "at 1", load.Pass{Run: run(1), Whole: true})
		}
		require.NoError(t, err)
		require.NoError(t, x.Write(t.Context(), table, b))
		require.NoError(t, x.Commit(t.Context(), "at 1"))
	}
	id := schemas.Field("id", schemas.Int64, "/id")
	commit("", "a", []arrow.Field{
		id, schemas.Field("flag", schemas.Bool, "/flag"), schemas.Field("money", number(8, 2), "/money"), schemas.Field("score", schemas.Float64, "/score"),
		schemas.Field("day", schemas.Date, "/day"), schemas.Field("doc", schemas.JSON, "/doc"), schemas.Field("tags", arrow.ListOf(schemas.Text), "/tags"),
		schemas.Field("count", schemas.Int64, "/count"),
	}, loadtest.Row{"id": "1", "flag": "true", "money": "12.50", "score": "0.5", "day": "2026-11-20", "doc": `{"a":1}`, "tags": `["x","y"]`, "count": "7"})
	before := python(t, o)["things"]
	require.Equal(t, "12.50", before.Rows[0]["money"])
	commit("at 1", "b", []arrow.Field{
		id, schemas.Field("money", number(12, 2), "/money"), schemas.Field("count", schemas.Text, "/count"), schemas.Field("note", schemas.Text, "/note"),
	}, loadtest.Row{"id": "2", "money": "1234567890.25", "count": "many", "note": "new"})
	after := python(t, o)["things"]
	byID := map[string]map[string]string{}
	for _, r := range after.Rows {
		byID[r["id"]] = r
	}
	require.Equal(t, []string{"True", "12.50", "0.5", "2026-11-20", `{"a":1}`, "['x', 'y']", "7"},
		[]string{byID["1"]["flag"], byID["1"]["money"], byID["1"]["score"], byID["1"]["day"], byID["1"]["doc"], byID["1"]["tags"], byID["1"]["count"]})
	require.Equal(t, []string{"1234567890.25", "many", "new"}, []string{byID["2"]["money"], byID["2"]["count"], byID["2"]["note"]})
	require.Equal(t, []string{"decimal(16, 2)", "string"}, []string{after.Types["money"], after.Types["count"]}, fmt.Sprint(after.Types))
	require.Equal(t, []int64{1, 2}, after.Snapshots, "the older snapshot is read with its own columns")
}

const pyplan = `
import json, sys
from pyiceberg.catalog.sql import SqlCatalog
catalog = SqlCatalog("penstock", uri="sqlite:///" + sys.argv[1], warehouse="file://" + sys.argv[2], init_catalog_tables="false")
t, out = catalog.load_table("penstock." + sys.argv[3]), {}
for f in sys.argv[4:]:
    scan = t.scan(row_filter=f)
    out[f] = [len(list(scan.plan_files())), scan.to_arrow().num_rows]
print(json.dumps(out))
`

func TestPythonPlans(t *testing.T) {
	o := warehouse(t)
	l := open(t, o)
	for i, source := range []string{"berlin", "boston"} {
		at := state.Cursor("")
		for n := range 3 {
			next := state.Cursor(fmt.Sprint("at ", n))
			row := loadtest.Row{"id": fmt.Sprint(1000*i + 10*n), "count": fmt.Sprintf("%d.25", n)}
			if n == 2 {
				delete(row, "count")
			}
			money, _ := schemas.Decimal(8, 2)
			require.NoError(t, counted(t, of(t, l, source), at, next, money, row))
			at = next
		}
	}
	want := map[string][]int{ // files, rows
		"_penstock_source = 'boston'": {3, 3},
		"id >= 1010":                  {2, 2},
		"id = 10":                     {1, 1},
		"_penstock_source = 'berlin' and count > 1": {1, 1},
		"count is null":                                     {2, 2},
		"_penstock_hash = '10101.25'":                       {1, 1},
		"_penstock_synced_at > '2126-11-21T00:00:00+00:00'": {0, 0},
	}
	got := map[string][]int{}
	ask(t, &got, pyplan, append([]string{filepath.Join(o.Path, catalogFile), o.Path, "things"}, slices.Sorted(maps.Keys(want))...)...)
	require.Equal(t, want, got)
	require.Len(t, python(t, o)["things"].Rows, 6)
}
