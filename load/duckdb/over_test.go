//go:build cgo && duckdb_arrow

package duckdb

import (
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
)

// Files with different columns, written at different times, form one view. No other file can be read.
func TestOver(t *testing.T) {
	dir := t.TempDir()
	a, b, c := filepath.Join(dir, "a'1.parquet"), filepath.Join(dir, "b.parquet"), filepath.Join(dir, "c.parquet")
	writeParquet(t, a, "SELECT unnest([0, 1, 5]) AS id, 'x' AS name")
	deleted := filepath.Join(dir, "deleted.parquet")
	writeParquet(t, deleted, "SELECT 'file:///other/place/a''1.parquet' AS file_path, unnest([0, 2]) AS pos")
	writeParquet(t, b, "SELECT 2 AS id, 1.50::DECIMAL(16,2) AS price, 'y' AS name")
	writeParquet(t, c, "SELECT 3 AS id")
	v, err := OpenParquet(t.Context(), map[string][]string{"select": {a, b}}, map[string][]string{"select": {deleted}}, map[string]string{"dear": `SELECT id FROM "select" WHERE price > 1`})
	require.NoError(t, err)
	defer v.Close()

	var rows []string
	require.NoError(t, v.Query(t.Context(), `SELECT id, name, price FROM "select" ORDER BY id`, func(r arrow.RecordBatch) error {
		for i := range int(r.NumRows()) {
			rows = append(rows, r.Column(0).ValueStr(i)+" "+r.Column(1).(*array.String).Value(i)+" "+r.Column(2).ValueStr(i))
		}
		return nil
	}))
	require.Equal(t, []string{"1 x (null)", "2 y 1.5"}, rows)
	require.NoError(t, v.Query(t.Context(), "FROM dear", func(r arrow.RecordBatch) error {
		require.EqualValues(t, 1, r.NumRows())
		return nil
	}))
	for _, sql := range []string{
		"SELECT * FROM read_parquet('" + c + "')", "SELECT * FROM read_csv('/etc/passwd')", "CREATE TABLE t (id INT)",
		"COPY (SELECT 1) TO '" + filepath.Join(dir, "d.csv") + "'", "SET memory_limit = '8GB'", "SELECT 1; SELECT 2",
	} {
		require.Error(t, v.Query(t.Context(), sql, func(arrow.RecordBatch) error { return nil }), sql)
	}
}

// Sources share a table. The view has the same columns, whether rows are deleted or not. The files of a catalog have a
// column with the source, and plain Parquet files do not. A user's column may have the name of a column that DuckDB adds.
func TestOverColumns(t *testing.T) {
	dir := t.TempDir()
	for source, column := range map[string]string{"catalog": ", 'berlin' AS _penstock_source", "plain": ""} {
		for _, user := range []string{"name", "file_row_number", "FILE_ROW_NUMBER", "filename"} {
			folder := filepath.Join(dir, source+user, "_penstock_source=berlin")
			require.NoError(t, os.MkdirAll(folder, 0o700))
			a, b, deleted := filepath.Join(folder, "a.parquet"), filepath.Join(folder, "b.parquet"), filepath.Join(dir, source+user+".parquet")
			writeParquet(t, a, "SELECT unnest([1, 2, 3]) AS id, 'x' AS "+user+column)
			writeParquet(t, b, "SELECT unnest([4, 5]) AS id, 'y' AS "+user+column)
			writeParquet(t, deleted, "SELECT 'file:///other/place/b.parquet' AS file_path, 0 AS pos")
			for _, deletes := range []map[string][]string{nil, {"t": {deleted}}} {
				v, err := OpenParquet(t.Context(), map[string][]string{"t": {a, b}}, deletes, nil)
				require.NoError(t, err, user)
				var rows []string
				require.NoError(t, v.Query(t.Context(), "FROM t ORDER BY id", func(r arrow.RecordBatch) error {
					require.Equal(t, []string{"_penstock_source", "id", user}, load.Names(r.Schema()))
					for i := range int(r.NumRows()) {
						rows = append(rows, r.Column(0).ValueStr(i)+" "+r.Column(1).ValueStr(i)+" "+r.Column(2).ValueStr(i))
					}
					return nil
				}))
				want := []string{"berlin 1 x", "berlin 2 x", "berlin 3 x", "berlin 4 y", "berlin 5 y"}
				if deletes != nil {
					want = slices.Delete(want, 3, 4)
				}
				require.Equal(t, want, rows)
				require.NoError(t, v.Close())
			}
		}
	}
}

func writeParquet(t *testing.T, path, query string) {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec("COPY (" + query + ") TO " + literal(path))
	require.NoError(t, err)
}
