//go:build unix

package postgres

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/schemas"
)

// attacked returns a server with a schema s, in which penstock has made the table crm_leads. The role penstock is a
// superuser. The role mallory also has the right to create objects in the schema.
func attacked(t *testing.T) (*pgtest.Server, *DB) {
	server := pgtest.Start(t)
	server.Exec("CREATE ROLE mallory LOGIN PASSWORD 'm'; CREATE ROLE loader LOGIN PASSWORD 'l'; CREATE TABLE public.stolen (who name)")
	t.Cleanup(func() { server.Exec("DROP OWNED BY mallory, loader CASCADE; DROP ROLE mallory, loader") })
	d := open(t, Options{URL: server.URL(), Schema: "s"})
	loadRows(t, d, 1, leadRows(1, "Ann", "Bob"))
	server.Exec("GRANT CREATE, USAGE ON SCHEMA s TO mallory; GRANT SELECT ON ALL TABLES IN SCHEMA s TO mallory")
	return server, d
}

func leadRows(run int, names ...string) part {
	p := part{table: rootTable("crm_leads", field("name", schemas.Text))}
	for i, name := range names {
		p.rows = append(p.rows, row(run, i, name, loadtest.Row{"id": fmt.Sprint(i), "name": name}))
	}
	return p
}

// The function as() runs statements with the role mallory.
func as(server *pgtest.Server, sql string) {
	server.Exec("SET SESSION AUTHORIZATION mallory; " + sql)
}

func nothing(arrow.RecordBatch) error { return nil }

