//go:build cgo && duckdb_arrow && unix

package duckdb

import (
	"database/sql/driver"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	duckdb "github.com/duckdb/duckdb-go/v2"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// TestBlockSize creates files with blocks of different sizes. A file keeps its block size, even if the options state
// another size when it is opened. The file can be written, queried and published. An engine with default settings can
// open the file and its published copy.
func TestBlockSize(t *testing.T) {
	for _, size := range []int{16 << 10, 64 << 10, 256 << 10} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, reader := filepath.Join(dir, "blocks.duckdb"), filepath.Join(dir, "copy.duckdb")
			from := state.Cursor("")
			for i, configured := range []int{size, 0, 16 << 10} {
				d := openTest(t, path, Options{BlockSize: configured})
				at, err := d.Cursor(t.Context(), stream)
				require.NoError(t, err)
				require.Equal(t, from, at)
				run := fmt.Sprintf("run%09d", i+1)
				require.NoError(t, put(t.Context(), t, d, run, from, state.Cursor(run), leadRows(run, run, 500)))
				from = state.Cursor(run)
				require.Len(t, rowsOf(t, d, "crm_leads"), 500)
				d.detachIdle()
				require.NoError(t, d.Query(t.Context(), "SELECT count(*) FROM crm_leads", func(arrow.RecordBatch) error { return nil }), "read-only")
				require.NoError(t, d.Publish(t.Context(), reader))
				require.NoError(t, d.Close())
				for _, file := range []string{path, reader} {
					require.EqualValues(t, size, blockSize(t, file))
				}
			}
		})
	}
	for _, size := range []int{-1, 1, 8 << 10, 20_000, 512 << 10} {
		_, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "no.duckdb"), BlockSize: size})
		require.ErrorContains(t, err, "want a power of 2 from 16384 to 262144")
	}
}

// TestCopiedFile copies a file with a separate engine, which uses another block size. Then it loads into the copy.
func TestCopiedFile(t *testing.T) {
	dir := t.TempDir()
	old, path := filepath.Join(dir, "old.duckdb"), filepath.Join(dir, "new.duckdb")
	d := openTest(t, old, Options{})
	require.NoError(t, put(t.Context(), t, d, "run000000001", "", "a", leadRows("run000000001", "v1", 3)))
	require.NoError(t, d.Close())
	exec, done := plainSession(t, "")
	exec("ATTACH " + literal(old) + " AS a")
	exec("ATTACH " + literal(path) + " AS b (BLOCK_SIZE 16384, STORAGE_VERSION 'v1.4.0')")
	exec("COPY FROM DATABASE a TO b")
	done()
	d = openTest(t, path, Options{})
	require.NoError(t, put(t.Context(), t, d, "run000000002", "a", "b", leadRows("run000000002", "v2", 3)))
	require.NoError(t, d.Close())
	require.Equal(t, []string{"v2", "v2", "v2"}, namesOf(t, path))
	require.EqualValues(t, 16<<10, blockSize(t, path))
}

