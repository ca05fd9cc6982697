package loadtest

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func column(name string, t arrow.DataType) arrow.Field { return schemas.Field(name, t, "/"+name) }

func bookkeeping() []arrow.Field {
	return []arrow.Field{
		schemas.Field(schemas.ColSyncedAt, schemas.Timestamp, ""),
		schemas.Field(schemas.ColRun, schemas.Text, ""),
		schemas.Field(schemas.ColHash, schemas.Text, ""),
		schemas.Field(schemas.ColDeletedAt, schemas.Timestamp, ""),
		schemas.Field(schemas.ColVia, schemas.Text, ""),
		{Name: schemas.ColOrdinal, Type: schemas.Int64},
	}
}

func root(name string, key []string, columns ...arrow.Field) schemas.Table {
	return schemas.Table{Name: name, Key: key, Columns: arrow.NewSchema(append(columns, bookkeeping()...), nil)}
}

// hanging returns a child table. The parameter `key` is the type of the root table's key. If the parent table is itself
// a child table, the parameter `deep` is true. The returned table then also has a column with the key of the root row.
func hanging(name string, key arrow.DataType, deep bool, columns ...arrow.Field) schemas.Table {
	parent := key
	if deep {
		parent = schemas.Text
	}
	columns = append(columns, schemas.Field(schemas.ColParent, parent, ""), schemas.Field(schemas.ColIndex, schemas.Int64, ""))
	if deep {
		columns = append(columns, schemas.Field(schemas.ColRoot, key, ""))
	}
	return root(name, nil, columns...)
}

// Batch makes a batch of t from rows in canonical text. The caller releases it.
func Batch(t testing.TB, table schemas.Table, rows ...Row) arrow.RecordBatch {
	t.Helper()
	b, err := batchOf(table.Columns, rows)
	require.NoError(t, err)
	return b
}

func with(run string, ordinal int, hash string, cells Row) Row {
	r := maps.Clone(cells)
	if r == nil {
		r = Row{}
	}
	r[schemas.ColSyncedAt] = instant(morning.Add(time.Duration(number(run)) * time.Minute))
	r[schemas.ColRun] = run
	r[schemas.ColHash] = hash
	r[schemas.ColVia] = "poll"
	r[schemas.ColOrdinal] = strconv.Itoa(ordinal)
	return r
}

// clockOf returns a clock that always shows the same time. This time is the start of the run minus the parameter
// `delay`, which is in minutes.
func clockOf(run string, delay int) func() time.Time {
	return func() time.Time { return morning.Add(time.Duration(number(run)-delay) * time.Minute) }
}

// morning is the time from which the runs are counted. The n-th run starts n minutes later.
var morning = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

func number(run string) int {
	n, _ := strconv.Atoi(run[strings.LastIndexFunc(run, func(r rune) bool { return r < '0' || r > '9' })+1:])
	return n
}

func plain(rows []Row, and ...string) []Row {
	out := make([]Row, 0, len(rows))
	for _, r := range rows {
		p := Row{}
		for name, text := range r {
			if !strings.HasPrefix(name, load.Prefix) {
				p[name] = text
			}
		}
		for _, name := range and {
			if text, ok := r[name]; ok {
				p[name] = text
			}
		}
		out = append(out, p)
	}
	return out
}

var orders = state.Key{Pipeline: "nightly", Stream: "sales.orders"}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

type fixture struct {
	testing.TB
	driver Driver
	dest   load.Destination
	key    state.Key
	cursor state.Cursor
	pass   load.Pass
	count  int
}

func newFixture(t testing.TB, d Driver) *fixture {
	b := &fixture{TB: t, driver: d, key: orders}
	b.run(1)
	b.reopen()
	return b
}

// reopen opens the destination as another process would.
func (b *fixture) reopen() {
	b.Helper()
	b.reopenWith(func(string) error { return nil })
}

func (b *fixture) reopenWith(step func(string) error) {
	b.Helper()
	if b.dest != nil {
		_ = b.dest.Close()
	}
	dest := b.driver.Open(b.TB, step)
	b.dest = dest
	b.Cleanup(func() { _ = dest.Close() })
}

func (b *fixture) run(n int) {
	b.pass = load.Pass{Run: runID(n), Whole: true, Now: clockOf(runID(n), 0)}
}

type put struct {
	table schemas.Table
	rows  []Row
}

func (b *fixture) begin() load.Tx {
	b.Helper()
	x, err := b.dest.Begin(b.Context(), b.key, b.cursor, b.pass)
	require.NoError(b, err)
	b.Cleanup(func() { _ = x.Rollback() })
	return x
}

func (b *fixture) write(x load.Tx, puts ...put) {
	b.Helper()
	for _, p := range puts {
		batch := Batch(b, p.table, p.rows...)
		err := x.Write(b.Context(), p.table, batch)
		batch.Release()
		require.NoError(b, err)
	}
}

func (b *fixture) commit(s load.Sweep, puts ...put) load.Outcome {
	b.Helper()
	x := b.begin()
	defer func() { _ = x.Rollback() }() // if a check fails, the transaction must end, because other transactions may wait for it
	b.write(x, puts...)
	out, err := x.Apply(b.Context(), s)
	require.NoError(b, err)
	b.finish(x)
	return out
}

func (b *fixture) finish(x load.Tx) {
	b.Helper()
	b.count++
	next := state.Cursor(fmt.Sprintf(`{"n":%d}`, b.count))
	require.NoError(b, x.Commit(b.Context(), next))
	b.cursor = next
}

func (b *fixture) when() string {
	b.Helper()
	for _, r := range b.driver.Rows(b, b.dest, load.State.Name) {
		if r["pipeline"] == b.key.Pipeline && r["stream"] == b.key.Stream {
			return r["updated_at"]
		}
	}
	b.Fatal("the stream has no row in _penstock_state")
	return ""
}

func (b *fixture) rows(table string, and ...string) []Row {
	b.Helper()
	return plain(b.driver.Rows(b, b.dest, table), and...)
}

func sweep(table string) load.Sweep { return load.Sweep{Table: table, Delete: true} }
