//go:build cgo && duckdb_arrow && unix

package duckdb

import (
	"context"
	"database/sql/driver"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	duckdb "github.com/duckdb/duckdb-go/v2"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// contacts generates records of about 500 bytes, in batches of 10,000 like those of package transform.
type contacts struct {
	table  schemas.Table
	shared []arrow.Array // all columns except those that identify rows
}

const batchRows = 10_000

// withOwn adds penstock's own columns of a table.
func withOwn(fields []arrow.Field) []arrow.Field {
	for _, n := range []string{schemas.ColSyncedAt, schemas.ColDeletedAt} {
		fields = append(fields, schemas.Field(n, schemas.Timestamp, ""))
	}
	for _, n := range []string{schemas.ColRun, schemas.ColHash, schemas.ColVia} {
		fields = append(fields, schemas.Field(n, schemas.Text, ""))
	}
	fields = append(fields, arrow.Field{Name: schemas.ColOrdinal, Type: schemas.Int64})
	return fields
}

func newContacts() *contacts {
	texts := []string{"object", "contact_ref", "first_name", "last_name", "email", "phone", "company", "currency", "city", "street", "country", "zip", "note", "avatar", "owner_ref"}
	fields := []arrow.Field{schemas.Field("id", schemas.Int64, "/id")}
	for _, n := range texts {
		fields = append(fields, schemas.Field(n, schemas.Text, "/"+n))
	}
	for _, n := range []string{"balance", "credit", "discount"} {
		fields = append(fields, schemas.Field(n, &arrow.Decimal128Type{Precision: 16, Scale: 2}, "/"+n))
	}
	for _, n := range []string{"score", "visits", "age", "updated"} {
		fields = append(fields, schemas.Field(n, schemas.Int64, "/"+n))
	}
	fields = append(fields, schemas.Field("active", schemas.Bool, "/active"), schemas.Field("vip", schemas.Bool, "/vip"),
		schemas.Field("created_at", schemas.Timestamp, "/created_at"), schemas.Field("updated_at", schemas.Timestamp, "/updated_at"),
		schemas.Field("tags", arrow.ListOf(schemas.Text), "/tags"), schemas.Field("addresses", schemas.JSON, "/addresses"))
	fields = withOwn(fields)
	c := &contacts{table: schemas.Table{Name: "v2_contacts", Key: []string{"id"}, Columns: arrow.NewSchema(fields, nil)}}
	b := array.NewRecordBuilder(memory.DefaultAllocator, c.table.Columns)
	defer b.Release()
	for i := range batchRows {
		for j, f := range fields {
			c.fill(b.Field(j), f.Name, i, j)
		}
	}
	c.shared = b.NewRecordBatch().Columns()
	return c
}

func (c *contacts) fill(b array.Builder, name string, i, j int) {
	x := i*2654435761 + j*97
	switch b := b.(type) {
	case *array.StringBuilder:
		switch name {
		case "addresses":
			b.Append(fmt.Sprintf(`[{"street":"%d Müller Street","zip":"%05d"},{"street":"%d Rue","zip":"%05d"}]`, x%997, x%99991, x%89, x%9973))
		case schemas.ColVia:
			b.Append("poll")
		case "object", "currency", "country":
			b.Append([]string{"contact", "EUR", "USD"}[x%3])
		default:
			if x%7 == 0 {
				b.AppendNull()
				return
			}
			b.Append(name + "_" + strconv.FormatUint(uint64(x)%100_003, 36) + "é@example.test"[:2+x%13])
		}
	case *array.Int64Builder:
		b.Append(int64(x % 1_000_003))
	case *array.BooleanBuilder:
		b.Append(x%3 == 0)
	case *array.TimestampBuilder:
		if name == schemas.ColDeletedAt {
			b.AppendNull()
			return
		}
		b.Append(arrow.Timestamp(1_700_000_000_000_000 + int64(x%10_000_000)*1_000_000))
	case *array.ListBuilder:
		b.Append(true)
		for k := range 3 {
			b.ValueBuilder().(*array.StringBuilder).Append("tag" + strconv.Itoa((x+k)%50))
		}
	default:
		if err := b.AppendValueFromString(fmt.Sprintf("%d.%02d", x%100_000, x%100)); err != nil {
			panic(err)
		}
	}
}

// batch returns rows with the given ids. Their hashes depend on the version, so rows of another version count as
// changed.
func (c *contacts) batch(run string, version, ordinal int, ids func(i int) int64) arrow.RecordBatch {
	columns := append([]arrow.Array{}, c.shared...)
	ib, ob := array.NewInt64Builder(memory.DefaultAllocator), array.NewInt64Builder(memory.DefaultAllocator)
	hb, rb := array.NewStringBuilder(memory.DefaultAllocator), array.NewStringBuilder(memory.DefaultAllocator)
	for i := range batchRows {
		id := ids(i)
		ib.Append(id)
		ob.Append(int64(ordinal + i))
		hb.Append(fmt.Sprintf("%03x%09x", version, id))
		rb.Append(run)
	}
	set := func(name string, a arrow.Array) { columns[c.table.Columns.FieldIndices(name)[0]] = a }
	set("id", ib.NewArray())
	set(schemas.ColOrdinal, ob.NewArray())
	set(schemas.ColHash, hb.NewArray())
	set(schemas.ColRun, rb.NewArray())
	return array.NewRecordBatch(c.table.Columns, columns, batchRows)
}

// pages returns the batches of rows 0 to n.
func (c *contacts) pages(run string, n int) []arrow.RecordBatch {
	var out []arrow.RecordBatch
	for o := 0; o < n; o += batchRows {
		out = append(out, c.batch(run, 1, o, func(i int) int64 { return int64(o + i) }))
	}
	return out
}

// loadRows loads pages in one pass. The parameter `each` is the number of rows in each commit.
func loadRows(tb testing.TB, d *DB, c *contacts, run string, from state.Cursor, pages []arrow.RecordBatch, each int) (state.Cursor, load.Outcome) {
	n := len(pages) * batchRows
	var total load.Outcome
	for start := 0; start < n; start += each {
		x, err := d.Begin(tb.Context(), state.Key{Pipeline: "p", Stream: "v2.contacts"}, from, load.Pass{Run: run, Whole: true})
		require.NoError(tb, err)
		for o := start; o < min(n, start+each); o += batchRows {
			require.NoError(tb, x.Write(tb.Context(), c.table, pages[o/batchRows]))
		}
		var s load.Sweep
		if start+each >= n {
			s = load.Sweep{Table: c.table.Name, Delete: true}
		}
		out, err := x.Apply(tb.Context(), s)
		require.NoError(tb, err)
		next := state.Cursor(run + strconv.Itoa(start))
		require.NoError(tb, x.Commit(tb.Context(), next))
		from = next
		total.Written += out.Written
		total.Unchanged += out.Unchanged
		total.Missing += out.Missing
	}
	return from, total
}

func cpu() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// measure reports the time that f takes to process n rows, and the rows per second.
func measure(b *testing.B, name string, n int, f func()) time.Duration {
	start, spent := time.Now(), cpu()
	f()
	wall, work := time.Since(start), cpu()-spent
	b.ReportMetric(wall.Seconds(), name+"-s")
	b.ReportMetric(work.Seconds(), name+"-cpu-s")
	b.Logf("%-28s %6.2f s wall %6.2f s cpu %9.0f rows/s", name, wall.Seconds(), work.Seconds(), float64(n)/wall.Seconds())
	return work
}

// plainDB opens a separate engine without limits, for baselines.
func plainDB(tb testing.TB, path string) func(query string) {
	exec, done := plainSession(tb, path)
	tb.Cleanup(done)
	return exec
}

func plainSession(tb testing.TB, path string) (exec func(query string), done func()) {
	c, err := duckdb.NewConnector(path, nil)
	require.NoError(tb, err)
	conn, err := c.Connect(context.Background())
	require.NoError(tb, err)
	s := &session{conn: conn.(*duckdb.Conn), engine: &engine{}}
	return func(query string) { require.NoError(tb, s.Exec(context.Background(), query), query) }, func() { conn.Close(); c.Close() }
}

func openBench(b *testing.B) *DB {
	d, err := Open(b.Context(), Options{Path: filepath.Join(b.TempDir(), "bench.duckdb"), TempDir: b.TempDir()})
	require.NoError(b, err)
	b.Cleanup(func() { d.Close() })
	return d
}

// BenchmarkLoad loads a million records into a new file, and then loads them again unchanged. As the baseline, DuckDB
// itself reads the same records from a JSON file.
func BenchmarkLoad(b *testing.B) {
	if testing.Short() {
		b.Skip("a million rows")
	}
	const n = 1_000_000
	each := 250_000
	if s := os.Getenv("EACH"); s != "" {
		each, _ = strconv.Atoi(s)
	}
	for b.Loop() {
		d := openBench(b)
		c := newContacts()
		pages, again := c.pages("run000000001", n), c.pages("run000000002", n)
		var at state.Cursor
		var out load.Outcome
		measure(b, "first", n, func() { at, out = loadRows(b, d, c, "run000000001", "", pages, each) })
		require.EqualValues(b, n, out.Written)
		before := size(b, d)
		measure(b, "unchanged", n, func() { _, out = loadRows(b, d, c, "run000000002", at, again, each) })
		require.EqualValues(b, n, out.Unchanged)
		b.Logf("file %d MB, written by the unchanged pass: %d bytes", before>>20, size(b, d)-before)
		require.NoError(b, d.Close())
		baseline(b, d.o.Path, n)
	}
}

func size(tb testing.TB, d *DB) (n int64) {
	for _, p := range []string{d.o.Path, d.o.Path + ".wal"} {
		if i, err := os.Stat(p); err == nil {
			n += i.Size()
		}
	}
	return n
}

func baseline(b *testing.B, path string, n int) {
	dir := b.TempDir()
	x := plainDB(b, path)
	x("COPY (SELECT * EXCLUDE (_penstock_deleted_at) FROM v2_contacts) TO '" + dir + "/rows.json' (FORMAT json)")
	columns := "SELECT list_aggregate(list(column_name || ': ''' || data_type || ''''), 'string_agg', ', ') FROM duckdb_columns() WHERE table_name = 'v2_contacts' AND column_name <> '_penstock_deleted_at'"
	var spec string
	c, err := duckdb.NewConnector(path, nil)
	require.NoError(b, err)
	defer c.Close()
	conn, err := c.Connect(context.Background())
	require.NoError(b, err)
	defer conn.Close()
	s := &session{conn: conn.(*duckdb.Conn), engine: &engine{}}
	require.NoError(b, s.Query(context.Background(), columns, func(v []driver.Value) error { spec = v[0].(string); return nil }))
	y := plainDB(b, dir+"/base.duckdb")
	measure(b, "read_json", n, func() {
		y("CREATE TABLE t AS SELECT * FROM read_json('" + dir + "/rows.json', format = 'newline_delimited', columns = {" + spec + "})")
		y("CHECKPOINT")
	})
}

// BenchmarkMerge merges 100,000 rows into ten million. Four fifths of the 100,000 rows change existing rows, which are
// spread over the whole table. The baseline is INSERT … ON CONFLICT with an index.
func BenchmarkMerge(b *testing.B) {
	if testing.Short() {
		b.Skip("ten million rows")
	}
	const rows, merged = 10_000_000, 100_000
	for b.Loop() {
		d := openBench(b)
		table, pages := narrow("run000000002", merged, func(i int) int64 { return int64(i) * 7919 % (rows * 5 / 4) })
		_, seed := narrow("run000000001", batchRows, func(i int) int64 { return int64(-1 - i) })
		at := commitPages(b, d, table, "run000000001", "", seed)
		fill(b, d.o.Path, rows)
		work := measure(b, "merge", merged, func() { commitPages(b, d, table, "run000000002", at, pages) })
		require.NoError(b, d.Close())
		x := plainDB(b, d.o.Path)
		x("ALTER TABLE keyed ADD PRIMARY KEY (id)")
		x("CREATE TEMP TABLE s AS SELECT * REPLACE ('again' AS name) FROM narrow WHERE _penstock_run = 'run000000002'")
		x("CHECKPOINT")
		baseline := measure(b, "on-conflict", merged, func() {
			x("INSERT INTO keyed FROM s ON CONFLICT DO UPDATE SET name = excluded.name, _penstock_hash = excluded._penstock_hash, " +
				"_penstock_synced_at = excluded._penstock_synced_at, _penstock_deleted_at = excluded._penstock_deleted_at, " +
				"_penstock_run = excluded._penstock_run, _penstock_via = excluded._penstock_via")
			x("CHECKPOINT")
		})
		b.ReportMetric(baseline.Seconds()/work.Seconds(), "times-less-cpu")
	}
}

// BenchmarkHistory merges 100,000 new rows in mode history, and then two more versions of each.
func BenchmarkHistory(b *testing.B) {
	const rows = 100_000
	for b.Loop() {
		d := openBench(b)
		at := state.Cursor("")
		for i, name := range []string{"new", "second", "third"} {
			run := fmt.Sprintf("run%09d", i+1)
			table, pages := narrow(run, rows, func(i int) int64 { return int64(i) })
			table.Mode = schemas.History
			measure(b, name, rows, func() { at = commitPages(b, d, table, run, at, pages) })
		}
		require.NoError(b, d.Close())
	}
}

// narrow() returns a table of 8 columns, and its rows with the given ids.
func narrow(run string, n int, id func(i int) int64) (schemas.Table, []arrow.RecordBatch) {
	fields := []arrow.Field{schemas.Field("id", schemas.Int64, "/id"), schemas.Field("name", schemas.Text, "/name")}
	for _, f := range []string{schemas.ColSyncedAt, schemas.ColDeletedAt} {
		fields = append(fields, schemas.Field(f, schemas.Timestamp, ""))
	}
	for _, f := range []string{schemas.ColRun, schemas.ColHash, schemas.ColVia} {
		fields = append(fields, schemas.Field(f, schemas.Text, ""))
	}
	fields = append(fields, arrow.Field{Name: schemas.ColOrdinal, Type: schemas.Int64})
	t := schemas.Table{Name: "narrow", Key: []string{"id"}, Columns: arrow.NewSchema(fields, nil)}
	var out []arrow.RecordBatch
	b := array.NewRecordBuilder(memory.DefaultAllocator, t.Columns)
	defer b.Release()
	for i := range n {
		for j, v := range []any{id(i), "name " + strconv.Itoa(i), int64(0), nil, run, fmt.Sprintf("%s%d", run, i), "poll", int64(i)} {
			switch b := b.Field(j).(type) {
			case *array.Int64Builder:
				b.Append(v.(int64))
			case *array.StringBuilder:
				b.Append(v.(string))
			default:
				b.AppendNull()
			}
		}
		if (i+1)%batchRows == 0 {
			out = append(out, b.NewRecordBatch())
		}
	}
	return t, out
}

func commitPages(b *testing.B, d *DB, t schemas.Table, run string, at state.Cursor, pages []arrow.RecordBatch) state.Cursor {
	x, err := d.Begin(b.Context(), state.Key{Pipeline: "p", Stream: "narrow"}, at, load.Pass{Run: run, Whole: true})
	require.NoError(b, err)
	for _, p := range pages {
		require.NoError(b, x.Write(b.Context(), t, p))
	}
	require.NoError(b, x.Commit(b.Context(), state.Cursor(run)))
	return state.Cursor(run)
}

// fill writes n rows to the table in the fastest way.
func fill(b *testing.B, path string, n int) {
	c, err := duckdb.NewConnector(path, nil)
	require.NoError(b, err)
	defer c.Close()
	conn, err := c.Connect(b.Context())
	require.NoError(b, err)
	defer conn.Close()
	s := &session{conn: conn.(*duckdb.Conn), engine: &engine{}}
	require.NoError(b, s.Exec(b.Context(), fmt.Sprintf("INSERT INTO narrow (id, name, _penstock_run, _penstock_hash, _penstock_via) "+
		"SELECT range, 'name ' || range, 'run000000001', 'hash' || range, 'poll' FROM range(%d)", n)))
	require.NoError(b, s.Exec(b.Context(), "CREATE TABLE keyed AS FROM narrow"))
	require.NoError(b, s.Exec(b.Context(), "CHECKPOINT"))
}
