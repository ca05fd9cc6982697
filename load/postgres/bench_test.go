//go:build unix

package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	"github.com/penstock-data/penstock/load/postgres/codec"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// contacts generates records of about 500 bytes, in batches like those that package transform makes.
type contacts struct {
	table  schemas.Table
	shared []arrow.Array // all columns except those that identify rows
}

const batchRows = 10_000

func newContacts() *contacts {
	var fields []arrow.Field
	for i := range 14 {
		fields = append(fields, field(fmt.Sprint("text_", i), schemas.Text))
	}
	for i := range 3 {
		fields = append(fields, field(fmt.Sprint("amount_", i), &arrow.Decimal128Type{Precision: 16, Scale: 2}))
	}
	for i := range 3 {
		fields = append(fields, field(fmt.Sprint("number_", i), schemas.Int64))
	}
	fields = append(fields, field("active", schemas.Bool), field("created_at", schemas.Timestamp), field("updated_at", schemas.Timestamp),
		field("tags", schemas.JSON), field("address", schemas.JSON), field("lines", schemas.JSON))
	c := &contacts{table: rootTable("v2_contacts", fields...)}
	b := array.NewRecordBuilder(memory.DefaultAllocator, c.table.Columns)
	defer b.Release()
	for i := range batchRows {
		for j, f := range c.table.Columns.Fields() {
			c.fill(b.Field(j), f, i, i*2654435761+j*97)
		}
	}
	c.shared = b.NewRecordBatch().Columns()
	return c
}

func (c *contacts) fill(b array.Builder, f arrow.Field, i, x int) {
	switch b := b.(type) {
	case *array.StringBuilder:
		switch {
		case f.Name == "tags":
			b.Append(fmt.Sprintf(`["tag%d","tag%d","tag%d"]`, x%50, x%51, x%52))
		case schemas.SameType(schemas.TypeOf(f), schemas.JSON):
			b.Append(fmt.Sprintf(`[{"street":"%d Müller Street","zip":"%05d"},{"street":"%d Rue","zip":"%05d"}]`, x%997, x%99991, x%89, x%9973))
		case x%7 == 0:
			b.AppendNull()
		default:
			b.Append(f.Name + strconv.FormatUint(uint64(x)%100_003, 36) + "é@example.test"[:2+x%13])
		}
	case *array.Int64Builder:
		b.Append(int64(x % 1_000_003))
	case *array.BooleanBuilder:
		b.Append(x%3 == 0)
	case *array.TimestampBuilder:
		if f.Name == schemas.ColDeletedAt {
			b.AppendNull()
			return
		}
		b.Append(arrow.Timestamp(1_700_000_000_000_000 + int64(x%10_000_000)*1_000_000))
	default:
		if err := b.AppendValueFromString(fmt.Sprintf("%d.%02d", x%100_000, x%100)); err != nil {
			panic(err)
		}
	}
}

// batch returns rows with the given ids, and with the content of the given version.
func (c *contacts) batch(run, version, ordinal int, id func(i int) int64) arrow.RecordBatch {
	columns := append([]arrow.Array{}, c.shared...)
	ib, ob := array.NewInt64Builder(memory.DefaultAllocator), array.NewInt64Builder(memory.DefaultAllocator)
	hb, rb := array.NewStringBuilder(memory.DefaultAllocator), array.NewStringBuilder(memory.DefaultAllocator)
	for i := range batchRows {
		ib.Append(id(i))
		ob.Append(int64(ordinal + i))
		hb.Append(fmt.Sprintf("%03x%09x", version, id(i)))
		rb.Append(runID(run))
	}
	set := func(name string, a arrow.Array) { columns[c.table.Columns.FieldIndices(name)[0]] = a }
	set("id", ib.NewArray())
	set(schemas.ColOrdinal, ob.NewArray())
	set(schemas.ColHash, hb.NewArray())
	set(schemas.ColRun, rb.NewArray())
	return array.NewRecordBatch(c.table.Columns, columns, batchRows)
}

// batches returns n rows with consecutive ids.
func (c *contacts) batches(run, n int) (all []arrow.RecordBatch) {
	for o := 0; o < n; o += batchRows {
		all = append(all, c.batch(run, 1, o, func(i int) int64 { return int64(o + i) }))
	}
	return all
}

