//go:build unix

package parquet

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

const batchOf = 10_000

type contacts struct {
	table  schemas.Table
	shared []arrow.Array
}

func newContacts(key arrow.DataType) *contacts {
	fields := []arrow.Field{schemas.Field("id", key, "/id")}
	for _, n := range []string{"object", "contact_ref", "first_name", "last_name", "email", "phone", "company", "currency", "city", "street", "country", "zip", "note", "avatar", "owner_ref"} {
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
	fields = append(fields, bookkeeping()...)
	c := &contacts{table: schemas.Table{Name: "v2_contacts", Key: []string{"id"}, Columns: arrow.NewSchema(fields, nil)}}
	b := array.NewRecordBuilder(memory.DefaultAllocator, c.table.Columns)
	defer b.Release()
	for i := range batchOf {
		for j, f := range fields {
			fill(b.Field(j), f.Name, i, j)
		}
	}
	c.shared = b.NewRecordBatch().Columns()
	return c
}

func bookkeeping() (fields []arrow.Field) {
	for _, n := range []string{schemas.ColSyncedAt, schemas.ColDeletedAt} {
		fields = append(fields, schemas.Field(n, schemas.Timestamp, ""))
	}
	for _, n := range []string{schemas.ColRun, schemas.ColHash, schemas.ColVia} {
		fields = append(fields, schemas.Field(n, schemas.Text, ""))
	}
	return append(fields, arrow.Field{Name: schemas.ColOrdinal, Type: schemas.Int64})
}

func fill(b array.Builder, name string, i, j int) {
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
			b.Append(name + "_" + strconv.FormatUint(uint64(x)%100_003, 36) + "@example.test"[:2+x%11])
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

func (c *contacts) batch(run string, ordinal int, ids func(i int) (id int64, version int)) arrow.RecordBatch {
	columns := append([]arrow.Array{}, c.shared...)
	ib := array.NewBuilder(memory.DefaultAllocator, c.table.Columns.Field(0).Type)
	ob, hb, rb := array.NewInt64Builder(memory.DefaultAllocator), array.NewStringBuilder(memory.DefaultAllocator), array.NewStringBuilder(memory.DefaultAllocator)
	for i := range batchOf {
		id, version := ids(i)
		if b, ok := ib.(*array.Int64Builder); ok {
			b.Append(id)
		} else {
			ib.(*array.StringBuilder).Append(fmt.Sprintf("%016x", uint64(id)*0x9e3779b97f4a7c15))
		}
		ob.Append(int64(ordinal + i))
		hb.Append(fmt.Sprintf("%03x%09x", version, uint64(id)*0x9e3779b97f4a7c15>>28))
		rb.Append(run)
	}
	set := func(name string, a arrow.Array) { columns[c.table.Columns.FieldIndices(name)[0]] = a }
	set("id", ib.NewArray())
	set(schemas.ColOrdinal, ob.NewArray())
	set(schemas.ColHash, hb.NewArray())
	set(schemas.ColRun, rb.NewArray())
	return array.NewRecordBatch(c.table.Columns, columns, batchOf)
}

func (c *contacts) pages(run string, n int) []arrow.RecordBatch {
	var out []arrow.RecordBatch
	for o := 0; o < n; o += batchOf {
		out = append(out, c.batch(run, o, func(i int) (int64, int) { return int64(o + i), 1 }))
	}
	return out
}

const groupOf = 120_000

func loadRows(tb testing.TB, l *Lake, c *contacts, run string, from state.Cursor, n int, page func(o int) arrow.RecordBatch) (state.Cursor, load.Outcome) {
	var total load.Outcome
	for start := 0; start < n; start += groupOf {
		x, err := l.Begin(tb.Context(), state.Key{Pipeline: "p", Stream: "v2.contacts"}, from, load.Pass{Run: run, Whole: true})
		require.NoError(tb, err)
		for o := start; o < min(n, start+groupOf); o += batchOf {
			require.NoError(tb, x.Write(tb.Context(), c.table, page(o)))
		}
		var s load.Sweep
		if start+groupOf >= n {
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

func measure(b *testing.B, name string, n int, f func()) time.Duration {
	start, spent := time.Now(), cpu()
	f()
	wall, work := time.Since(start), cpu()-spent
	b.ReportMetric(wall.Seconds(), name+"-s")
	b.ReportMetric(work.Seconds(), name+"-cpu-s")
	b.Logf("%-28s %6.2f s wall %6.2f s cpu %9.0f rows/s", name, wall.Seconds(), work.Seconds(), float64(n)/wall.Seconds())
	return wall
}

// BenchmarkLoad loads a million rows into a new folder. Then it loads the same rows again. The second load changes
// nothing.
func BenchmarkLoad(b *testing.B) {
	if testing.Short() {
		b.Skip("a million rows")
	}
	n := 1_000_000
	if s := os.Getenv("ROWS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	for b.Loop() {
		l, err := Open(b.Context(), Options{Path: filepath.Join(b.TempDir(), "lake"), TempDir: b.TempDir()})
		require.NoError(b, err)
		key := schemas.Int64
		if os.Getenv("KEY") == "text" {
			key = schemas.Text
		}
		c := newContacts(key)
		pages, again := c.pages("run000000001", n), c.pages("run000000002", n)
		var at state.Cursor
		var out load.Outcome
		first := measure(b, "first", n, func() {
			at, out = loadRows(b, l, c, "run000000001", "", n, func(o int) arrow.RecordBatch { return pages[o/batchOf] })
		})
		require.EqualValues(b, n, out.Written)
		second := measure(b, "unchanged", n, func() {
			_, out = loadRows(b, l, c, "run000000002", at, n, func(o int) arrow.RecordBatch { return again[o/batchOf] })
		})
		require.EqualValues(b, n, out.Unchanged)
		b.ReportMetric(second.Seconds()/first.Seconds(), "unchanged/first")
		baseline(b, l, first, n)
		require.NoError(b, l.Close())
	}
}

func BenchmarkMemory(b *testing.B) {
	n := 1_000_000
	if s := os.Getenv("ROWS"); s != "" {
		n, _ = strconv.Atoi(s)
	} else if testing.Short() {
		b.Skip("a million rows")
	}
	for b.Loop() {
		l, err := Open(b.Context(), Options{Path: filepath.Join(b.TempDir(), "lake"), TempDir: b.TempDir()})
		require.NoError(b, err)
		key := schemas.Int64
		if os.Getenv("KEY") == "text" {
			key = schemas.Text
		}
		c := newContacts(key)
		var at state.Cursor
		for _, run := range []string{"run000000001", "run000000002"} {
			measure(b, run, n, func() {
				at, _ = loadRows(b, l, c, run, at, n, func(o int) arrow.RecordBatch {
					return c.batch(run, o, func(i int) (int64, int) { return int64(o + i), 1 })
				})
			})
		}
		require.NoError(b, l.Close())
		status, err := os.ReadFile("/proc/self/status")
		require.NoError(b, err)
		for line := range strings.Lines(string(status)) {
			if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				v, _ := strconv.Atoi(strings.Fields(kb)[0])
				b.ReportMetric(float64(v)/1024, "peak-MB")
			}
		}
	}
}

func BenchmarkMerge(b *testing.B) {
	if testing.Short() {
		b.Skip("a million rows")
	}
	const n = 1_000_000
	for b.Loop() {
		l, err := Open(b.Context(), Options{Path: filepath.Join(b.TempDir(), "lake"), TempDir: b.TempDir()})
		require.NoError(b, err)
		c := newContacts(schemas.Int64)
		page := func(run string, changed int) func(o int) arrow.RecordBatch {
			return func(o int) arrow.RecordBatch {
				return c.batch(run, o, func(i int) (int64, int) {
					if changed > 0 && (o+i)%10 == 0 {
						return int64(o + i), changed
					}
					return int64(o + i), 1
				})
			}
		}
		var at state.Cursor
		first := measure(b, "first", n, func() { at, _ = loadRows(b, l, c, "run000000001", at, n, page("run000000001", 0)) })
		tenth := measure(b, "tenth", n, func() { at, _ = loadRows(b, l, c, "run000000002", at, n, page("run000000002", 2)) })
		b.ReportMetric(tenth.Seconds()/first.Seconds(), "tenth/first")
		require.NoError(b, l.Close())
	}
}
