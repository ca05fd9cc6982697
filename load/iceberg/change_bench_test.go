//go:build iceberg && unix

package iceberg

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// BenchmarkChange loads ROWS rows (a million by default). Then it changes 1,000 of them: first rows at random places,
// then rows with consecutive keys. It measures the time and the size of the files that a commit writes, in an Iceberg
// table and in plain Parquet files.
func BenchmarkChange(b *testing.B) {
	if testing.Short() {
		b.Skip("a million rows")
	}
	n := 1_000_000
	if s := os.Getenv("ROWS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	for name, open := range map[string]func(o parquet.Options) (*parquet.Lake, error){
		"iceberg": func(o parquet.Options) (*parquet.Lake, error) { return Open(b.Context(), Options{Options: o}) },
		"parquet": func(o parquet.Options) (*parquet.Lake, error) { return parquet.Open(b.Context(), o) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				changeRows(b, n, open)
			}
		})
	}
}

func changeRows(b *testing.B, n int, open func(o parquet.Options) (*parquet.Lake, error)) {
	dir := b.TempDir()
	l, err := open(parquet.Options{Path: filepath.Join(dir, "lake"), TempDir: b.TempDir(), KeepFor: -1})
	require.NoError(b, err)
	c := &changes{b: b, l: l, dir: dir}
	c.step("first", func() {
		for o := 0; o < n; o += 120_000 {
			ids := make([]int64, min(120_000, n-o))
			for i := range ids {
				ids[i] = int64(o + i)
			}
			c.commit(ids)
		}
	})
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 3 {
		ids := make([]int64, 1000)
		for i := range ids {
			ids[i] = random.Int64N(int64(n))
		}
		c.step(fmt.Sprintf("random%d", i), func() { c.commit(ids) })
	}
	ids := make([]int64, 1000)
	for i := range ids {
		ids[i] = int64(n/2 + i)
	}
	c.step("clustered", func() { c.commit(ids) })
	c.step("scan", func() {
		rows := 0
		require.NoError(b, l.Scan(b.Context(), "contacts", nil, func(r arrow.RecordBatch) error { rows += int(r.NumRows()); return nil }))
		require.Equal(b, n, rows)
	})
	require.NoError(b, l.Close())
}

type changes struct {
	b    *testing.B
	l    *parquet.Lake
	dir  string
	from state.Cursor
	n    int
	run  int
}

func (c *changes) step(name string, f func()) {
	c.run++
	before, start, spent := c.sizes(), time.Now(), c.cpu()
	f()
	wall, work := time.Since(start), c.cpu()-spent
	var files, bytes int64
	for path, size := range c.sizes() {
		if _, had := before[path]; !had {
			files, bytes = files+1, bytes+size
		}
	}
	c.b.Logf("%-10s %7.2f s wall %7.2f s cpu %6d files %9.2f MB", name, wall.Seconds(), work.Seconds(), files, float64(bytes)/1e6)
	c.b.ReportMetric(wall.Seconds(), name+"-s")
	c.b.ReportMetric(float64(bytes)/1e6, name+"-MB")
}

func (c *changes) cpu() time.Duration {
	var r syscall.Rusage
	require.NoError(c.b, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func (c *changes) sizes() map[any]int64 {
	out := map[any]int64{}
	type file struct {
		inode, seconds, nanoseconds int64 // generations of plain Parquet files share files
	}
	require.NoError(c.b, filepath.WalkDir(c.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		i, err := e.Info()
		if err == nil {
			of := i.Sys().(*syscall.Stat_t)
			out[file{int64(of.Ino), of.Mtim.Sec, of.Mtim.Nsec}] = i.Size()
		}
		return err
	}))
	return out
}

func (c *changes) commit(ids []int64) {
	fields := []arrow.Field{schemas.Field("id", schemas.Int64, "/id")}
	for i := range 12 {
		fields = append(fields, schemas.Field(fmt.Sprintf("text%d", i), schemas.Text, fmt.Sprintf("/text%d", i)))
	}
	for i := range 6 {
		fields = append(fields, schemas.Field(fmt.Sprintf("number%d", i), schemas.Int64, fmt.Sprintf("/number%d", i)))
	}
	t := schemas.Table{Name: "contacts", Key: []string{"id"}, Columns: arrow.NewSchema(append(fields, own...), nil)}
	r := array.NewRecordBuilder(memory.DefaultAllocator, t.Columns)
	defer r.Release()
	c.n++
	for i, id := range ids {
		x := (uint64(id) + uint64(c.n)<<32) * 0x9e3779b97f4a7c15
		for j, f := range t.Columns.Fields() {
			switch b := r.Field(j).(type) {
			case *array.Int64Builder:
				switch f.Name {
				case "id":
					b.Append(id)
				case schemas.ColOrdinal:
					b.Append(int64(i))
				default:
					b.Append(int64(x>>j) % 1_000_003)
				}
			case *array.StringBuilder:
				if f.Name == schemas.ColRun {
					b.Append(run(c.run))
					continue
				}
				b.Append(strconv.FormatUint((x>>j)%100_000_003, 36))
			case *array.TimestampBuilder:
				if f.Name == schemas.ColDeletedAt {
					b.AppendNull()
					continue
				}
				b.Append(arrow.Timestamp(1_700_000_000_000_000 + int64(x%1_000_000)))
			}
		}
	}
	batch := r.NewRecordBatch()
	defer batch.Release()
	x, err := c.l.Begin(c.b.Context(), key, c.from, load.Pass{Run: run(c.run)})
	require.NoError(c.b, err)
	require.NoError(c.b, x.Write(c.b.Context(), t, batch))
	c.from = state.Cursor(fmt.Sprint(c.n))
	require.NoError(c.b, x.Commit(c.b.Context(), c.from))
}
