//go:build cgo && duckdb_arrow && unix

package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/postgres/pgtest"
)

// postgresTarget is a database of a server that the test starts.
type postgresTarget struct {
	server *pgtest.Server
	name   string
	at     *url.URL
}

func newPostgresTarget(t *testing.T, settings ...string) postgresTarget {
	t.Helper()
	s := pgtest.Start(t, settings...)
	at, err := url.Parse(s.URL())
	require.NoError(t, err)
	p := postgresTarget{server: s, name: "warehouse_" + strings.ToLower(rowsOfName.ReplaceAllString(t.Name(), "_")), at: at}
	if len(p.name) > 50 {
		p.name = p.name[:50]
	}
	at.Path = "/" + p.name
	p.reset(t, false)
	return p
}

var rowsOfName = regexp.MustCompile(`[^A-Za-z0-9]+`)

func (p postgresTarget) url() string { return p.at.String() }

func (p postgresTarget) keep(*testing.T) {
	p.server.Exec("DROP DATABASE IF EXISTS " + p.name + "_kept WITH (FORCE)")
	p.server.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + p.name + "'")
	p.server.Exec("CREATE DATABASE " + p.name + "_kept TEMPLATE " + p.name)
}

func (p postgresTarget) reset(_ *testing.T, kept bool) {
	p.server.Exec("DROP DATABASE IF EXISTS " + p.name + " WITH (FORCE)")
	from := "template0"
	if kept {
		from = p.name + "_kept"
	}
	p.server.Exec("CREATE DATABASE " + p.name + " TEMPLATE " + from)
}

func (p postgresTarget) connect(t *testing.T) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(context.Background(), p.url())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// open() copies every table as text into a DuckDB in memory, and converts the columns to the corresponding types.
func (p postgresTarget) open(t *testing.T) *warehouse {
	t.Helper()
	c := p.connect(t)
	defer c.Close(context.Background())
	_, err := c.Exec(t.Context(), "SET TimeZone = 'UTC'")
	require.NoError(t, err)
	db := openMemory(t)
	for table, columns := range p.tables(t, c) {
		p.copyTable(t, c, db, table, columns)
	}
	return newWarehouse(t, db)
}

// tables returns the columns of each table, with the Postgres types of the columns.
func (p postgresTarget) tables(t *testing.T, c *pgx.Conn) map[string][][2]string {
	t.Helper()
	rs, err := c.Query(t.Context(), `SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_class c
		JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace ORDER BY c.relname, a.attnum`)
	require.NoError(t, err)
	defer rs.Close()
	tables := map[string][][2]string{}
	for rs.Next() {
		var table, column, typ string
		require.NoError(t, rs.Scan(&table, &column, &typ))
		tables[table] = append(tables[table], [2]string{column, typ})
	}
	require.NoError(t, rs.Err())
	return tables
}

func (p postgresTarget) copyTable(t *testing.T, c *pgx.Conn, db *sql.DB, table string, columns [][2]string) {
	t.Helper()
	from, to := make([]string, len(columns)), make([]string, len(columns))
	for i, column := range columns {
		name, typ := quote(column[0]), engineType(t, column[1])
		from[i], to[i] = name, fmt.Sprintf("CAST(%s AS %s) AS %[1]s", name, typ)
		if strings.HasSuffix(typ, "[]") { // an array is copied as JSON
			from[i] = fmt.Sprintf("to_json(%s) AS %[1]s", name)
			to[i] = fmt.Sprintf("CAST(CAST(%s AS JSON) AS %s) AS %[1]s", name, typ)
		}
	}
	file := filepath.Join(t.TempDir(), "table.csv")
	f, err := os.Create(file)
	require.NoError(t, err)
	_, err = c.PgConn().CopyTo(t.Context(), f, fmt.Sprintf(`COPY (SELECT %s FROM public.%s) TO STDOUT (FORMAT csv, HEADER, NULL '\N', FORCE_QUOTE *)`,
		strings.Join(from, ", "), quote(table)))
	require.NoError(t, err, table)
	require.NoError(t, f.Close())
	_, err = db.Exec(fmt.Sprintf(`CREATE TABLE %s AS SELECT %s FROM read_csv('%s', header = true, all_varchar = true, delim = ',', quote = '"',
		escape = '"', nullstr = '\N', allow_quoted_nulls = false, parallel = false, auto_detect = false, columns = {%s})`,
		quote(table), strings.Join(to, ", "), file, texts(columns)))
	require.NoError(t, err, table)
}

