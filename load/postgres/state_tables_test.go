//go:build unix

package postgres

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	statepg "github.com/penstock-data/penstock/state/postgres"
)

// The state may be in the same database, and belong to the same role. A query must not read deliveries or credentials in
// it, whichever name it uses for the tables. It may read the rest, and tables of the destination with the same names.
func TestQueryOfState(t *testing.T) {
	server, d := attacked(t)
	server.Exec("CREATE TABLE s.events (id int); CREATE TABLE s.notes (id int)")
	other := []string{"SELECT * FROM events, s.notes", "SELECT tablename FROM pg_stats WHERE schemaname = 's'", "SELECT count(*) FROM crm_leads"}
	for _, sql := range other {
		require.NoError(t, d.Query(t.Context(), sql, nothing), sql)
	}
	url := server.URL() + "?"
	if strings.Contains(server.URL(), "?") {
		url = server.URL() + "&"
	}
	store := statepg.New(statepg.Options{URL: url + "search_path=kept"})
	_, _, err := store.Migrate(t.Context())
	require.NoError(t, err)
	require.NoError(t, store.Close())
	t.Cleanup(func() { server.Exec("DROP SCHEMA kept CASCADE") })
	server.Exec("CREATE VIEW s.hidden AS SELECT name, body FROM (SELECT 1 AS name) x, (SELECT 1 AS body FROM kept.events) y")
	for _, sql := range []string{
		"SELECT * FROM kept.secrets", "TABLE kept.events", `SELECT * FROM U&"k\0065pt".captures`, "SELECT (SELECT count(*) FROM kept.inbox)", "WITH a AS (TABLE kept.event_variants) SELECT 1 FROM a",
		"SELECT 1 FROM crm_leads WHERE EXISTS (SELECT FROM kept.notes)", "SELECT * FROM hidden", "EXPLAIN ANALYZE TABLE kept.secrets", "SELECT most_common_vals FROM pg_stats WHERE schemaname = 'kept'", "TABLE pg_statistic",
	} {
		require.ErrorIs(t, d.Query(t.Context(), sql, nothing), ErrState, sql)
	}
	for _, sql := range []string{other[0], other[2], "SELECT count(*) FROM kept.audit", "SELECT count(*) FROM pg_settings"} {
		require.NoError(t, d.Query(t.Context(), sql, nothing), sql)
	}
}
