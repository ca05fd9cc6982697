//go:build unix

package postgres

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/schemas"
)

// people returns records that have one child row each.
func people(run int, v arrow.DataType, names ...string) []part {
	root := part{table: rootTable("people", field("name", schemas.Text), field("v", v))}
	items := part{table: itemTable("people", field("sku", schemas.Text))}
	for i, name := range names {
		root.rows = append(root.rows, row(run, i, "h-"+name, loadtest.Row{"id": fmt.Sprint(i), "name": name, "v": fmt.Sprint(i)}))
		items.rows = append(items.rows, row(run, i, "h-"+name, loadtest.Row{"sku": name, schemas.ColParent: fmt.Sprint(i), schemas.ColIndex: "0"}))
	}
	return []part{root, items}
}

// TestUnchanged loads the same records again. No row, disk page or catalog entry of a table may change.
func TestUnchanged(t *testing.T) {
	server := pgtest.Shared(t)
	for _, mode := range []schemas.Mode{schemas.Merge, schemas.Append, schemas.Replace, schemas.History} {
		schema := string(mode)
		d := open(t, Options{URL: server.URL(), Schema: schema})
		parts := func(run int) []part {
			p := people(run, schemas.Int64, "ann", "bob", "cid")
			p[0].table.Mode, p[1].table.Mode = mode, mode
			return p
		}
		loadRows(t, d, 1, parts(1)...)
		touched := func() string {
			return server.Text(fmt.Sprintf(`SELECT string_agg(x, ' ' ORDER BY x) FROM (SELECT 'r' || id || xmin || ctid || xmax AS x FROM %s.people
				UNION ALL SELECT 'i' || xmin || ctid || xmax FROM %s.people__items UNION ALL SELECT 's' || xmin || ctid FROM %s._penstock_schema
				UNION ALL SELECT 'f' || oid || relfilenode || pg_relation_size(oid) FROM pg_class WHERE relname LIKE 'people%%') AS t`, schema, schema, schema))
		}
		before := touched()
		for run := 2; run < 5; run++ {
			out := loadRows(t, d, run, parts(run)...)
			require.EqualValues(t, 3, out.Unchanged, mode)
		}
		require.Equal(t, before, touched(), mode)
		require.NoError(t, d.Close())
	}
}

// TestUnderscoresInName loads a root table whose name contains two underscores, like the name of a child table. The
// test drops the child table of this root table, and later it drops a column of the child table. Both times, the next
// load writes the records again.
func TestUnderscoresInName(t *testing.T) {
	server := pgtest.Shared(t)
	d := open(t, Options{URL: server.URL(), Schema: "s"})
	parts := func(run int) []part {
		p := people(run, schemas.Int64, "ann", "bob")
		p[0].table.Name, p[1].table.Name = "crm__people", "crm__people__items"
		return p
	}
	loadRows(t, d, 1, parts(1)...)
	require.Len(t, rowsOf(t, d, "crm__people__items"), 2)
	server.Exec("DROP TABLE s.crm__people__items CASCADE")
	require.EqualValues(t, 2, loadRows(t, d, 2, parts(2)...).Written)
	require.Len(t, rowsOf(t, d, "crm__people__items"), 2)

	server.Exec("DROP VIEW s.crm__people__items_current; ALTER TABLE s.crm__people__items DROP COLUMN sku")
	changes, err := d.Accept(t.Context(), "crm__people__items")
	require.NoError(t, err)
	require.Len(t, changes, 1)
	require.EqualValues(t, 2, loadRows(t, d, 3, parts(3)...).Written)
	require.EqualValues(t, 2, loadRows(t, d, 4, parts(4)...).Unchanged)
}

