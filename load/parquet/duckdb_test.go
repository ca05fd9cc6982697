//go:build cgo && duckdb_arrow && unix

package parquet

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	duckdb "github.com/duckdb/duckdb-go/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/parquet/partition"
)

type engine struct{ arrow *duckdb.Arrow }

func newEngine(t testing.TB) *engine {
	c, err := duckdb.NewConnector("", nil)
	require.NoError(t, err)
	conn, err := c.Connect(t.Context())
	require.NoError(t, err)
	a, err := duckdb.NewArrowFromConn(conn)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = conn.Close()
		_ = c.Close()
	})
	return &engine{a}
}

func (e *engine) ask(ctx context.Context, query string) (rows []loadtest.Row, err error) {
	r, err := e.arrow.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	for r.Next() {
		rows = append(rows, loadtest.RowsOf(r.RecordBatch())...)
	}
	return rows, r.Err()
}

func (e *engine) read(t testing.TB, d load.Destination, table string) []loadtest.Row {
	t.Helper()
	tables, err := d.Tables(t.Context(), table)
	require.NoError(t, err)
	if len(tables) == 0 || tables[0].Name != table {
		return nil
	}
	query := "FROM read_parquet(" + pattern(d.(*Lake), "*", current, folderOf(table), "*"+suffix) + ")"
	all, err := d.(*Lake).manifests(t.Context())
	require.NoError(t, err)
	if slices.ContainsFunc(all, func(m *manifest) bool { return m.Source != "" }) { // DuckDB reads the names of the sources' folders as partitions
		query = "FROM read_parquet(" + pattern(d.(*Lake), "*", sourcePrefix+"*", current, folderOf(table), "*"+suffix) + ", union_by_name = true)"
	}
	rows, err := e.ask(t.Context(), query)
	require.NoError(t, err)
	return rows
}

func pattern(l *Lake, elem ...string) string {
	root := strings.ReplaceAll(l.o.Path, "[", "[[]")
	return "'" + strings.ReplaceAll(filepath.Join(append([]string{root}, elem...)...), "'", "''") + "'"
}

func TestConformance(t *testing.T) {
	d := driver(newEngine(t).read)
	d.Thorough = true
	loadtest.Run(t, d)
}

// DuckDB makes an additional column from the names of the partition folders. The date column in the files must stay
// unchanged.
func TestDuckDBPartitions(t *testing.T) {
	l := openLake(t, filepath.Join(t.TempDir(), "lake"), Options{PartitionBy: partition.Spec{Column: "on", Transform: partition.Month}})
	at := must(t, l, 1, "", before...)
	must(t, l, 2, at, after...)
	e := newEngine(t)
	rows, err := e.ask(t.Context(), `SELECT id, "on", on_month FROM read_parquet(`+pattern(l, "crm.leads", current, leads.Name, "**", "*"+suffix)+
		`, hive_types_autocast = false) WHERE _penstock_deleted_at IS NULL`)
	require.NoError(t, err)
	require.ElementsMatch(t, []loadtest.Row{
		{"id": "1", "on": "2026-01-05", "on_month": "2026-01"}, {"id": "2", "on": "2026-03-01", "on_month": "2026-03"}, {"id": "4", "on": "2026-03-02", "on_month": "2026-03"},
	}, rows)
}

// The folder of a long value has a shorter name, which DuckDB must be able to decode.
func TestDuckDBLongPartitions(t *testing.T) {
	long := []lead{{1, strings.Repeat("ä", 90), ""}, {2, strings.Repeat("a/", 100), ""}, {3, "a" + strings.Repeat("🦊", 60), ""}, {4, "ä/", ""}}
	l := openLake(t, filepath.Join(t.TempDir(), "lake"), Options{PartitionBy: partition.Spec{Column: "name", Transform: partition.Identity}})
	must(t, l, 1, "", long...)
	e := newEngine(t)
	rows, err := e.ask(t.Context(), `SELECT id, name, count(name_identity) AS n FROM read_parquet(`+pattern(l, "crm.leads", current, leads.Name, "**", "*"+suffix)+`) GROUP BY ALL`)
	require.NoError(t, err)
	var want []loadtest.Row
	for _, r := range long {
		want = append(want, loadtest.Row{"id": fmt.Sprint(r.id), "name": r.name, "n": "1"})
	}
	require.ElementsMatch(t, want, rows)
}

