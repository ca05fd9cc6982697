//go:build cgo && duckdb_arrow

package duckdb

import (
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
)

// A query sorts more data than fits in memory. It fails if its temporary files would exceed the limit. The next query
// works, and with a larger limit the same query works too.
func TestTempLimit(t *testing.T) {
	const sorted = "SELECT count(*) FROM (SELECT md5(range::text) AS a, range AS b FROM range(1500000) ORDER BY a, b LIMIT 1400000)"
	none := func(arrow.RecordBatch) error { return nil }
	o := Options{MemoryLimit: "60MB", Threads: 1, TempLimit: "1MB"}
	d := openTest(t, filepath.Join(t.TempDir(), "a.duckdb"), o)
	require.NoError(t, put(t.Context(), t, d, "run000000001", "", "1", leadRows("run000000001", "a", 3)))
	require.ErrorContains(t, d.Query(t.Context(), sorted, none), "max_temp_directory_size")
	require.NoError(t, d.Query(t.Context(), "SELECT count(*) FROM crm_leads", none))
	require.NoError(t, d.Close())

	o.TempLimit = "1GB"
	d = openTest(t, filepath.Join(t.TempDir(), "b.duckdb"), o)
	require.NoError(t, put(t.Context(), t, d, "run000000001", "", "1", leadRows("run000000001", "a", 3)))
	require.NoError(t, d.Query(t.Context(), sorted, none))
}

// An engine over Parquet files has a limit for temporary files too.
func TestTempLimitOfParquet(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.parquet")
	writeParquet(t, file, "SELECT 1 AS id")
	v, err := OpenParquet(t.Context(), map[string][]string{"a": {file}}, nil, nil)
	require.NoError(t, err)
	defer v.Close()
	require.NoError(t, v.Query(t.Context(), "SELECT current_setting('max_temp_directory_size') FROM a", func(r arrow.RecordBatch) error {
		require.Equal(t, "9.3 GiB", r.Column(0).ValueStr(0), "10 GB")
		return nil
	}))
}