// TestViewsSurvive widens a column on which views depend. Afterwards, the views have the same properties as before.
func TestViewsSurvive(t *testing.T) {
	server := pgtest.Shared(t)
	d := open(t, Options{URL: server.URL(), Schema: "s"})
	loadRows(t, d, 1, people(1, schemas.Int64, "ann", "bob")...)
	server.Exec(`CREATE ROLE reader; CREATE ROLE owner; GRANT USAGE ON SCHEMA s TO reader; GRANT USAGE, CREATE ON SCHEMA s TO owner; GRANT SELECT ON s.people TO owner;
		GRANT SELECT ON s.people TO reader; GRANT SELECT ON s.people_current TO reader;
		ALTER TABLE s.people ADD COLUMN mine text DEFAULT 'x'; CREATE INDEX mine ON s.people (v);
		CREATE VIEW s."sums 'n more" (k, total) WITH (security_barrier = true) AS SELECT name, v FROM s.people;
		COMMENT ON VIEW s."sums 'n more" IS 'it''s mine'; COMMENT ON COLUMN s."sums 'n more".total IS 'all of it';
		ALTER VIEW s."sums 'n more" OWNER TO owner; GRANT SELECT (k) ON s."sums 'n more" TO reader WITH GRANT OPTION;
		CREATE VIEW s.nested AS SELECT total FROM s."sums 'n more" WHERE k <> 'zoe' WITH CHECK OPTION; GRANT SELECT, UPDATE ON s.nested TO PUBLIC;
		CREATE VIEW s.other AS SELECT name FROM s.people`)
	print := func() string {
		return server.Text(`SELECT string_agg(concat_ws('|', c.relname, c.relowner, c.reloptions, c.relacl, obj_description(c.oid),
			(SELECT string_agg(concat_ws('|', attname, attacl, col_description(attrelid, attnum)), ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0)), ';' ORDER BY relname)
			FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE relkind = 'v' AND nspname = 's'`)
	}
	before := print()
	other := server.Text("SELECT 's.other'::regclass::oid")
	wider := people(2, schemas.Text, "ann", "bob", "cid")
	wider[0].rows[2]["v"] = "many"
	loadRows(t, d, 2, wider...)
	require.Equal(t, before, print())
	require.Equal(t, other, server.Text("SELECT 's.other'::regclass::oid"), "a view that does not use the column is not created again")
	require.Equal(t, "0,1,many", server.Text("SELECT string_agg(total, ',' ORDER BY total) FROM s.nested"))
	require.Equal(t, "3", server.Text("SELECT count(mine) FROM s.people"), "a column of the user keeps its default")
	require.Equal(t, "3", server.Text("SELECT count(*) FROM s.people_current"))
	require.Equal(t, "t", server.Text("SELECT has_table_privilege('reader', 's.people', 'SELECT')"))
	require.Equal(t, "true", server.Text("SELECT (to_regclass('s.mine') IS NOT NULL)::text"))
}

// In TestViewsStop, a column has dependent objects that cannot be created again. The stream stops, and nothing changes.
func TestViewsStop(t *testing.T) {
	server := pgtest.Shared(t)
	d := open(t, Options{URL: server.URL(), Schema: "s"})
	for _, c := range []struct{ make, drop, says string }{
		{"CREATE MATERIALIZED VIEW s.m AS SELECT v FROM s.people", "DROP MATERIALIZED VIEW s.m", "materialized view s.m"},
		{"CREATE VIEW s.m AS SELECT v FROM s.people; CREATE RULE r AS ON INSERT TO s.m DO INSTEAD NOTHING", "DROP VIEW s.m", "rule r on view s.m"},
		{"CREATE VIEW s.m AS SELECT v FROM s.people; CREATE FUNCTION s.f(s.m) RETURNS int LANGUAGE sql AS 'SELECT 1'", "DROP VIEW s.m CASCADE", "function s.f(s.m)"},
		{"CREATE VIEW s.m AS SELECT v + 1 AS w FROM s.people", "DROP VIEW s.m", "recreate view s.m"},
		{"ALTER TABLE s.people ADD COLUMN g bigint GENERATED ALWAYS AS (v + 1) STORED", "ALTER TABLE s.people DROP COLUMN g", "generated column"},
		{"CREATE TRIGGER tr BEFORE UPDATE OF v ON s.people FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()", "DROP TRIGGER tr ON s.people", "trigger"},
	} {
		server.Exec("DROP SCHEMA IF EXISTS s CASCADE")
		loadRows(t, d, 1, people(1, schemas.Int64, "ann", "bob")...)
		server.Exec(c.make)
		before := server.Text("SELECT string_agg(concat_ws('|', relname, relfilenode, oid), ';' ORDER BY relname) FROM pg_class WHERE relnamespace = 's'::regnamespace")
		_, err := attemptLoad(t, d, 2, "c2", people(2, schemas.Text, "ann", "bea")...)
		require.ErrorContains(t, err, c.says)
		require.ErrorContains(t, err, "people")
		require.Equal(t, before, server.Text("SELECT string_agg(concat_ws('|', relname, relfilenode, oid), ';' ORDER BY relname) FROM pg_class WHERE relnamespace = 's'::regnamespace"))
		require.Equal(t, "ann,bob", server.Text("SELECT string_agg(name, ',' ORDER BY name) FROM s.people"))
		server.Exec(c.drop)
		loadRows(t, d, 2, people(2, schemas.Text, "ann", "bea")...)
	}
}

