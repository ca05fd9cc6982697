//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
)

// asked() creates a file with one table, in its own folder, and opens it as a destination.
func asked(t testing.TB) (d *DB, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "w.duckdb")
	o := Options{Path: path}
	d, err := Open(context.Background(), o)
	require.NoError(t, err)
	e, release, err := d.acquire(t.Context(), writing)
	require.NoError(t, err)
	for _, q := range []string{"CREATE TABLE db.t AS SELECT range i FROM range(10)", "CREATE MACRO db.twice(n) AS TABLE SELECT 2 * n", "CHECKPOINT db"} {
		require.NoError(t, e.write.Exec(t.Context(), q))
	}
	release()
	require.NoError(t, d.Close())
	d, err = Open(context.Background(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d, path
}

// files returns the contents of a folder's files, by name.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		out[e.Name()] = string(b)
	}
	return out
}

var (
	questions = []string{
		"SELECT 1", "FROM t", "TABLE t", "VALUES (1)", "SELECT * FROM twice(4)", "DESCRIBE t", "SHOW TABLES", "SUMMARIZE t", "WITH a AS (SELECT 1) FROM a", "SELECT 1;",
		"PIVOT t ON i IN (1, 2) USING sum(i)", "EXPLAIN SELECT 1", "EXPLAIN ANALYZE SELECT sum(i) FROM t", "EXPLAIN (FORMAT json) SELECT 1", "explain (analyze, format json) FROM t",
		"/* a plan */ explain -- of it\n analyze\n SELECT 1", "SELECT * FROM range(3), unnest([1, 2])", "FROM duckdb_tables()", "FROM pragma_table_info('t')", "SELECT 'COPY', 'read_blob'", "FROM query_table('t')",
	}
	effects = []string{
		"COPY (SELECT 1) TO '{}' (FORMAT csv, USE_TMP_FILE false)", "EXPLAIN ANALYZE COPY (SELECT 1) TO '{}' (FORMAT csv, USE_TMP_FILE false)",
		"EXPLAIN /* */ ANALYZE COPY t TO '{}'", "EXPLAIN (ANALYZE) COPY t TO '{}'", "EXPLAIN COPY t TO '{}'", "EXPLAIN ANALYZE DELETE FROM t", "EXPLAIN ANALYZE INSERT INTO t VALUES (1)",
		"EXPLAIN ANALYZE CREATE TABLE u AS SELECT 1", "INSERT INTO t VALUES (1)", "DROP TABLE t", "SELECT 1; DROP TABLE t", "ATTACH '{}' AS x", "EXPORT DATABASE '{}'", "INSTALL httpfs",
		"SET memory_limit = '1GB'", "CALL force_checkpoint()", "PRAGMA table_info('t')", "SELECT content FROM read_blob('{}')", "FROM \"READ_BLOB\"('{}')", "SELECT (SELECT size FROM read_blob('{}'))",
		"WITH a AS (FROM read_text('{}')) FROM a", "FROM read_csv('{}')", "FROM query('FROM read_blob(''{}'')')", "FROM enable_logging(storage = 'file', storage_path = '{}.log')",
		"FROM enable_profiling(save_location = '{}.json')", "FROM arrow_scan(1, 2, 3)", "FROM checkpoint()", "FROM glob('{}*')", "EXPLAIN ANALYZE FROM force_checkpoint()",
		"SELECT write_log('x')", "FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))", "FROM seq_scan('t')", "EXPLAIN EXPLAIN SELECT 1", "SELEKT 1", "",
	}
)

// A query only reads: the file stays identical byte for byte, and no other file appears.
func TestReadOnlyQueries(t *testing.T) {
	d, path := asked(t)
	before := files(t, filepath.Dir(path))
	none := func(arrow.RecordBatch) error { return nil }
	for _, sql := range questions {
		require.NoError(t, d.Query(t.Context(), sql, none), sql)
	}
	for _, sql := range effects {
		require.Error(t, d.Query(t.Context(), strings.ReplaceAll(sql, "{}", path), none), sql)
	}
	require.Equal(t, before, files(t, filepath.Dir(path)))
}

// A killed process has left a file with a log. A query sees the commits in the log, and changes neither the file nor
// the log.
func TestQueryAfterKill(t *testing.T) {
	d, path := asked(t)
	e, release, err := d.acquire(t.Context(), writing)
	require.NoError(t, err)
	require.NoError(t, e.write.Exec(t.Context(), "INSERT INTO db.t VALUES (10)"))
	dir := t.TempDir()
	left := files(t, filepath.Dir(path))
	require.Contains(t, left, "w.duckdb.wal")
	for name, text := range left {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	release()
	killed := openTest(t, filepath.Join(dir, "w.duckdb"), Options{})
	rows := ""
	require.NoError(t, killed.Query(t.Context(), "SELECT count(*) FROM t", func(b arrow.RecordBatch) error {
		rows = b.Column(0).ValueStr(0)
		return nil
	}))
	require.Equal(t, "11", rows)
	require.Equal(t, left, files(t, dir))
}

// FuzzQuestion passes statements to Query. Whatever the statement, Query must not change a file.
func FuzzQuestion(f *testing.F) {
	for _, sql := range append(questions, effects...) {
		f.Add(sql)
	}
	d, path := asked(f)
	before := files(f, filepath.Dir(path))
	f.Fuzz(func(t *testing.T, sql string) {
		if strings.Contains(strings.ToLower(sql), "sleep") {
			return
		}
		_ = d.Query(t.Context(), strings.ReplaceAll(sql, "{}", path), func(arrow.RecordBatch) error { return context.Canceled })
		require.Equal(t, before, files(t, filepath.Dir(path)))
	})
}
