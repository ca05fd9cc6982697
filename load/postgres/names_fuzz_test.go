//go:build unix

package postgres

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/postgres/codec"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/schemas"
)

// FuzzNames creates a table, its view and a column with generated names. They must get exactly these names. No other
// object may be created or dropped.
func FuzzNames(f *testing.F) {
	for _, name := range []string{
		"plain", `a"b`, `a""; DROP TABLE s.canary; --`, `a'b`, `\`, `a\'b`, "a b", "select", "Ünïcode", "a\nb", "$$", "%s%I", "a;b", "/*", "pg_temp", "a.b", "\x00", "\xff", `U&"\0041"`, "e'\\",
	} {
		f.Add(name, name+"2")
	}
	server := pgtest.Shared(f)
	d := open(f, Options{URL: server.URL(), Schema: `s"'\`})
	server.Exec(`CREATE SCHEMA s; CREATE TABLE s.canary (n int); INSERT INTO s.canary VALUES (1)`)
	const place = `'s"''\'`
	count := `SELECT string_agg(c.relname, E'\x01' ORDER BY c.relname COLLATE "C") FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ` + place + ` AND c.relkind <> 'i' AND NOT starts_with(c.relname, '_penstock_')`
	loadRows(f, d, 1, part{table: rootTable("first"), rows: []loadtest.Row{row(1, 0, "h", loadtest.Row{"id": "1"})}})
	drop := `DO $x$ DECLARE t name; BEGIN FOR t IN SELECT relname FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = ` + place + `) AND relkind = 'r' AND NOT starts_with(relname, '_penstock_')
		LOOP EXECUTE format('DROP TABLE %I.%I CASCADE', ` + place + `, t); END LOOP; END $x$; DELETE FROM "s""'\"._penstock_schema`
	server.Exec(drop)
	var run atomic.Int64
	run.Store(1)
	f.Fuzz(func(t *testing.T, table, column string) {
		server := server.For(t)
		system := []string{"tableoid", "cmax", "xmax", "cmin", "xmin", "ctid", "id", ""}
		fields := rootTable("x").Columns
		if slices.Contains(system, column) || fields.HasField(column) || table == "" || load.IsInternal(table) || len(codec.EscapeText(table)) > schemas.MaxName-len(currentSuffix) || len(codec.EscapeText(column)) > schemas.MaxName ||
			table != codec.EscapeText(table) || column != codec.EscapeText(column) || strings.Contains(table, "__") {
			return
		}
		n := int(run.Add(1))
		p := part{table: rootTable(table, field(column, schemas.Text)), rows: []loadtest.Row{row(n, 0, "h", loadtest.Row{"id": "1", column: column})}}
		_, err := attemptLoad(t, d, n, "", p)
		require.NoError(t, err)
		require.Equal(t, strings.Join(slices.Sorted(slices.Values([]string{table, table + currentSuffix})), "\x01"), server.Text(count))
		require.Equal(t, "id\x01"+column, server.Text(`SELECT string_agg(attname, E'\x01' ORDER BY attnum) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
			WHERE relkind = 'r' AND attnum > 0 AND NOT starts_with(attname, '_penstock_') AND relname = `+literal(table)+` AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = `+place+`)`))
		rows := rowsOf(t, d, table)
		require.Len(t, rows, 1)
		require.Equal(t, column, rows[0][column])
		require.Equal(t, "1", server.Text("SELECT count(*) FROM s.canary"))
		server.Exec(drop)
	})
}

// serverFolder returns a folder to which the server can write, whatever user it runs as.
func serverFolder(t testing.TB) string {
	dir, err := os.MkdirTemp("", "penstock-out-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o777))
	return dir
}

// FuzzQuestion runs statements as a superuser. No statement changes anything that others can see, inside or outside
// the database.
func FuzzQuestion(f *testing.F) {
	server := pgtest.Shared(f)
	out := filepath.Join(serverFolder(f), "out")
	d := open(f, Options{URL: server.URL(), Schema: "s"})
	loadRows(f, d, 1, part{table: rootTable("crm_leads", field("name", schemas.Text)), rows: []loadtest.Row{row(1, 0, "h", loadtest.Row{"id": "1", "name": "Ann"})}})
	server.Exec(`SELECT lo_from_bytea(7, 'x'); CREATE SEQUENCE s.q; CREATE TABLE s.log (n int); CREATE ROLE fuzzer;
		CREATE FUNCTION s.lower(varchar) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM lo_export(7, '` + out + `'); RETURN 'x'; END $$; ALTER FUNCTION s.lower(varchar) OWNER TO fuzzer;
		CREATE VIEW s.v AS SELECT lo_export(7, '` + out + `') AS n; CREATE VIEW s.w AS SELECT s.lower('x'::varchar) AS n`)
	f.Cleanup(func() { server.Exec("DROP OWNED BY fuzzer CASCADE; DROP ROLE fuzzer") })
	export := "lo_export(7,'" + out + "')"
	for _, sql := range []string{
		"SELECT 1\x00", "SELECT '\xff'", "SELECT " + export, "EXPLAIN ANALYZE SELECT " + export, "EXPLAIN (ANALYZE) SELECT 1 /* */", "/* /* */ SHOW x */ SELECT " + export, "SELECT n FROM v", "TABLE w", "SELECT lower(name::varchar) FROM crm_leads",
		"WITH a AS (SELECT " + export + ") SELECT 1 FROM a", "VALUES (1), (" + export + ")", "SELECT 1; SELECT " + export, "SELECT nextval('q'), setval('q', 9)", "SELECT 1 -- \n, " + export,
		"SELECT pg_advisory_lock(1)", "WITH d AS (INSERT INTO log VALUES (1) RETURNING n) SELECT n FROM d", "EXPLAIN ANALYZE INSERT INTO log VALUES (1)", `SELECT U&"lo\005fexport"(7,'` + out + `')`, "SHOW ALL",
		"SELECT query_to_xml('SELECT " + strings.ReplaceAll(export, "'", "''") + "', true, true, '')", "SELECT CASE WHEN false THEN " + export + " END", "SELECT set_config('a.b', 'c', false)", "SELECT $1", "EXPLAIN EXECUTE penstock_query",
	} {
		f.Add(sql)
	}
	state := `SELECT concat_ws('|', (SELECT count(*) FROM s.log), (SELECT last_value FROM s.q), (SELECT string_agg(name, ',') FROM s.crm_leads), (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_authid),
		(SELECT count(*) FROM pg_largeobject_metadata), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), (SELECT count(*) FROM pg_db_role_setting))`
	before := server.Text(state)
	f.Fuzz(func(t *testing.T, sql string) {
		server := server.For(t)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_ = d.Query(ctx, sql, nothing)
		require.NoFileExists(t, out)
		require.Equal(t, before, server.Text(state), sql)
		require.NoError(t, d.Query(t.Context(), "SELECT 1", nothing), "on the same connection, after %q", sql)
	})
}
