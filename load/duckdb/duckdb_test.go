//go:build cgo && duckdb_arrow

package duckdb

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/sqlmerge"
)

func TestConformance(t *testing.T) {
	var paths sync.Map
	loadtest.Run(t, loadtest.Driver{
		Open: func(t testing.TB, step func(string) error) load.Destination {
			path, ok := paths.Load(t)
			if !ok {
				path = filepath.Join(t.TempDir(), "it's a test.duckdb")
				paths.Store(t, path)
			}
			d, err := Open(t.Context(), Options{Path: path.(string), TempDir: t.TempDir(), Step: step})
			require.NoError(t, err)
			return d
		},
		Rows: func(t testing.TB, d load.Destination, table string) []loadtest.Row { return rowsOf(t, d.(*DB), table) },
		Alter: func(t testing.TB, d load.Destination, table, column string, to arrow.DataType) {
			d.(*DB).detachIdle()
			path, _ := paths.Load(t)
			q := "ALTER TABLE " + sqlmerge.Ident(table) + " DROP COLUMN " + sqlmerge.Ident(column)
			if to != nil {
				q = "ALTER TABLE " + sqlmerge.Ident(table) + " ALTER " + sqlmerge.Ident(column) + " TYPE " + sqlType(to)
			}
			exec, done := plainSession(t, path.(string))
			defer done()
			exec(q)
		},
		Drop: func(t testing.TB, d load.Destination, table string) {
			d.(*DB).detachIdle()
			path, _ := paths.Load(t)
			exec, done := plainSession(t, path.(string))
			defer done()
			exec("DROP TABLE " + sqlmerge.Ident(table))
		},
		Comment: func(t testing.TB, d load.Destination, table, column string) string {
			return commentOf(t, d.(*DB), table, column)
		},
		Views:   true,
		Surveys: true,
	})
}

// commentOf returns the comment on a column, or on the table if column is "".
func commentOf(t testing.TB, d *DB, table, column string) (text string) {
	t.Helper()
	q := "SELECT coalesce(comment, '') AS text FROM duckdb_columns() WHERE column_name = " + literal(column)
	if column == "" {
		q = "SELECT coalesce(comment, '') AS text FROM duckdb_tables() WHERE true"
	}
	err := d.Query(t.Context(), q+" AND table_name = "+literal(table), func(b arrow.RecordBatch) error {
		for _, r := range loadtest.RowsOf(b) {
			text = r["text"]
		}
		return nil
	})
	require.NoError(t, err)
	return text
}

// rowsOf returns the rows of a table, or none if the table does not exist.
func rowsOf(t testing.TB, d *DB, table string) (rows []loadtest.Row) {
	t.Helper()
	err := d.Query(t.Context(), "SELECT * FROM "+sqlmerge.Ident(table), func(b arrow.RecordBatch) error {
		rows = append(rows, loadtest.RowsOf(b)...)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) || err != nil && strings.Contains(err.Error(), "does not exist") {
		return nil
	}
	require.NoError(t, err)
	return rows
}
