//go:build unix

package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
)

// View creates a view, replaces it, and records it once. The view keeps its grants. Objects of users do not change.
func TestView(t *testing.T) {
	server := pgtest.Shared(t)
	d, err := Open(t.Context(), Options{URL: server.URL(), Schema: "Kit"})
	require.NoError(t, err)
	defer d.Close()
	require.NoError(t, d.View(t.Context(), "runs_by_day", `SELECT CAST(started_at AS DATE) AS day, count(*) AS runs FROM "Kit"."_penstock_runs" GROUP BY 1`))
	server.Exec(`CREATE ROLE penstock_kit_reader; GRANT SELECT ON "Kit".runs_by_day TO penstock_kit_reader; CREATE VIEW "Kit".theirs AS SELECT 42 AS answer; CREATE TABLE "Kit".a_table (id int)`)
	t.Cleanup(func() { server.Exec("DROP OWNED BY penstock_kit_reader; DROP ROLE penstock_kit_reader") })
	require.NoError(t, d.View(t.Context(), "runs_by_day", `SELECT CAST(started_at AS DATE) AS day, count(*) + 0 AS runs FROM "Kit"."_penstock_runs" GROUP BY 1`))
	require.Equal(t, "true", server.Text(`SELECT has_table_privilege('penstock_kit_reader', '"Kit".runs_by_day', 'SELECT')::text`))
	require.Equal(t, "1", server.Text(`SELECT count(*) FROM "Kit"._penstock_schema WHERE action = 'create_view' AND "table" = 'runs_by_day'`))
	for _, name := range []string{"theirs", "a_table"} {
		require.ErrorIs(t, d.View(t.Context(), name, "SELECT 1 AS one"), load.ErrTaken, name)
	}
	require.Equal(t, "42", server.Text(`SELECT answer FROM "Kit".theirs`))
	require.Error(t, d.View(t.Context(), "broken", "SELECT nothing FROM nowhere"))
	require.Equal(t, "0", server.Text(`SELECT count(*) FROM "Kit"._penstock_schema WHERE "table" = 'broken'`))
}