// While commits replace all rows, a reader uses the link. It reads one whole commit, or fails because a file is
// missing.
func TestDuckDBReaders(t *testing.T) {
	l := openLake(t, filepath.Join(t.TempDir(), "lake"), Options{KeepFor: -1})
	l.disk.Sync = func(*os.File) error { return nil }
	records := func(n int) (out []lead) {
		for i := range 30 {
			out = append(out, lead{id: i, name: fmt.Sprint("v", n, ".", i)})
		}
		return out
	}
	at := must(t, l, 1, "", records(1)...)
	e := newEngine(t)
	query := "SELECT count(*) AS n, count(DISTINCT batch) AS batches FROM read_parquet(" + pattern(l, "crm.leads", current, leads.Name, "*"+suffix) + ")"
	stop := make(chan struct{})
	var wg sync.WaitGroup
	whole, missed := 0, 0
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			rows, err := e.ask(t.Context(), query)
			if err != nil {
				missed++
				if !strings.Contains(err.Error(), "No such file") && !strings.Contains(err.Error(), "No files found") {
					t.Errorf("read: %v", err)
				}
				continue
			}
			whole++
			if fmt.Sprint(rows) != "[map[batches:1 n:30]]" {
				t.Errorf("a reader has seen half a commit: %v", rows)
			}
		}
	})
	for n := range 80 {
		at = must(t, l, 2+n, at, records(2+n)...)
	}
	close(stop)
	wg.Wait()
	t.Logf("%d reads returned one whole commit, %d reads failed because a file was missing", whole, missed)
	require.Positive(t, whole)
}

func baseline(b *testing.B, l *Lake, first time.Duration, n int) {
	dir := b.TempDir()
	db, err := sql.Open("duckdb", "")
	require.NoError(b, err)
	defer db.Close()
	run := func(query string) {
		_, err := db.ExecContext(b.Context(), query)
		require.NoError(b, err, query)
	}
	path, err := l.Path(b.Context(), "v2_contacts")
	require.NoError(b, err)
	run("SET threads = 2")
	run("COPY (SELECT * EXCLUDE (_penstock_deleted_at) FROM read_parquet('" + path + "/*.parquet')) TO '" + dir + "/rows.json' (FORMAT json)")
	columns := []string{}
	rows, err := db.QueryContext(b.Context(), "DESCRIBE SELECT * EXCLUDE (_penstock_deleted_at) FROM read_parquet('"+path+"/*.parquet')")
	require.NoError(b, err)
	for rows.Next() {
		var name, typ string
		var rest [4]any
		require.NoError(b, rows.Scan(&name, &typ, &rest[0], &rest[1], &rest[2], &rest[3]))
		columns = append(columns, fmt.Sprintf("%s: '%s'", name, typ))
	}
	require.NoError(b, rows.Close()) //nolint:sqlclosecheck // closed here, not by a deferred call
	took := measure(b, "read_json", n, func() {
		run("COPY (SELECT * FROM read_json('" + dir + "/rows.json', format = 'newline_delimited', columns = {" + strings.Join(columns, ", ") +
			"})) TO '" + dir + "/rows.parquet' (FORMAT parquet, COMPRESSION zstd)")
	})
	b.ReportMetric(took.Seconds()/first.Seconds(), "times-read_json")
}

func TestDuckDBReadsEncoder(t *testing.T) {
	e, dir, n := newEngine(t), t.TempDir(), 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		_, _, ours, theirs := twice(r, t, dir, fmt.Sprint(n))
		rows := func(f *file) []loadtest.Row {
			out, err := e.ask(t.Context(), fmt.Sprintf("FROM read_parquet('%s')", f.path()))
			require.NoError(r, err)
			return out
		}
		require.Equal(r, rows(theirs), rows(ours))
	})
}