// blockSize returns the block size of a file, as an engine with default settings reports it.
func blockSize(t *testing.T, path string) (size any) {
	t.Helper()
	c, err := duckdb.NewConnector(path+"?access_mode=read_only", nil)
	require.NoError(t, err)
	defer c.Close()
	conn, err := c.Connect(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	s := &session{conn: conn.(*duckdb.Conn), engine: &engine{}}
	require.NoError(t, s.Query(t.Context(), "SELECT block_size FROM pragma_database_size()", func(v []driver.Value) error { size = v[0]; return nil }))
	return size
}

// orders returns a table with ten columns for fields of the source, and penstock's own columns.
func orders(name string) schemas.Table {
	fields := []arrow.Field{schemas.Field("id", schemas.Int64, "/id"), schemas.Field("visits", schemas.Int64, "/visits")}
	for _, n := range []string{"customer", "status", "currency", "email", "note"} {
		fields = append(fields, schemas.Field(n, schemas.Text, "/"+n))
	}
	fields = append(fields, schemas.Field("amount", &arrow.Decimal128Type{Precision: 16, Scale: 2}, "/amount"))
	for _, n := range []string{"created_at", "updated_at"} {
		fields = append(fields, schemas.Field(n, schemas.Timestamp, "/"+n))
	}
	fields = withOwn(fields)
	return schemas.Table{Name: name, Key: []string{"id"}, Columns: arrow.NewSchema(fields, nil)}
}

// orderRows returns rows with the given ids. Their values depend on the id and the version.
func orderRows(t schemas.Table, run string, version, ordinal, n int, id func(i int) int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, t.Columns)
	defer b.Release()
	words := []string{"urgent", "wholesale", "renewal", "partner", "trial", "gift", "return", "late"}
	for i := range n {
		k := id(i)
		x := uint64(k)*0x9E3779B97F4A7C15 + uint64(version)
		x ^= x >> 29
		x *= 0xBF58476D1CE4E5B9
		x ^= x >> 32
		second := arrow.Timestamp(1_000_000)
		values := []any{
			int64(k), int64(x % 5000), "cus_" + strconv.FormatUint(x%200_003, 36), []string{"open", "paid", "void", "draft", "overdue"}[x%5],
			[]string{"EUR", "USD", "GBP"}[x%3], "u" + strconv.FormatUint(x>>20, 36) + "@example.test",
			words[x>>3%8] + " " + words[x>>7%8] + " " + words[x>>11%8] + " " + strconv.FormatUint(x%9973, 10),
			decimal128.FromU64(x >> 8 % 10_000_000), 1_700_000_000*second + arrow.Timestamp(k)*3*second, arrow.Timestamp(1_700_000_000+x%31_000_000) * second,
			1_700_000_000 * second, nil, run, fmt.Sprintf("%016x", x)[:12], "poll", int64(ordinal + i),
		}
		for c, v := range values {
			switch b := b.Field(c).(type) {
			case *array.Int64Builder:
				b.Append(v.(int64))
			case *array.StringBuilder:
				b.Append(v.(string))
			case *array.Decimal128Builder:
				b.Append(v.(decimal128.Num))
			case *array.TimestampBuilder:
				if v == nil {
					b.AppendNull()
				} else {
					b.Append(v.(arrow.Timestamp))
				}
			}
		}
	}
	return b.NewRecordBatch()
}

// BenchmarkBlockSize loads 150 tables of 33 rows, and one table of ROWS rows (default: a million). Then it changes a
// tenth of the rows, and reads all columns with a separate engine.
func BenchmarkBlockSize(b *testing.B) {
	rows, _ := strconv.Atoi(os.Getenv("ROWS"))
	if rows == 0 {
		rows = 1_000_000
	}
	for _, shape := range []struct{ tables, rows int }{{150, 33}, {1, rows}} {
		for _, block := range []int{16 << 10, 64 << 10, 128 << 10, 256 << 10} {
			b.Run(fmt.Sprintf("%dx%d/%d", shape.tables, shape.rows, block), func(b *testing.B) {
				for b.Loop() {
					d, err := Open(b.Context(), Options{Path: filepath.Join(b.TempDir(), "blocks.duckdb"), TempDir: b.TempDir(), BlockSize: block})
					require.NoError(b, err)
					n := shape.rows
					loadTables(b, d, "load", 1, shape.tables, n, func(i int) int { return i })
					b.ReportMetric(float64(size(b, d))/1e6, "MB")
					loadTables(b, d, "merge", 2, shape.tables, n/10, func(i int) int { return i * 7919 % n })
					b.ReportMetric(float64(size(b, d))/1e6, "merged-MB")
					require.NoError(b, d.Close())
					exec, done := plainSession(b, d.o.Path)
					measure(b, "scan", shape.tables*n, func() {
						for i := range shape.tables {
							exec(fmt.Sprintf("SELECT count(*), sum(amount), bit_xor(hash(t)) FROM t%d AS t", i))
						}
					})
					done()
				}
			})
		}
	}
}

// loadTables loads n rows into each table, and reports the CPU time of the commits and the checkpoint.
func loadTables(b *testing.B, d *DB, name string, version, tables, n int, id func(i int) int) {
	const each = 16 * batchRows
	var work time.Duration
	timed := func(f func()) {
		before := cpu()
		f()
		work += cpu() - before
	}
	run := fmt.Sprintf("run%09d", version)
	for i := range tables {
		t := orders(fmt.Sprintf("t%d", i))
		key := state.Key{Pipeline: "p", Stream: t.Name}
		for start := 0; start < n; start += each {
			at, err := d.Cursor(b.Context(), key)
			require.NoError(b, err)
			x, err := d.Begin(b.Context(), key, at, load.Pass{Run: run, Whole: true})
			require.NoError(b, err)
			for o := start; o < min(n, start+each); o += batchRows {
				rows := orderRows(t, run, version, o, min(batchRows, n-o), func(i int) int { return id(o + i) })
				require.NoError(b, x.Write(b.Context(), t, rows))
			}
			timed(func() { require.NoError(b, x.Commit(b.Context(), state.Cursor(run+strconv.Itoa(start)))) })
		}
	}
	timed(d.detachIdle)
	b.ReportMetric(work.Seconds(), name+"-cpu-s")
}