// A query must not run functions of a role that is not trusted. A query can reach a function in many ways: by the name
// of a built-in function, through an operator, a cast, a view or a check.
func TestQueryForeignFunctions(t *testing.T) {
	server, d := attacked(t)
	const body = " LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE EXCEPTION 'mallory ran as %', current_user; END $$; "
	as(server, `CREATE FUNCTION s.lower(varchar) RETURNS text`+body+`
		CREATE FUNCTION s.same(text, varchar) RETURNS boolean`+body+`CREATE OPERATOR s.= (LEFTARG = text, RIGHTARG = varchar, FUNCTION = s.same);
		CREATE FUNCTION s.positive(int) RETURNS boolean`+body+`CREATE DOMAIN s.positive AS int CHECK (s.positive(VALUE));
		CREATE FUNCTION s.evil() RETURNS int`+body+`CREATE FUNCTION s.evil(s.crm_leads) RETURNS int`+body+`
		CREATE VIEW s.report AS SELECT id, s.evil() AS n FROM s.crm_leads;
		CREATE VIEW s.quiet AS SELECT count(*) AS n FROM s.crm_leads;
		CREATE AGGREGATE s.total(int) (SFUNC = int4pl, STYPE = int, INITCOND = '0');
		CREATE TABLE s.theirs (id int, CHECK (id <> s.evil())); CREATE TABLE s.plain (id int);
		CREATE DOMAIN s.far AS s.positive; CREATE TYPE s.pair AS (a s.far); CREATE VIEW s.pairs AS SELECT (jsonb_populate_record(NULL::s.pair, '{"a": 1}')).a AS n;
		CREATE VIEW s.lists AS SELECT ('[1]'::jsonb->>0)::s.far AS n; CREATE DOMAIN s.nested AS int CHECK (VALUE::s.far > 0);
		CREATE TABLE s.parent (id int); CREATE TABLE s.child (CHECK (id <> s.evil())) INHERITS (s.parent);
		CREATE TABLE s.many (a s.positive[]); CREATE FUNCTION s.some() RETURNS s.positive[] LANGUAGE sql AS 'SELECT NULL::s.positive[]'; CREATE VIEW s.above AS SELECT a FROM s.many`)
	for sql, name := range map[string]string{
		"SELECT lower(name::varchar) FROM crm_leads":                       "s.lower(character varying)",
		"SELECT id FROM crm_leads WHERE name = 'Ann'::varchar":             "s.same(text, character varying)",
		"SELECT id FROM crm_leads ORDER BY name OPERATOR(s.=) 'a'":         "s.same",
		"SELECT 1::s.positive":                                             "s.positive(integer)",
		"SELECT (l).evil FROM crm_leads l":                                 "s.evil(s.crm_leads)",
		"SELECT n FROM report":                                             "s.evil()",
		"TABLE report":                                                     "s.evil()",
		"WITH x AS (SELECT * FROM report) SELECT 1 WHERE EXISTS (TABLE x)": "s.evil()",
		"SELECT total(id::int) FROM crm_leads":                             "s.total(integer)",
		"SELECT id FROM theirs":                                            "s.evil()",
		"SELECT 1::far":                                                    "s.positive(integer)",
		"SELECT 1::nested":                                                 "s.positive(integer)",
		"SELECT '{1}'::positive[]":                                         "s.positive(integer)",
		`SELECT '{1}'::U&"\0070ositive"[]`:                                 "s.positive(integer)",
		"SELECT '(1)'::s.PAIR":                                             "s.positive(integer)",
		"SELECT a FROM many WHERE a = '{1}'":                               "s.positive(integer)",
		"SELECT a FROM above WHERE a = '{1}'":                              "s.positive(integer)",
		"SELECT 1 WHERE some() = '{1}'":                                    "s.positive(integer)",
		"SELECT n FROM pairs":                                              "s.positive(integer)",
		"SELECT n FROM lists":                                              "s.positive(integer)",
		"SELECT x FROM json_to_record('{\"x\": 1}') AS x(x s.far)":         "s.positive(integer)",
		"SELECT (id || '')::text::far FROM plain":                          "s.positive(integer)",
		"SELECT id FROM parent WHERE id > 3":                               "s.evil()",
		"EXPLAIN SELECT lower(name::varchar) FROM crm_leads":               "s.lower(character varying)",
		"EXPLAIN (ANALYZE, FORMAT JSON) SELECT n FROM report":              "s.evil()",
		"SELECT 1 FROM crm_leads GROUP BY ROLLUP (s.evil())":               "s.evil()",
		"SELECT id FROM crm_leads LIMIT s.evil()":                          "s.evil()",
	} {
		err := d.Query(t.Context(), sql, nothing)
		require.ErrorIs(t, err, ErrNotReadOnly, sql)
		require.ErrorContains(t, err, name, sql)
		require.ErrorContains(t, err, "belongs to role mallory", sql)
	}
	for _, sql := range []string{
		"SELECT lower(name) FROM crm_leads WHERE name = 'Ann'", "SELECT n FROM quiet", "SELECT id FROM plain", "SELECT count(*), sum(id), max(name) FROM crm_leads_current GROUP BY id ORDER BY 1",
		"EXPLAIN (ANALYZE, COSTS off) SELECT count(*) FROM crm_leads", "EXPLAIN ANALYZE VERBOSE /* why */ (SELECT 1)", "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 9) SELECT sum(i) FROM n",
	} {
		require.NoError(t, d.Query(t.Context(), sql, nothing), sql)
	}

	// The check must find the function in statements of any length. The server breaks the text of its query tree into
	// lines, at places that depend on the length.
	for n := range 80 {
		sql := "SELECT " + strings.Repeat("x", n+1) + ".id, twist" + strings.Repeat(", 1", n%7) + ", evil() FROM crm_leads " + strings.Repeat("x", n+1) + ", (SELECT 1) AS y(twist)"
		require.ErrorContains(t, d.Query(t.Context(), sql, nothing), "s.evil()", sql)
	}

	// A query may call functions of a trusted owner. But penstock refuses a function in which a name that should mean a
	// built-in object could mean an object of another role.
	server.Exec("CREATE FUNCTION s.short(varchar) RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN lower($1); END'; CREATE VIEW s.shorts AS SELECT s.short(name::varchar) AS n FROM s.crm_leads")
	for _, sql := range []string{"SELECT short(name::varchar) FROM crm_leads", "SELECT n FROM shorts"} {
		err := d.Query(t.Context(), sql, nothing)
		require.ErrorIs(t, err, ErrNotReadOnly, sql)
		require.ErrorContains(t, err, "ALTER FUNCTION s.short(character varying) SET search_path", sql)
	}
	server.Exec("ALTER FUNCTION s.short SET search_path = pg_catalog")
	require.NoError(t, d.Query(t.Context(), "SELECT n FROM shorts", nothing), "the message's first proposal solves the problem")
	server.Exec("ALTER FUNCTION s.short RESET search_path; DROP FUNCTION s.lower; DROP OPERATOR s.= (text, varchar)")
	require.NoError(t, d.Query(t.Context(), "SELECT n FROM shorts", nothing), "the message's other proposal solves the problem")
	server.Exec("DROP TABLE s.theirs; ALTER FUNCTION s.evil() OWNER TO penstock; CREATE OR REPLACE FUNCTION s.evil() RETURNS int LANGUAGE sql AS 'SELECT 7'")
	require.NoError(t, d.Query(t.Context(), "SELECT n FROM report", nothing), "the message's proposal solves the problem")
}

