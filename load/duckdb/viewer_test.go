//go:build cgo && duckdb_arrow

package duckdb

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// Penstock creates a view twice. The second query replaces the first one, and _penstock_schema has one row for the
// view. Another program can read the view, even if it attaches the file under another name. Penstock refuses to replace
// a table, or a view of a user.
func TestView(t *testing.T) {
	path := filepath.Join(t.TempDir(), "view.duckdb")
	d := openTest(t, path, Options{})
	require.NoError(t, put(t.Context(), t, d, "run000000001", "", "1", leadRows("run000000001", "a", 3)))
	require.NoError(t, d.View(t.Context(), "lead_names", `SELECT name, count(*) AS n FROM (SELECT "name" FROM "crm_leads") l GROUP BY name`))
	require.NoError(t, d.View(t.Context(), "lead_names", `SELECT name, CAST(count(*) AS VARCHAR) AS n FROM "crm_leads" GROUP BY name`))
	require.ErrorIs(t, d.View(t.Context(), "CRM_leads", "SELECT 1 AS one"), load.ErrTaken)
	require.Error(t, d.View(t.Context(), "broken", "SELECT nothing FROM nowhere"))
	at, err := d.Cursor(t.Context(), stream)
	require.NoError(t, err, "the session is unchanged")
	require.Equal(t, state.Cursor("1"), at)
	require.NoError(t, d.Close())

	db, err := sql.Open("duckdb", "")
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	_, err = db.Exec("ATTACH " + literal(path) + " AS other")
	require.NoError(t, err)
	var name, n string
	require.NoError(t, db.QueryRow("SELECT name, n FROM other.lead_names").Scan(&name, &n))
	require.Equal(t, []string{"a", "3"}, []string{name, n})
	require.NoError(t, db.QueryRow("SELECT count(*) FROM other._penstock_schema WHERE action = 'create_view' AND \"table\" = 'lead_names'").Scan(&n))
	require.Equal(t, "1", n)
	_, err = db.Exec("CREATE VIEW other.theirs AS SELECT 42 AS answer")
	require.NoError(t, err)
	require.NoError(t, db.Close())

	d = openTest(t, path, Options{})
	require.ErrorIs(t, d.View(t.Context(), "theirs", "SELECT 1 AS one"), load.ErrTaken)
}