// TestHostileServer sets parameters of penstock's role, and creates objects with the names of penstock's tables and of
// built-in objects. If penstock used any of these parameters or objects, it would read or write wrong data.
func TestHostileServer(t *testing.T) {
	server := pgtest.Start(t)
	server.Exec(`CREATE ROLE penny LOGIN; CREATE SCHEMA s AUTHORIZATION penny; CREATE SCHEMA evil; GRANT ALL ON SCHEMA evil TO PUBLIC;
		CREATE TABLE evil._penstock_state (pipeline text, stream text, cursor text, sequence bigint, updated_at timestamptz);
		CREATE TABLE evil.people (id text); INSERT INTO evil.people VALUES ('theirs');
		CREATE FUNCTION evil.count(anyelement) RETURNS bigint LANGUAGE sql AS 'SELECT 666::bigint';
		CREATE FUNCTION evil.greatest(anyelement, anyelement) RETURNS anyelement LANGUAGE sql AS 'SELECT $1';
		CREATE FUNCTION evil.lt(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'; CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.lt);
		CREATE DOMAIN evil.text AS pg_catalog.text CHECK (false); CREATE DOMAIN evil.int8 AS pg_catalog.int8;
		ALTER ROLE penny SET search_path = evil, pg_catalog, public; ALTER ROLE penny SET standard_conforming_strings = off; ALTER ROLE penny SET TimeZone = 'Pacific/Chatham';
		ALTER ROLE penny SET DateStyle = 'German, DMY'; ALTER ROLE penny SET default_transaction_read_only = on; ALTER ROLE penny SET default_transaction_isolation = 'serializable';
		ALTER ROLE penny SET synchronous_commit = off; ALTER ROLE penny SET extra_float_digits = -5; ALTER ROLE penny SET bytea_output = 'escape';
		ALTER ROLE penny SET escape_string_warning = on; ALTER ROLE penny SET statement_timeout = '1min'; ALTER ROLE penny SET array_nulls = off; ALTER ROLE penny SET quote_all_identifiers = on`)
	d := open(t, Options{URL: server.As("penny", ""), Schema: "s"})
	require.NoError(t, d.Check(t.Context()))
	for run := 1; run < 4; run++ {
		parts := people(run, schemas.Int64, "it's \\ 'x", "bob"+fmt.Sprint(run), "cid")
		out := loadRows(t, d, run, parts...)
		require.EqualValues(t, 3, out.Written+out.Unchanged)
	}
	wider := people(4, schemas.Text, "it's \\ 'x")
	loadRows(t, d, 4, wider...)
	require.Equal(t, "it's \\ 'x|0", server.Text("SELECT name || '|' || v FROM s.people_current"))
	require.Equal(t, "theirs", server.Text("SELECT string_agg(id, ',') FROM evil.people"))
	require.Equal(t, "0", server.Text("SELECT count(*) FROM evil._penstock_state"))
	require.Equal(t, "t", server.Text("SELECT (SELECT max(_penstock_synced_at) FROM s.people) = updated_at FROM s._penstock_state"))
}