// If the context of a query has a deadline, the server gets a time limit too. A query cannot change the limit.
func TestQueryTimeLimit(t *testing.T) {
	d := open(t, Options{URL: pgtest.Start(t).URL()})
	shown := func(ctx context.Context) (text string) {
		require.NoError(t, d.Query(ctx, "SHOW statement_timeout", func(b arrow.RecordBatch) error {
			text = b.Column(0).ValueStr(0)
			return nil
		}))
		return text
	}
	require.Equal(t, "0", shown(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	require.Regexp(t, "^[0-9]+(ms|s|min|h)$", shown(ctx))
	require.ErrorIs(t, d.Query(ctx, "SELECT set_config('statement_timeout', '0', true)", func(arrow.RecordBatch) error { return nil }), ErrNotReadOnly)
}

// The size of a row is limited, also after a query that was refused. Invariant 6
func TestQuerySize(t *testing.T) {
	d := open(t, Options{URL: pgtest.Start(t).URL()})
	none := func(arrow.RecordBatch) error { return nil }
	for range 2 {
		require.ErrorIs(t, d.Query(t.Context(), "SELECT repeat('x', 80000000)", none), load.ErrTooLarge)
		require.NoError(t, d.Query(t.Context(), "SELECT repeat('x', 60000000)", none))
	}
}

// A query must not call built-in functions that have effects beyond the transaction.
func TestQueryWithoutEffects(t *testing.T) {
	server, d := attacked(t)
	file := filepath.Join(serverFolder(t), "out")
	server.Exec("CREATE SEQUENCE s.numbers; SELECT lo_from_bytea(4711, 'data'); CREATE VIEW s.killer AS SELECT pg_terminate_backend(0) AS done")
	for _, sql := range []string{
		"SELECT lo_export(4711, '" + file + "')", "SELECT pg_read_file('PG_VERSION')", `SELECT "pg_read_file"/**/('PG_VERSION')`, `SELECT U&"pg\005fread_file"('PG_VERSION')`,
		"SELECT pg_catalog.pg_terminate_backend(0)", "SELECT pg_advisory_lock(1)", "SELECT pg_notify('a', 'b')", "SELECT set_config('search_path', 's', false)", "SELECT pg_reload_conf()",
		"SELECT query_to_xml('SELECT pg_read_file(''PG_VERSION'')', true, true, '')", "SELECT table_to_xml('s.killer', true, true, '')", "SELECT * FROM ts_stat('SELECT pg_read_file(''PG_VERSION'')::tsvector')",
		"SELECT * FROM pg_ls_dir('.')", "SELECT done FROM killer", "SELECT setval('s.numbers', 1)", "EXPLAIN ANALYZE SELECT pg_read_file('PG_VERSION')", "VALUES (pg_read_file('PG_VERSION'))",
		"SELECT pg_stat_file('PG_VERSION')", "SELECT pg_drop_replication_slot('x')", "SELECT lo_import('/etc/passwd')", "SELECT pg_stat_reset()",
		"/* /* */ SHOW */ SELECT pg_read_file('PG_VERSION')", "SHOW/**/server_version", "EXPLAIN ANALYZE CREATE TABLE s.x AS SELECT 1", "EXPLAIN EXECUTE penstock_query", "SELECT 1 INTO s.x",
		"EXPLAIN (ANALYZE) /* */ DELETE FROM crm_leads", "WITH d AS (DELETE FROM crm_leads RETURNING 1) TABLE d", "EXPLAIN (ANALYZE, GENERIC_PLAN) SELECT 1",
	} {
		require.ErrorIs(t, d.Query(t.Context(), sql, nothing), ErrNotReadOnly, sql)
	}
	require.NoFileExists(t, file)
	require.Equal(t, "2", server.Text("SELECT count(*) FROM s.crm_leads"))
	for _, sql := range []string{
		"SELECT random(), gen_random_uuid(), now(), clock_timestamp(), pg_sleep(0)", "SELECT pg_size_pretty(pg_total_relation_size('s.crm_leads'))", "SELECT count(*) FROM pg_locks",
		"SELECT count(*) FROM pg_stat_activity", "SELECT count(*) FROM information_schema.columns", "SELECT current_setting('server_version'), version(), pg_is_in_recovery()", "SHOW ALL", "SHOW TIME ZONE;",
		"SELECT 'pg_read_file(''x'')' AS text -- lo_export(", "SELECT * FROM crm_leads TABLESAMPLE bernoulli (50)", "SELECT row_to_json(l), jsonb_agg(l) OVER (ORDER BY id RANGE 1 PRECEDING) FROM crm_leads l",
		"SELECT * FROM pg_settings", "SELECT a.id AS x, b.id AS x FROM crm_leads a JOIN crm_leads b USING (id)", "SELECT xmlelement(name a), regexp_replace('a', 'b', 'c')",
	} {
		require.NoError(t, d.Query(t.Context(), sql, nothing), sql)
	}
	require.Error(t, d.Query(t.Context(), "SELECT 1/0 FROM crm_leads", nothing))
	require.NoError(t, d.Query(t.Context(), "SELECT 1", nothing), "the connection still works after a failed query")

	// A role without the right to call these functions gets the error of the server.
	server.Exec("GRANT USAGE ON SCHEMA s TO loader")
	limited := open(t, Options{URL: server.As("loader", "l"), Schema: "s"})
	require.ErrorContains(t, limited.Query(t.Context(), "SELECT pg_read_file('PG_VERSION')", nothing), "permission denied for function pg_read_file")
	require.NoError(t, limited.Query(t.Context(), "SELECT 1", nothing))
}

// Views use built-in functions, and read tables with the rights of the querying role.
func TestViewsUseBuiltins(t *testing.T) {
	server, d := attacked(t)
	const body = " LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN EXECUTE 'ALTER ROLE mallory SUPERUSER'; RETURN NULL; END $$; "
	as(server, "CREATE FUNCTION s.lower(text) RETURNS text"+body+"CREATE FUNCTION s.same(text, text) RETURNS boolean"+body+"CREATE OPERATOR s.= (LEFTARG = text, RIGHTARG = text, FUNCTION = s.same)"+
		"; CREATE FUNCTION s.lower(varchar) RETURNS text"+body)
	v := schemas.View{SQL: "SELECT lower(l.name::varchar) AS name FROM {crm_leads} l WHERE l.name = 'Ann'", Needs: map[string]map[string]schemas.Kind{"crm_leads": {"name": schemas.KindText}}}
	tables, err := d.Tables(t.Context(), "crm_leads")
	require.NoError(t, err)
	require.NoError(t, d.View(t.Context(), "anns", v.Query(d.Schema(), map[string]schemas.Table{"crm_leads": tables[0]})))
	require.Equal(t, "ann", server.Text("SET search_path = s, pg_catalog; SELECT name FROM anns"))
	require.Equal(t, "f", server.Text("SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'"))
	require.Equal(t, "0", server.Text("SELECT count(*) FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass) AND r.ev_class IN ('s.anns'::regclass, 's.crm_leads_current'::regclass)"))
	if server.Text("SELECT current_setting('server_version_num')::int >= 150000") != "t" {
		t.Skip("views with the rights of their reader need Postgres 15")
	}
	for _, view := range []string{"anns", "crm_leads_current"} {
		require.Equal(t, "{security_invoker=true}", server.Text("SELECT reloptions FROM pg_class WHERE oid = 's."+view+"'::regclass"), view)
	}

	// If a user has set security_invoker to false, the view keeps showing rows to its readers.
	server.Exec("ALTER VIEW s.crm_leads_current SET (security_invoker = false)")
	p := leadRows(2, "Ann", "Bob")
	p.table = rootTable("crm_leads", field("name", schemas.Text), field("city", schemas.Text))
	loadRows(t, d, 2, p)
	require.Equal(t, "1", server.Text("SELECT count(*) FROM pg_attribute WHERE attrelid = 's.crm_leads_current'::regclass AND attname = 'city'"))
	require.Equal(t, "{security_invoker=false}", server.Text("SELECT reloptions FROM pg_class WHERE oid = 's.crm_leads_current'::regclass"))
}

// penstock does not write rows to a table that belongs to another role, or to which another role has attached a
// function. Such a function would run with the rights of penstock's role.
func TestTablesOfOthers(t *testing.T) {
	server, d := attacked(t)
	as(server, "CREATE FUNCTION s.steal() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.stolen VALUES (current_user); RETURN NEW; END $$; CREATE FUNCTION s.sneak() RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.stolen VALUES (current_user); RETURN 1; END $$")
	for _, c := range []struct{ name, attack, mend, says string }{
		{"trigger on a table of penstock's own", "CREATE TRIGGER x AFTER UPDATE ON s._penstock_state FOR EACH ROW EXECUTE FUNCTION s.steal()", "DROP TRIGGER x ON s._penstock_state", "trigger x on table s._penstock_state calls function steal, which belongs to role mallory"},
		{"trigger on a table", "CREATE TRIGGER x BEFORE INSERT OR UPDATE ON s.crm_leads FOR EACH ROW EXECUTE FUNCTION s.steal()", "DROP TRIGGER x ON s.crm_leads", "trigger x on table s.crm_leads calls function steal, which belongs to role mallory"},
		{"default", "ALTER TABLE s.crm_leads ADD COLUMN mine int; ALTER TABLE s.crm_leads ALTER COLUMN mine SET DEFAULT s.sneak(); ALTER TABLE s.crm_leads OWNER TO mallory", "ALTER TABLE s.crm_leads OWNER TO penstock; ALTER TABLE s.crm_leads DROP COLUMN mine", "default value for column mine of table s.crm_leads calls function sneak"},
		{"rule", "CREATE RULE x AS ON UPDATE TO s._penstock_state DO ALSO INSERT INTO public.stolen VALUES (current_user)", "DROP RULE x ON s._penstock_state", "DROP RULE x ON s._penstock_state"},
		{"owner of a table of penstock's own", "ALTER TABLE s._penstock_rejects OWNER TO mallory", "ALTER TABLE s._penstock_rejects OWNER TO penstock", "ALTER TABLE s._penstock_rejects OWNER TO penstock"},
		{"owner of a table", "ALTER TABLE s.crm_leads OWNER TO mallory", "ALTER TABLE s.crm_leads OWNER TO penstock", "ALTER TABLE s.crm_leads OWNER TO penstock"},
	} {
		server.Exec(c.attack)
		fresh, err := Open(t.Context(), Options{URL: server.URL(), Schema: "s"})
		require.NoError(t, err, c.name)
		_, err = attemptLoad(t, fresh, 5, "stolen", leadRows(5, "Ann", "Eve"))
		require.ErrorContains(t, err, c.says, c.name)
		require.ErrorContains(t, fresh.Check(t.Context()), c.says, c.name)
		require.NoError(t, fresh.Close())
		require.Equal(t, "0", server.Text("SELECT count(*) FROM public.stolen"), c.name)
		server.Exec(c.mend)
	}
	loadRows(t, d, 6, leadRows(6, "Ann", "Eve"))
	require.NoError(t, d.Check(t.Context()))

	// Accept writes to all rows of a table, so it refuses an unsafe table too.
	server.Exec("CREATE TRIGGER x BEFORE UPDATE ON s.crm_leads FOR EACH ROW EXECUTE FUNCTION s.steal(); DROP VIEW s.crm_leads_current; ALTER TABLE s.crm_leads DROP COLUMN name")
	_, err := d.Accept(t.Context(), "crm_leads")
	require.ErrorContains(t, err, "trigger x on table s.crm_leads calls function steal, which belongs to role mallory")
	server.Exec("DROP TRIGGER x ON s.crm_leads")
	changes, err := d.Accept(t.Context(), "crm_leads")
	require.NoError(t, err)
	require.NotEmpty(t, changes)

	// Here, mallory has created the table before the first load.
	as(server, "CREATE TABLE s.crm_deals (id bigint PRIMARY KEY, _penstock_synced_at timestamptz, _penstock_run text, _penstock_hash text, _penstock_deleted_at timestamptz, _penstock_via text); CREATE TRIGGER x BEFORE INSERT ON s.crm_deals FOR EACH ROW EXECUTE FUNCTION s.steal()")
	_, err = attemptLoad(t, d, 7, "c7", part{table: rootTable("crm_deals"), rows: []loadtest.Row{row(7, 1, "a", loadtest.Row{"id": "1"})}})
	require.ErrorIs(t, err, load.ErrForeignChange)
	require.ErrorContains(t, err, "belongs to role mallory")
	require.Equal(t, "0", server.Text("SELECT count(*) FROM public.stolen"))

	// Here, mallory has created a view with the name of a table that each run reads.
	server.Exec("CREATE SCHEMA v; GRANT CREATE ON SCHEMA v TO mallory")
	as(server, "CREATE VIEW v._penstock_state AS SELECT s.sneak()::text AS cursor")
	_, err = Open(t.Context(), Options{URL: server.URL(), Schema: "v"})
	require.ErrorIs(t, err, ErrUnsafe)
	require.ErrorContains(t, err, "a view has the name of penstock's table")
}

// The owner of the database may attach objects to penstock's tables. These objects stay, and continue to work.
func TestAttachmentsOfTheOwner(t *testing.T) {
	server, d := attacked(t)
	server.Exec(`CREATE TABLE public.audit (who name); GRANT INSERT ON public.audit TO PUBLIC;
		CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.audit VALUES (current_user); RETURN NEW; END $$;
		CREATE FUNCTION public.seven() RETURNS int LANGUAGE sql AS 'SELECT 7';
		CREATE TRIGGER note AFTER UPDATE ON s.crm_leads FOR EACH ROW EXECUTE FUNCTION public.note();
		ALTER TABLE s.crm_leads ADD COLUMN mine int DEFAULT public.seven(), ADD CHECK (id >= 0);
		CREATE INDEX ON s.crm_leads (lower(name)); CREATE VIEW s.mine AS SELECT name FROM s.crm_leads; GRANT SELECT ON s.crm_leads TO PUBLIC;
		ALTER TABLE s.crm_leads ENABLE ROW LEVEL SECURITY; CREATE POLICY few ON s.crm_leads FOR SELECT USING (id < 5);
		CREATE TABLE public.notes (lead bigint REFERENCES s.crm_leads ON DELETE CASCADE)`)
	// These objects of mallory run with her own rights.
	as(server, "CREATE FUNCTION s.hers() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE VIEW s.hers AS SELECT name, s.hers() AS n FROM s.crm_leads")
	loadRows(t, d, 2, leadRows(2, "Ann", "Bea"))
	require.NoError(t, d.Check(t.Context()))
	server.Exec("UPDATE s.crm_leads SET name = 'Zoe', _penstock_hash = '' WHERE id = 0")
	loadRows(t, d, 3, leadRows(3, "Ann", "Bea"))
	require.NotEqual(t, "0", server.Text("SELECT count(*) FROM public.audit WHERE who = 'penstock'"))

	// A role may own the tables that it has created. It may also be a member of the role that owns them.
	server.Exec("GRANT CREATE ON DATABASE postgres TO loader; CREATE ROLE owners; GRANT owners TO loader")
	defer server.Exec("DROP SCHEMA mine CASCADE; REVOKE CREATE ON DATABASE postgres FROM loader; DROP ROLE owners")
	loader := open(t, Options{URL: server.As("loader", "l"), Schema: "mine"})
	loadRows(t, loader, 1, leadRows(1, "Ann"))
	require.NoError(t, loader.Check(t.Context()))
	server.Exec("GRANT CREATE, USAGE ON SCHEMA mine TO owners; ALTER TABLE mine.crm_leads OWNER TO owners; ALTER TABLE mine._penstock_runs OWNER TO owners")
	loadRows(t, open(t, Options{URL: server.As("loader", "l"), Schema: "mine"}), 2, leadRows(2, "Ann", "Bob"))
}

// Rights that a load does not need cause warnings.
func TestWarnings(t *testing.T) {
	server, d := attacked(t)
	warnings, err := d.Warnings(t.Context())
	require.NoError(t, err)
	require.Len(t, warnings, 2)
	require.Contains(t, warnings[0], "role penstock is a superuser")
	require.Contains(t, warnings[1], `role mallory may create tables and functions in schema "s": REVOKE CREATE ON SCHEMA "s" FROM mallory`)
	server.Exec("REVOKE CREATE ON SCHEMA s FROM mallory; GRANT CREATE ON SCHEMA s TO PUBLIC; CREATE SCHEMA mine AUTHORIZATION loader")
	defer server.Exec("DROP SCHEMA mine CASCADE")
	warnings, err = d.Warnings(t.Context())
	require.NoError(t, err)
	require.Contains(t, warnings[1], "everybody may create")
	warnings, err = open(t, Options{URL: server.As("loader", "l"), Schema: "mine"}).Warnings(t.Context())
	require.NoError(t, err)
	require.Empty(t, warnings)
	server.Exec("GRANT pg_read_server_files TO loader")
	warnings, err = open(t, Options{URL: server.As("loader", "l"), Schema: "mine"}).Warnings(t.Context())
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "pg_read_server_files")
}

// If penstock's role has the right to set log_min_messages, the parse trees of queries must not get into the server's
// log. A superuser has this right. Since Postgres 15, it can also be granted to other roles.
func TestParseTreesNotLogged(t *testing.T) {
	server := pgtest.Start(t, "log_min_messages=warning")
	server.Exec("CREATE ROLE loader LOGIN PASSWORD 'l'; CREATE SCHEMA mine AUTHORIZATION loader")
	trees := func(url string) int {
		d := open(t, Options{URL: url, Schema: "mine"})
		before := strings.Count(server.Log(), "rewritten parse tree")
		level := ""
		require.NoError(t, d.Query(t.Context(), "SELECT setting FROM pg_settings WHERE name = 'log_min_messages'", func(b arrow.RecordBatch) error {
			level = b.Column(0).ValueStr(0)
			return nil
		}))
		require.Equal(t, "warning", level, "the log level is restored before the statement runs")
		return strings.Count(server.Log(), "rewritten parse tree") - before
	}
	require.Positive(t, trees(server.As("loader", "l")), "without the right to set log_min_messages, the tree is logged")
	require.Zero(t, trees(server.URL()), "a superuser keeps the tree out of the log")
	if server.Text("SELECT current_setting('server_version_num')::int >= 150000") != "t" {
		t.Skip("the right to set a parameter can be granted since Postgres 15")
	}
	server.Exec("GRANT SET ON PARAMETER log_min_messages TO loader")
	require.Zero(t, trees(server.As("loader", "l")), "with the right to set log_min_messages, the tree is not logged")
}
