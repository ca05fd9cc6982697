//go:build unix

package mysql

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/mysql/mysqltest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// rig is a destination with one stream, whose records have a key and a value of the types that a test chooses.
type rig struct {
	testing.TB
	*DB
	runs   int
	cursor state.Cursor
}

func newRig(t testing.TB, server *mysqltest.Server) *rig { return openRig(t, server.URL(t), nil) }

func openRig(t testing.TB, url string, step func(string) error) *rig {
	d, err := Open(Options{URL: url, Step: step})
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return &rig{TB: t, DB: d}
}

// put commits records with the given keys and values, in a separate pass.
func (r *rig) put(key, value arrow.DataType, rows ...loadtest.Row) (load.Outcome, error) {
	r.Helper()
	r.runs++
	run := fmt.Sprintf("run%03d", r.runs)
	columns := []arrow.Field{schemas.Field("id", key, "/id"), schemas.Field("v", value, "/v")}
	for _, name := range []string{schemas.ColRun, schemas.ColHash, schemas.ColVia} {
		columns = append(columns, schemas.Field(name, schemas.Text, ""))
	}
	for _, name := range []string{schemas.ColSyncedAt, schemas.ColDeletedAt} {
		columns = append(columns, schemas.Field(name, schemas.Timestamp, ""))
	}
	table := schemas.Table{Name: "people", Key: []string{"id"}, Columns: arrow.NewSchema(columns, nil)}
	for _, row := range rows {
		row[schemas.ColHash], row[schemas.ColRun], row[schemas.ColVia], row[schemas.ColSyncedAt] = "h"+row["v"], run, "poll", "2026-11-20T08:00:00Z"
	}
	b := loadtest.Batch(r, table, rows...)
	defer b.Release()
	x, err := r.Begin(r.Context(), state.Key{Pipeline: "p", Stream: "people"}, r.cursor, load.Pass{Run: run, Whole: true})
	require.NoError(r, err)
	defer func() { _ = x.Rollback() }()
	if err := x.Write(r.Context(), table, b); err != nil {
		return load.Outcome{}, err
	}
	out, err := x.Apply(r.Context(), load.Sweep{Table: "people", Delete: true})
	if err != nil {
		return out, err
	}
	next := state.Cursor(run)
	if err := x.Commit(r.Context(), next); err != nil {
		return out, err
	}
	r.cursor = next
	return out, nil
}

// records returns n records. The parameter changed is the number of changed records, which come first.
func records(n, changed int, key string) []loadtest.Row {
	out := make([]loadtest.Row, n)
	for i := range out {
		out[i] = loadtest.Row{"id": fmt.Sprintf(key, i), "v": fmt.Sprintf("record %d", i)}
		if i < changed {
			out[i]["v"] += " changed"
		}
	}
	return out
}

// BenchmarkMerge measures a commit of 50,000 records in three cases: all records are new, all are unchanged, or 500
// have changed.
func BenchmarkMerge(b *testing.B) {
	const n = 50_000
	server := mysqltest.Start(b)
	for _, key := range []struct {
		name   string
		t      arrow.DataType
		format string
	}{{"integers", schemas.Int64, "%d"}, {"texts", schemas.Text, "key-%08d"}} {
		for _, c := range []struct {
			name    string
			changed int
			first   bool
		}{{"new", 0, true}, {"unchanged", 0, false}, {"changed", 500, false}} {
			b.Run(key.name+"/"+c.name, func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					r := newRig(b, server)
					if !c.first {
						_, err := r.put(key.t, schemas.Text, records(n, 0, key.format)...)
						require.NoError(b, err)
					}
					next := records(n, c.changed, key.format)
					b.StartTimer()
					out, err := r.put(key.t, schemas.Text, next...)
					require.NoError(b, err)
					require.EqualValues(b, n, out.Written+out.Unchanged)
				}
				b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}