// In TestRights, the role has no rights at first. [DB.Check] returns an error that names a missing right, and the test
// grants this right. The test repeats this until no right is missing.
func TestRights(t *testing.T) {
	server := pgtest.Start(t)
	server.Exec("CREATE ROLE penny LOGIN; REVOKE TEMP ON DATABASE postgres FROM PUBLIC; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	d := open(t, Options{URL: server.As("penny", ""), Schema: "My Schema"})
	lacks := func(text string) {
		t.Helper()
		require.ErrorContains(t, d.Check(t.Context()), text)
	}
	lacks(`CREATE SCHEMA "My Schema" AUTHORIZATION penny`)
	lacks(`GRANT TEMP ON DATABASE postgres TO penny`)
	server.Exec(`CREATE SCHEMA "My Schema"; GRANT TEMP ON DATABASE postgres TO penny`)
	lacks(`GRANT USAGE ON SCHEMA "My Schema" TO penny`)
	lacks(`GRANT CREATE ON SCHEMA "My Schema" TO penny`)
	server.Exec(`GRANT USAGE, CREATE ON SCHEMA "My Schema" TO penny`)
	require.NoError(t, d.Check(t.Context()))
	loadRows(t, d, 1, people(1, schemas.Int64, "ann")...)
	server.Exec(`ALTER TABLE "My Schema".people OWNER TO penstock`)
	lacks(`ALTER TABLE "My Schema".people OWNER TO penny`)
	server.Exec(`ALTER TABLE "My Schema".people OWNER TO penny; ALTER TABLE "My Schema".people ENABLE ROW LEVEL SECURITY; ALTER TABLE "My Schema".people FORCE ROW LEVEL SECURITY`)
	lacks(`row-level security`)
	_, err := attemptLoad(t, d, 2, "c2", people(2, schemas.Int64, "bob")...)
	require.Error(t, err, "a load fails if rows are hidden, because it must not treat them as deleted")
}

// In TestColumnsLimit, a table would get too many columns. The stream stops, and the error names the limit.
func TestColumnsLimit(t *testing.T) {
	server := pgtest.Shared(t)
	d := open(t, Options{URL: server.URL(), Schema: "s"})
	var columns []arrow.Field
	for i := range 1600 {
		columns = append(columns, field(fmt.Sprint("c", i), schemas.Int64))
	}
	wide := part{table: rootTable("wide", columns...), rows: []loadtest.Row{row(1, 0, "h", loadtest.Row{"id": "1"})}}
	_, err := attemptLoad(t, d, 1, "c1", wide)
	require.ErrorContains(t, err, "1600")
	require.Empty(t, server.Text("SELECT to_regclass('s.wide')"))
}

// With the default limit, a table can have all columns of a stream in every mode. But a single row can still have more
// long values than fit into a page of Postgres.
func TestDefaultColumnsFit(t *testing.T) {
	server := pgtest.Shared(t)
	for _, mode := range []schemas.Mode{schemas.Merge, schemas.History} {
		d := open(t, Options{URL: server.URL(), Schema: string(mode)})
		var columns []arrow.Field
		for i := range schemas.DefaultColumns {
			columns = append(columns, field(fmt.Sprint("c", i), schemas.Int64))
		}
		last := fmt.Sprint("c", schemas.DefaultColumns-1)
		columns = append(columns, schemas.Field(schemas.ColRest, schemas.JSON, ""))
		wide := part{table: rootTable("wide", columns...)}
		wide.table.Mode = mode
		for run := 1; run <= 2; run++ {
			wide.rows = []loadtest.Row{row(run, 0, fmt.Sprint("h", run), loadtest.Row{"id": "1", last: fmt.Sprint(run), schemas.ColRest: `{"more":1}`})}
			loadRows(t, d, run, wide)
		}
		require.Equal(t, "2", server.Text(fmt.Sprintf("SELECT max(%s) FROM %s.wide", last, mode)))
		require.NoError(t, d.Close())
	}
}

// TestFlaws writes values that Postgres cannot store. Each value is stored in another form, and recorded as a reject.
func TestFlaws(t *testing.T) {
	server := pgtest.Shared(t)
	d := open(t, Options{URL: server.URL(), Schema: "s"})
	table := rootTable("odd", field("t", schemas.Text), field("j", schemas.JSON), field("l", arrow.ListOf(schemas.Text)), field("at", schemas.Timestamp))
	items := itemTable("odd", field("t", schemas.Text))
	at := arrow.NewMetadata([]string{schemas.SourceKey}, []string{"/items"})
	items.Columns = arrow.NewSchema(items.Columns.Fields(), &at)
	rows := []loadtest.Row{
		row(1, 10, "a", loadtest.Row{"id": "1", "t": "x\x00y", "j": `{"a":"\u0000"}`}),
		row(1, 11, "b", loadtest.Row{"id": "2", "t": "fine", "j": `{"a":1,"a":2}`}),
		row(1, 12, "c", loadtest.Row{"id": "3", "j": `not json`}),
	}
	b := loadtest.Batch(t, table, rows...)
	defer b.Release()
	odd := withCells(t, b)
	x, err := d.Begin(t.Context(), leads, "", load.Pass{Run: "run1#2", Whole: true})
	require.NoError(t, err)
	defer x.Rollback()
	require.NoError(t, x.Write(t.Context(), table, odd))
	children := loadtest.Batch(t, items, row(1, 11, "b", loadtest.Row{"t": "c\x00d", schemas.ColParent: "2", schemas.ColIndex: "5"}))
	defer children.Release()
	require.NoError(t, x.Write(t.Context(), items, children))
	require.NoError(t, x.Commit(t.Context(), "c1"))
	require.Equal(t, strings.Join([]string{
		`run1|2|10|/j|json|{"a":"\u0000"}`, `run1|2|10|/t|text|"x\u0000y"`,
		`run1|2|11|/items/5/t|text|"c\u0000d"`, `run1|2|11|/j|json|{"a":1,"a":2}`, `run1|2|11|/l|list(text)|"p\u0000q"`,
		`run1|2|12|/at|timestamp|`, `run1|2|12|/j|json|not json`,
	}, "\n"), server.Text(`SELECT string_agg(concat_ws('|', run, pass, ordinal, pointer, wanted, CASE pointer WHEN '/at' THEN '' ELSE raw END), E'\n' ORDER BY ordinal, pointer) FROM s._penstock_rejects`))
	require.Equal(t, `x\u0000y`, server.Text("SELECT t FROM s.odd WHERE id = 1"))
	require.Equal(t, `{"a":"\u0000"}`, server.Text("SELECT j #>> '{}' FROM s.odd WHERE id = 1"))
	require.Equal(t, `{a,"p\\u0000q"}`, server.Text("SELECT l FROM s.odd WHERE id = 2"))
	require.Equal(t, "", server.Text("SELECT at FROM s.odd WHERE id = 3"))
}

// withCells puts a list with a zero byte into the second row, and a time beyond the supported range into the third.
func withCells(t testing.TB, b arrow.RecordBatch) arrow.RecordBatch {
	columns := append([]arrow.Array{}, b.Columns()...)
	lb := array.NewListBuilder(memory.DefaultAllocator, schemas.Text)
	defer lb.Release()
	lb.AppendNull()
	lb.Append(true)
	lb.ValueBuilder().(*array.StringBuilder).AppendValues([]string{"a", "p\x00q"}, nil)
	lb.AppendNull()
	columns[b.Schema().FieldIndices("l")[0]] = lb.NewArray()
	tb := array.NewTimestampBuilder(memory.DefaultAllocator, schemas.Timestamp.(*arrow.TimestampType))
	defer tb.Release()
	tb.AppendNull()
	tb.AppendNull()
	tb.Append(arrow.Timestamp(-9e18))
	columns[b.Schema().FieldIndices("at")[0]] = tb.NewArray()
	out := array.NewRecordBatch(b.Schema(), columns, b.NumRows())
	t.Cleanup(out.Release)
	return out
}

// TestTimes stores times at both ends of Postgres's range.
func TestTimes(t *testing.T) {
	server := pgtest.Shared(t)
	d := open(t, Options{URL: server.URL(), Schema: "s"})
	loadRows(t, d, 1, people(1, schemas.Int64, "ann")...)
	require.NoError(t, d.Query(t.Context(), "SELECT TIMESTAMPTZ '294247-01-10 04:00:54.775807+00' AS a, TIMESTAMPTZ '4714-11-24 00:00:00+00 BC' AS b, 1.50 AS n, sum(id) AS s FROM people", func(b arrow.RecordBatch) error {
		require.EqualValues(t, math.MaxInt64, b.Column(0).(*array.Timestamp).Value(0))
		require.EqualValues(t, time.Date(-4713, time.November, 24, 0, 0, 0, 0, time.UTC).UnixMicro(), b.Column(1).(*array.Timestamp).Value(0))
		require.Equal(t, "1.5", b.Column(2).ValueStr(0))
		require.Equal(t, "0", b.Column(3).ValueStr(0))
		return nil
	}))
}

// TestReadOnlyQueries checks that statements that may do more than read are refused.
func TestReadOnlyQueries(t *testing.T) {
	server := pgtest.Shared(t)
	d := open(t, Options{URL: server.URL(), Schema: "s"})
	loadRows(t, d, 1, people(1, schemas.Int64, "ann")...)
	none := func(arrow.RecordBatch) error { return nil }
	for _, sql := range []string{"DROP TABLE people", "COMMIT", "/* SELECT */ DELETE FROM people", "DO $$ BEGIN END $$"} {
		require.ErrorIs(t, d.Query(t.Context(), sql, none), ErrNotReadOnly, sql)
	}
	for _, sql := range []string{"SELECT 1; DROP TABLE people", "WITH d AS (DELETE FROM people RETURNING 1) SELECT * FROM d", "EXPLAIN ANALYZE DELETE FROM people", "SELECT $1::int", "SELECT * FROM nowhere"} {
		require.Error(t, d.Query(t.Context(), sql, none), sql)
	}
	for _, sql := range []string{"SELECT 1", " -- why\n(VALUES (1), (2))", "TABLE people", "SHOW server_version", "EXPLAIN SELECT 1", "SELECT id FROM people WHERE false"} {
		called := false
		require.NoError(t, d.Query(t.Context(), sql, func(arrow.RecordBatch) error { called = true; return nil }), sql)
		require.True(t, called, sql)
	}
	require.Equal(t, "1", server.Text("SELECT count(*) FROM s.people"))
}

// TestComments checks the comments on tables and columns.
func TestComments(t *testing.T) {
	server := pgtest.Shared(t)
	d := open(t, Options{URL: server.URL(), Schema: "s"})
	loadRows(t, d, 1, people(1, schemas.Int64, "ann")...)
	require.Equal(t, "records of crm.leads", server.Text("SELECT obj_description('s.people'::regclass)"))
	require.Equal(t, "/name", server.Text("SELECT col_description(attrelid, attnum) FROM pg_attribute WHERE attrelid = 's.people'::regclass AND attname = 'name'"))
	server.Exec("COMMENT ON COLUMN s.people.name IS 'mine'")
	loadRows(t, d, 2, people(2, schemas.Text, "bob")...)
	require.Equal(t, "mine", server.Text("SELECT col_description(attrelid, attnum) FROM pg_attribute WHERE attrelid = 's.people'::regclass AND attname = 'name'"))
}

// TestDocuments checks that a JSON column keeps the value of each document. It tests a first load and a merge, with the
// types json and jsonb.
func TestDocuments(t *testing.T) {
	server := pgtest.Shared(t)
	docs := []string{`{"b":[1,2.50,null],"a":"\u00e9"}`, `12345678901234567890.50`, `"text"`, `1e3`, `-0`, `{"a":{"a":{}}}`, `[ ]`}
	for _, kind := range []string{"json", "jsonb"} {
		d := open(t, Options{URL: server.URL(), Schema: kind, JSON: kind})
		for run, shift := range []int{0, 3} {
			p := part{table: rootTable("docs", field("j", schemas.JSON))}
			for i := range docs {
				doc := docs[(i+shift)%len(docs)]
				p.rows = append(p.rows, row(run+1, i, fmt.Sprint(doc), loadtest.Row{"id": fmt.Sprint(i), "j": doc}))
			}
			loadRows(t, d, run+1, p)
			for _, r := range rowsOf(t, d, "docs") {
				i, err := strconv.Atoi(r["id"])
				require.NoError(t, err)
				doc := docs[(i+shift)%len(docs)]
				if doc == "-0" && kind == "jsonb" {
					require.Equal(t, `"-0"`, r["j"], "jsonb would change -0, so it is stored as a string")
					continue
				}
				require.JSONEq(t, doc, r["j"])
			}
		}
		require.NoError(t, d.Close())
	}
	require.Equal(t, "2", server.Text("SELECT count(*) FROM jsonb._penstock_rejects WHERE raw = '-0'"))
	require.Equal(t, "12345678901234567890.50", server.Text("SELECT j FROM jsonb.docs WHERE j::text LIKE '1234%'"))
	require.Equal(t, "0", server.Text("SELECT count(*) FROM json._penstock_rejects"))
}

// The row of the wide table has more values than a page of Postgres can store. The load fails, and the error says what
// to do. No table is left. A row with 400 long values can be stored.
func TestRowLargerThanAPage(t *testing.T) {
	server := pgtest.Shared(t)
	for _, n := range []int{Columns, 1000} {
		d := open(t, Options{URL: server.URL(), Schema: fmt.Sprintf("wide%d", n)})
		fields := make([]arrow.Field, n)
		values := loadtest.Row{"id": "1"}
		for i := range fields {
			fields[i] = field(fmt.Sprintf("c%04d", i), schemas.Text)
			values[fields[i].Name] = fmt.Sprintf("value %d, which is as long as many are", i)
		}
		p := part{table: rootTable("wide", fields...), rows: []loadtest.Row{row(1, 0, "h", values)}}
		_, err := attemptLoad(t, d, 1, "c1", p)
		if n == Columns {
			require.NoError(t, err)
			require.Equal(t, "1", server.Text("SELECT count(*)::text FROM wide400.wide WHERE c0399 LIKE 'value 399,%'"))
		} else {
			require.ErrorContains(t, err, "set `max_columns: 400` on the stream to store the other values in _penstock_rest")
			require.Equal(t, "0", server.Text("SELECT count(*)::text FROM pg_class WHERE relname = 'wide' AND relnamespace = 'wide1000'::regnamespace"))
		}
		require.NoError(t, d.Close())
	}
}
