//go:build unix

package postgres

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/schemas"
)

// TestStatisticsOfSoughtColumns: after many rows, penstock updates the statistics of the columns by which it finds
// rows, and spends no time on other columns.
func TestStatisticsOfSoughtColumns(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	d := open(t, Options{URL: server.URL(), Schema: "s"})
	table := rootTable("people", field("name", schemas.Text))
	loadRows(t, d, 1, part{table: table, rows: []loadtest.Row{row(1, 1, "a", loadtest.Row{"id": "1", "name": "Ada"})}})
	fields := table.Columns.Fields()
	table.Columns = arrow.NewSchema(fields[:len(fields)-1], nil) // without the ordinal, which is not a column of the table
	s, err := d.b.pool.acquire(t.Context())
	require.NoError(t, err)
	defer s.release()
	x := &transaction{session: s, b: d.b, written: map[string]writtenRows{table.Name: {table, analyzeRows}}}
	x.analyze(t.Context())
	require.Equal(t, "_penstock_deleted_at,_penstock_hash,_penstock_run,_penstock_synced_at,_penstock_via,id",
		server.Text(`SELECT string_agg(attname, ',' ORDER BY attname COLLATE "C") FROM pg_stats WHERE tablename = 'people'`))
	require.Equal(t, "1", server.Text("SELECT reltuples FROM pg_class WHERE relname = 'people'"))
}