func texts(columns [][2]string) string {
	parts := make([]string, len(columns))
	for i, c := range columns {
		parts[i] = "'" + strings.ReplaceAll(c[0], "'", "''") + "': 'VARCHAR'"
	}
	return strings.Join(parts, ", ")
}

// engineType returns DuckDB's name of a Postgres type.
func engineType(t *testing.T, typ string) string {
	t.Helper()
	if element, ok := strings.CutSuffix(typ, "[]"); ok {
		return engineType(t, element) + "[]"
	}
	if params, ok := strings.CutPrefix(typ, "numeric"); ok {
		return "DECIMAL" + params
	}
	to, ok := map[string]string{
		"bigint": "BIGINT", "boolean": "BOOLEAN", "double precision": "DOUBLE", "text": "VARCHAR", "date": "DATE",
		"timestamp with time zone": "TIMESTAMPTZ", "json": "JSON", "jsonb": "JSON",
	}[typ]
	require.True(t, ok, "DuckDB's name of the Postgres type %s is not known", typ)
	return to
}

// watch implements [target]. It runs single statements, as a dashboard does.
func (p postgresTarget) watch(*testing.T) (look func(glancer) (int64, error), done func()) {
	var c *pgx.Conn
	closed := func() {
		if c != nil {
			_ = c.Close(context.Background())
		}
	}
	return func(see glancer) (int64, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if c == nil || c.IsClosed() {
			var err error
			if c, err = pgx.Connect(ctx, p.url()); err != nil {
				return 0, nil // the database is being created
			}
		}
		return see(asNamed, func(q string, to ...any) error { return c.QueryRow(ctx, q).Scan(to...) })
	}, closed
}

// copyBack measures how long the server takes to COPY the loaded rows from a binary file into logged tables with the
// same columns. The result `bare` is the time without indexes, and `keyed` is the time with the keys and indexes of the
// loaded tables. The server creates the indexes after it has copied the rows, because that is fastest.
func (p postgresTarget) copyBack(t *testing.T) (bare, keyed float64) {
	t.Helper()
	c := p.connect(t)
	defer c.Close(context.Background())
	exec := func(q string) float64 {
		start := time.Now()
		_, err := c.Exec(t.Context(), q)
		require.NoError(t, err, q)
		return time.Since(start).Seconds()
	}
	for table := range p.tables(t, c) {
		if strings.HasPrefix(table, "_penstock_") {
			continue
		}
		file := "penstock-baseline.bin" // relative to the server's folder
		exec(fmt.Sprintf("COPY %s TO PROGRAM 'cat > %s' (FORMAT binary)", quote(table), file))
		exec(fmt.Sprintf("CREATE TABLE baseline (LIKE %s)", quote(table)))
		took := exec(fmt.Sprintf("COPY baseline FROM PROGRAM 'cat %s' (FORMAT binary)", file))
		bare, keyed = bare+took, keyed+took
		for _, index := range p.indexes(t, c, table) {
			keyed += exec(index)
		}
		exec("DROP TABLE baseline")
		exec(fmt.Sprintf("COPY (SELECT 1) TO PROGRAM 'rm %s; cat > /dev/null'", file))
	}
	return bare, keyed
}

// indexes returns statements that give the table named "baseline" the same indexes as the given table.
func (p postgresTarget) indexes(t *testing.T, c *pgx.Conn, table string) []string {
	t.Helper()
	rs, err := c.Query(t.Context(), `SELECT format('CREATE %s INDEX ON baseline %s', CASE WHEN indisunique THEN 'UNIQUE' ELSE '' END,
		substring(pg_get_indexdef(indexrelid) FROM ' (USING .*)$')) FROM pg_index WHERE indrelid = $1::text::regclass`, quote(table))
	require.NoError(t, err)
	all, err := pgx.CollectRows(rs, pgx.RowTo[string])
	require.NoError(t, err)
	return all
}
