//go:build cgo && duckdb_arrow && unix

package main

import (
	"database/sql"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/mysql/mysqltest"
)

// mysqlTarget is a database of a server that the test starts.
type mysqlTarget struct {
	server *mysqltest.Server
	at     string
}

func newMySQLTarget(t *testing.T) mysqlTarget {
	t.Helper()
	s := mysqltest.Start(t)
	return mysqlTarget{server: s, at: s.URL(t)}
}

func (m mysqlTarget) url() string { return m.at }

// name returns the name of the database.
func (m mysqlTarget) name() string {
	at, _, _ := strings.Cut(m.at, "?")
	return path.Base(at)
}

func (m mysqlTarget) keep(*testing.T) { m.server.Copy(m.name(), m.name()+"_kept") }

func (m mysqlTarget) reset(_ *testing.T, kept bool) {
	m.server.Exec("DROP DATABASE IF EXISTS " + m.name())
	if kept {
		m.server.Copy(m.name()+"_kept", m.name())
	}
}

// open() copies all tables into a DuckDB in memory. The columns get the types that MySQL has declared for them. Columns
// with lists get the type that penstock has recorded for them.
func (m mysqlTarget) open(t *testing.T) *warehouse {
	t.Helper()
	to := openMemory(t)
	from := m.server.Connect("")
	defer from.Close()
	rows, err := from.Query(`SELECT c.table_name, c.column_name, c.column_type FROM information_schema.columns c
		JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
		WHERE c.table_schema = ? AND t.table_type = 'BASE TABLE' AND c.column_name <> '_penstock_id' AND t.table_name <> '_penstock_pending'
		ORDER BY c.table_name, c.ordinal_position`, m.name())
	require.NoError(t, err)
	defer rows.Close()
	tables := map[string][]column{}
	for rows.Next() {
		var table string
		var c column
		require.NoError(t, rows.Scan(&table, &c.name, &c.typ))
		tables[table] = append(tables[table], c)
	}
	require.NoError(t, rows.Err())
	if len(tables) == 0 {
		return newWarehouse(t, to)
	}
	from = m.connect()
	defer from.Close()
	lists := m.lists(t, from)
	for table, columns := range tables {
		for i, c := range columns {
			columns[i].typ = engineTypeOfMySQL(c.typ, lists[table+"."+c.name])
		}
		copyTexts(t, from, to, table, columns, "CAST(%s AS CHAR)")
	}
	return newWarehouse(t, to)
}

// lists() returns the recorded types of the columns with lists, by table and column.
func (m mysqlTarget) lists(t *testing.T, from *sql.DB) map[string]string {
	t.Helper()
	rows, err := from.Query(`SELECT "table", "column", to_type FROM _penstock_schema WHERE action IN ('add_column', 'widen') ORDER BY "at"`)
	require.NoError(t, err)
	defer rows.Close()
	lists := map[string]string{}
	for rows.Next() {
		var table, column, typ string
		require.NoError(t, rows.Scan(&table, &column, &typ))
		if elem, ok := strings.CutPrefix(typ, "list("); ok {
			lists[table+"."+column] = strings.TrimSuffix(elem, ")")
		} else {
			delete(lists, table+"."+column)
		}
	}
	require.NoError(t, rows.Err())
	return lists
}

// engineTypeOfMySQL returns DuckDB's name of a MySQL type. If the argument `elem` is not "", the column is a list, and
// the result is DuckDB's name of a list whose elements have this type.
func engineTypeOfMySQL(typ, elem string) string {
	if elem != "" {
		return strings.NewReplacer("int64", "BIGINT", "float64", "DOUBLE", "bool", "BOOLEAN", "timestamp", "TIMESTAMPTZ", "text", "VARCHAR", "json", "VARCHAR").Replace(elem) + "[]"
	}
	typ, _, _ = strings.Cut(strings.Replace(typ, "tinyint(1)", "BOOLEAN", 1), "(20)")
	return strings.NewReplacer("longtext", "VARCHAR", "datetime(6)", "TIMESTAMPTZ").Replace(typ)
}

// connect opens the database in a dialect that quotes names as DuckDB does.
func (m mysqlTarget) connect() *sql.DB {
	db := m.server.Connect(m.name())
	db.SetMaxOpenConns(1)
	_, _ = db.Exec("SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT'")
	return db
}

// watch implements [target]. It translates statements into MySQL's dialect.
func (m mysqlTarget) watch(*testing.T) (look func(glancer) (int64, error), done func()) {
	dialect := strings.NewReplacer("TIMESTAMPTZ '", "TIMESTAMP '", "+00'", "'", "AS varchar", "AS char",
		"string_agg(", "group_concat(", ", chr(10))", ` SEPARATOR '\n')`)
	return func(see glancer) (int64, error) {
		db := m.connect()
		defer db.Close()
		return see(asNamed, func(q string, to ...any) error { return db.QueryRow(dialect.Replace(q)).Scan(to...) })
	}, func() {}
}