// pass loads rows in one pass, with perCommit rows in each commit.
func (c *contacts) pass(b *testing.B, d *DB, run int, rows []arrow.RecordBatch, perCommit int) (total load.Outcome) {
	n := len(rows) * batchRows
	from, err := d.Cursor(b.Context(), leads)
	require.NoError(b, err)
	for start := 0; start < n; start += perCommit {
		x, err := d.Begin(b.Context(), leads, from, load.Pass{Run: runID(run), Whole: true})
		require.NoError(b, err)
		for o := start; o < min(n, start+perCommit); o += batchRows {
			require.NoError(b, x.Write(b.Context(), c.table, rows[o/batchRows]))
		}
		var s load.Sweep
		if start+perCommit >= n {
			s = load.Sweep{Table: c.table.Name, Delete: true}
		}
		out, err := x.Apply(b.Context(), s)
		require.NoError(b, err)
		from = state.Cursor(fmt.Sprint(run, "/", start))
		require.NoError(b, x.Commit(b.Context(), from))
		total.Written += out.Written
		total.Unchanged += out.Unchanged
		total.Missing += out.Missing
	}
	return total
}

func cpu() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// serverCPU returns the CPU time of all processes of the server, including the processes that have ended. It returns 0
// if the system does not report it.
func serverCPU(s *pgtest.Server) time.Duration {
	master, _, _ := strings.Cut(s.Text("SELECT pg_read_file('postmaster.pid')"), "\n")
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	ticks := 0
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, after, _ := strings.Cut(string(text), ") ")
		f := strings.Fields(after)
		pid := filepath.Base(filepath.Dir(path))
		if len(f) < 15 || pid != master && f[1] != master {
			continue
		}
		for _, i := range []int{11, 12, 13, 14} { // time of the process and of its ended children, in user and system mode
			n, _ := strconv.Atoi(f[i])
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// spent is elapsed time, and CPU time of client and server.
type spent struct{ wall, client, server time.Duration }

func (s *spent) add(o spent) {
	s.wall, s.client, s.server = s.wall+o.wall, s.client+o.client, s.server+o.server
}

// measure reports how long f takes to process n rows, and the rows per second. On a shared machine, CPU time is more
// meaningful than elapsed time.
func measure(b *testing.B, s *pgtest.Server, name string, n int, f func()) spent {
	start, client, server := time.Now(), cpu(), serverCPU(s)
	f()
	m := spent{time.Since(start), cpu() - client, serverCPU(s) - server}
	b.ReportMetric(m.wall.Seconds(), name+"-s")
	b.Logf("%-16s %6.2f s wall, cpu %6.2f s client %6.2f s server, %9.0f rows/s", name, m.wall.Seconds(), m.client.Seconds(), m.server.Seconds(), float64(n)/m.wall.Seconds())
	return m
}

// honest has the settings of a server with full durability. It does not set wal_level=minimal, because with that
// setting COPY would write no WAL for a table that the same transaction has created.
var honest = []string{"fsync=on", "full_page_writes=on", "shared_buffers=512MB", "max_wal_size=4GB", "checkpoint_timeout=30min", "wal_level=replica"}

// BenchmarkLoad loads a million records into a new table, and then loads the same records again. It compares this with
// four baselines. In three of them, the server itself copies the same rows from a file: into a table with a primary
// key, into a table without one, and into a table that gets its key afterwards. In the fourth, a client sends the file.
//
// The first load into a new server is not measured, because the server then creates the segments of its WAL, and uses
// its buffers for the first time. Each round runs the measurements in another order.
func BenchmarkLoad(b *testing.B) {
	if testing.Short() {
		b.Skip("a million rows")
	}
	n := 1_000_000
	if s := os.Getenv("ROWS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	const each = 50_000 // number of rows in a commit of about 32 MiB
	server := pgtest.Start(b, honest...)
	c := newContacts()
	pages, again := c.batches(1, n), c.batches(2, n)
	file := filepath.Join(os.TempDir(), fmt.Sprintf("penstock-copy-%d", os.Getpid()))
	defer os.Remove(file)
	took := map[string]*spent{}
	for round := 0; b.Loop(); round++ {
		schema := fmt.Sprint("s", round)
		d := open(b, Options{URL: server.URL(), Schema: schema})
		if round == 0 {
			warm := open(b, Options{URL: server.URL(), Schema: "warm"})
			c.pass(b, warm, 1, pages, each)
			server.Exec("COPY warm.v2_contacts TO '" + file + "' (FORMAT binary); DROP SCHEMA warm CASCADE")
		}
		base := func(key, after string) func() {
			return func() {
				server.Exec("DROP TABLE IF EXISTS base; CREATE TABLE base (" + definitions(d, c.table) + key + ")")
				server.Exec("COPY base FROM '" + file + "' (FORMAT binary)")
				server.Exec(after)
			}
		}
		stdin := func() {
			server.Exec("DROP TABLE IF EXISTS base; CREATE TABLE base (" + definitions(d, c.table) + ", PRIMARY KEY (id))")
			f, err := os.Open(file)
			require.NoError(b, err)
			defer f.Close()
			s, err := d.b.pool.acquire(b.Context())
			require.NoError(b, err)
			defer s.release()
			_, err = s.copyIn(b.Context(), "COPY public.base", f)
			require.NoError(b, err)
		}
		all := []struct {
			name string
			run  func()
		}{
			{"first", func() { require.EqualValues(b, n, c.pass(b, d, 1, pages, each).Written) }},
			{"unchanged", func() { require.EqualValues(b, n, c.pass(b, d, 2, again, each).Unchanged) }},
			{"keyed", base(", PRIMARY KEY (id)", ";")},
			{"keyed-stdin", stdin},
			{"keyless", base("", ";")},
			{"key-last", base("", "ALTER TABLE base ADD PRIMARY KEY (id)")},
		}
		if round%2 == 1 { // the baselines first, in the opposite order
			slices.Reverse(all[2:])
			all = slices.Concat(all[2:], all[:2])
		}
		for _, m := range all {
			server.Exec("CHECKPOINT")
			s := measure(b, server, m.name, n, m.run)
			if took[m.name] == nil {
				took[m.name] = &spent{}
			}
			took[m.name].add(s)
		}
		server.Exec("DROP TABLE base; DROP SCHEMA " + schema + " CASCADE")
	}
	for _, name := range []string{"unchanged", "keyed", "keyed-stdin", "keyless", "key-last"} {
		b.ReportMetric(took[name].wall.Seconds()/took["first"].wall.Seconds(), name+"-ratio")
		b.ReportMetric(took[name].server.Seconds()/took["first"].server.Seconds(), name+"-cpu-ratio")
	}
	b.Logf("peak memory of this process %d MB", peak())
}

func peak() int64 {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return r.Maxrss >> 10
}

func definitions(d *DB, t schemas.Table) (out string) {
	for i, f := range t.Columns.Fields() {
		if f.Name == schemas.ColOrdinal {
			continue
		}
		if i > 0 {
			out += ", "
		}
		out += d.b.definition(t, f)
	}
	return out
}

// BenchmarkMerge merges 100,000 rows into ten million. Four fifths of the 100,000 rows change existing rows, which are
// spread over the whole table. The baseline is a plain INSERT … ON CONFLICT of the same rows. The second measurement of
// a round has a warmer disk cache. So each round swaps the order, and -benchtime must be at least 2x.
func BenchmarkMerge(b *testing.B) {
	if testing.Short() {
		b.Skip("ten million rows")
	}
	rows, merged := 10_000_000, 100_000
	if s := os.Getenv("ROWS"); s != "" {
		rows, _ = strconv.Atoi(s)
	}
	id := func(i int) int64 { return int64(i) * 7919 % int64(rows*5/4) }
	var took [2]spent
	for round := 0; b.Loop(); round++ {
		server := pgtest.Start(b, honest...)
		d := open(b, Options{URL: server.URL(), Schema: "s"})
		table := rootTable("narrow", field("name", schemas.Text), field("v", schemas.Int64), field("w", schemas.Text))
		seed := part{table: table, rows: nil}
		loadRows(b, d, 1, seed)
		fill := func(name string) {
			server.Exec("INSERT INTO " + name + " (id, name, v, w, _penstock_synced_at, _penstock_run, _penstock_hash, _penstock_via) SELECT i, 'name ' || i, i, 'w ' || i % 100, now(), 'run000000001', to_hex(i), 'poll' FROM generate_series(0, " +
				fmt.Sprint(rows-1) + ") AS i")
			server.Exec("VACUUM ANALYZE " + name)
		}
		fill("s.narrow")
		server.Exec("CREATE TABLE base (LIKE s.narrow INCLUDING ALL)")
		fill("base")
		batch := mergeBatch(table, merged, id)
		server.Exec("CHECKPOINT")
		name := func(i int) string { return []string{"merge", "on-conflict"}[i] }
		both := []func(){
			func() {
				at, err := d.Cursor(b.Context(), leads)
				require.NoError(b, err)
				x, err := d.Begin(b.Context(), leads, at, load.Pass{Run: runID(2), Whole: true})
				require.NoError(b, err)
				require.NoError(b, x.Write(b.Context(), table, batch))
				require.NoError(b, x.Commit(b.Context(), "merged"))
			},
			func() { bare(b, d, table, batch) },
		}
		for k := range both {
			i := (k + round) % 2
			s := measure(b, server, name(i), merged, both[i])
			took[i].wall, took[i].server = took[i].wall+s.wall, took[i].server+s.server
			server.Exec("CHECKPOINT")
		}
		require.Equal(b, "0", server.Text("SELECT count(*) FROM s.narrow FULL JOIN base USING (id) WHERE narrow.name IS DISTINCT FROM base.name"))
		server.Stop()
	}
	b.ReportMetric(took[0].wall.Seconds()/took[1].wall.Seconds(), "times-the-wall")
	b.ReportMetric(took[0].server.Seconds()/took[1].server.Seconds(), "times-the-server-cpu")
}

func mergeBatch(t schemas.Table, n int, id func(int) int64) arrow.RecordBatch {
	rb := array.NewRecordBuilder(memory.DefaultAllocator, t.Columns)
	defer rb.Release()
	for i := range n {
		for j, v := range []any{id(i), "again " + strconv.Itoa(i), int64(i), "w", int64(1), runID(2), fmt.Sprint("x", i), nil, "poll", int64(i)} {
			switch b := rb.Field(j).(type) {
			case *array.Int64Builder:
				b.Append(v.(int64))
			case *array.StringBuilder:
				b.Append(v.(string))
			case *array.TimestampBuilder:
				if v == nil {
					b.AppendNull()
				} else {
					b.Append(arrow.Timestamp(v.(int64)))
				}
			}
		}
	}
	return rb.NewRecordBatch()
}

// bare() is the baseline of BenchmarkMerge. It copies the rows into a temporary table, and merges them with one
// statement.
func bare(b *testing.B, d *DB, t schemas.Table, batch arrow.RecordBatch) {
	s, err := d.b.pool.acquire(b.Context())
	require.NoError(b, err)
	defer s.release()
	require.NoError(b, s.run(b.Context(), "BEGIN; CREATE TEMP TABLE bare (LIKE public.base) ON COMMIT DROP"))
	st := &load.Staged{Table: t}
	require.NoError(b, st.Add(batch))
	var sources []codec.Column
	names := ""
	set := ""
	for _, f := range t.Columns.Fields() {
		if f.Name != schemas.ColOrdinal {
			sources = append(sources, codec.Column{From: f.Name, To: schemas.TypeOf(f)})
			names += ", " + ident(f.Name)
			set += ", " + ident(f.Name) + " = excluded." + ident(f.Name)
		}
	}
	_, err = s.copyIn(b.Context(), "COPY bare ("+names[2:]+")", &codec.Copier{Staged: st, Columns: sources})
	require.NoError(b, err)
	require.NoError(b, s.run(b.Context(), "INSERT INTO public.base ("+names[2:]+") SELECT "+names[2:]+" FROM bare ON CONFLICT (id) DO UPDATE SET "+set[2:]+"; COMMIT"))
}

// BenchmarkEncode encodes rows for COPY and discards them.
func BenchmarkEncode(b *testing.B) {
	c := newContacts()
	batch := c.batch(1, 1, 0, func(i int) int64 { return int64(i) })
	var sources []codec.Column
	for _, f := range c.table.Columns.Fields() {
		if f.Name != schemas.ColOrdinal {
			sources = append(sources, codec.Column{From: f.Name, To: schemas.TypeOf(f)})
		}
	}
	for _, jsonb := range []bool{false, true} {
		b.Run(fmt.Sprint("jsonb=", jsonb), func(b *testing.B) {
			buf := make([]byte, 64<<10)
			bytes := 0
			for b.Loop() {
				st := &load.Staged{Batches: []arrow.RecordBatch{batch}, Rows: batchRows}
				r := &codec.Copier{Staged: st, Columns: sources, JSONB: func(string) bool { return jsonb }}
				for {
					n, err := r.Read(buf)
					bytes += n
					if err != nil {
						break
					}
				}
			}
			b.ReportMetric(float64(b.N)*batchRows/b.Elapsed().Seconds(), "rows/s")
			b.SetBytes(int64(bytes / b.N))
		})
	}
}
