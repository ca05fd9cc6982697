//go:build cgo && duckdb_arrow

package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	_ "modernc.org/sqlite"
)

// sqliteTarget is a warehouse in an SQLite file.
type sqliteTarget struct{ dir string }

func (s sqliteTarget) path() string { return filepath.Join(s.dir, "warehouse.db") }
func (s sqliteTarget) url() string  { return "sqlite:" + s.path() }

func (s sqliteTarget) keep(t *testing.T) {
	require.NoFileExists(t, s.path()+"-wal", "sync must merge the write-ahead log into the file when it closes the file")
	copyFile(t, s.path(), s.path()+".kept")
}

func (s sqliteTarget) reset(t *testing.T, kept bool) {
	for _, ending := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(s.path() + ending); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if kept {
		copyFile(t, s.path()+".kept", s.path())
	}
}

func (s sqliteTarget) connect() (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+s.path()+"?mode=ro&_pragma=busy_timeout(10000)")
}

// open() copies all tables into a DuckDB in memory. The columns get the types that SQLite has declared for them.
func (s sqliteTarget) open(t *testing.T) *warehouse {
	t.Helper()
	to := openMemory(t)
	if _, err := os.Stat(s.path()); errors.Is(err, os.ErrNotExist) {
		return newWarehouse(t, to)
	}
	from, err := s.connect()
	require.NoError(t, err)
	defer from.Close()
	for table, columns := range tablesOfSQLite(t, from) {
		copyTexts(t, from, to, table, columns, "CAST(%s AS TEXT)")
	}
	return newWarehouse(t, to)
}

// tablesOfSQLite returns the columns of each table.
func tablesOfSQLite(t *testing.T, from *sql.DB) map[string][]column {
	t.Helper()
	rows, err := from.Query("SELECT m.name, c.name, c.type FROM sqlite_schema AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table'")
	require.NoError(t, err)
	defer rows.Close()
	tables := map[string][]column{}
	for rows.Next() {
		var table string
		var c column
		require.NoError(t, rows.Scan(&table, &c.name, &c.typ))
		c.typ = strings.NewReplacer("DECIMAL TEXT", "DECIMAL", "DATE TEXT", "DATE", "TIMESTAMP TEXT", "TIMESTAMPTZ", "JSON TEXT", "VARCHAR",
			"TEXT", "VARCHAR", "INTEGER", "BIGINT", "REAL", "DOUBLE").Replace(c.typ)
		if elem, list := strings.CutPrefix(c.typ, "LIST OF "); list {
			c.typ = elem + "[]"
		}
		tables[table] = append(tables[table], c)
	}
	require.NoError(t, rows.Err())
	return tables
}

// copyTexts copies a table through a JSON file in which all values are text. The argument `cast` is a format for the
// SQL that converts a column to text.
func copyTexts(t *testing.T, from, to *sql.DB, table string, columns []column, cast string) {
	t.Helper()
	var read, texts, casts, defs []string
	for i, c := range columns {
		text := fmt.Sprintf("c%d", i)
		read = append(read, fmt.Sprintf(cast, quote(c.name)))
		texts = append(texts, text+": 'VARCHAR'")
		if strings.HasSuffix(c.typ, "[]") {
			text = "CAST(" + text + " AS JSON)"
		}
		casts = append(casts, "CAST("+text+" AS "+c.typ+")")
		defs = append(defs, quote(c.name)+" "+c.typ)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "rows.json"))
	require.NoError(t, err)
	defer file.Close()
	rows, err := from.Query("SELECT " + strings.Join(read, ", ") + " FROM " + quote(table))
	require.NoError(t, err)
	defer rows.Close()
	cells, into := make([]*string, len(columns)), make([]any, len(columns))
	for i := range cells {
		into[i] = &cells[i]
	}
	out := json.NewEncoder(file)
	for rows.Next() {
		require.NoError(t, rows.Scan(into...))
		row := map[string]*string{}
		for i, text := range cells {
			row[fmt.Sprintf("c%d", i)] = text
		}
		require.NoError(t, out.Encode(row))
	}
	require.NoError(t, rows.Err())
	_, err = to.Exec("CREATE TABLE " + quote(table) + " (" + strings.Join(defs, ", ") + ")")
	require.NoError(t, err, table)
	_, err = to.Exec(fmt.Sprintf("INSERT INTO %s SELECT %s FROM read_json('%s', format = 'newline_delimited', columns = {%s})",
		quote(table), strings.Join(casts, ", "), file.Name(), strings.Join(texts, ", ")))
	require.NoError(t, err, table)
}

// watch reads the file at any time. It translates statements into SQLite's dialect, in which times are text.
func (s sqliteTarget) watch(*testing.T) (look func(glancer) (int64, error), done func()) {
	dialect := strings.NewReplacer("TIMESTAMPTZ '", "'", "chr(10)", "char(10)")
	return func(see glancer) (int64, error) {
		db, err := s.connect()
		if err != nil {
			return 0, err
		}
		defer db.Close()
		return see(asNamed, func(q string, to ...any) error { return db.QueryRow(dialect.Replace(q)).Scan(to...) })
	}, func() {}
}
