//go:build iceberg && unix

package iceberg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/load/parquet/partition"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

var key = state.Key{Pipeline: "crm", Stream: "crm.leads"}

var (
	leads = schemas.Table{Name: "leads", Key: []string{"id"}, Columns: arrow.NewSchema(append([]arrow.Field{
		schemas.Field("id", schemas.Int64, "/id"), schemas.Field("batch", schemas.Int64, "/batch"), schemas.Field("on", schemas.Timestamp, "/on"),
	}, own...), nil)}
	mails = schemas.Table{Name: "leads__mails", Columns: arrow.NewSchema(append([]arrow.Field{
		schemas.Field(schemas.ColParent, schemas.Int64, ""), schemas.Field(schemas.ColIndex, schemas.Int64, ""), schemas.Field("batch", schemas.Int64, "/mails/batch"),
	}, own...), nil)}
	own = []arrow.Field{
		schemas.Field(schemas.ColSyncedAt, schemas.Timestamp, ""), schemas.Field(schemas.ColRun, schemas.Text, ""),
		schemas.Field(schemas.ColHash, schemas.Text, ""), schemas.Field(schemas.ColDeletedAt, schemas.Timestamp, ""),
		schemas.Field(schemas.ColVia, schemas.Text, ""), {Name: schemas.ColOrdinal, Type: schemas.Int64},
	}
)

func run(n int) string { return fmt.Sprintf("run-%04d", n) }

func put(ctx context.Context, d load.Destination, from state.Cursor, batch, n int) (state.Cursor, error) {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = i
	}
	return putIDs(ctx, d, from, batch, ids)
}

// putIDs commits a batch with the records of some IDs. Each record has one child row.
func putIDs(ctx context.Context, d load.Destination, from state.Cursor, batch int, ids []int) (state.Cursor, error) {
	next := state.Cursor(fmt.Sprint("at ", batch))
	x, err := d.Begin(ctx, key, from, load.Pass{Run: run(batch), Whole: true})
	if err != nil {
		return from, err
	}
	at := time.Date(2026, 11, 1+batch%20, 0, 0, 0, 0, time.UTC)
	var records, children [][]any
	for i, id := range ids {
		about := []any{at, run(batch), fmt.Sprint(batch, ".", id), nil, nil, i}
		records = append(records, append([]any{id, batch, at}, about...))
		children = append(children, append([]any{id, 0, batch}, about...))
	}
	for _, w := range []struct {
		t    schemas.Table
		rows [][]any
	}{{leads, records}, {mails, children}} {
		b, err := load.Rows(w.t, w.rows...)
		if err == nil {
			err = x.Write(ctx, w.t, b)
			b.Release()
		}
		if err != nil {
			return from, errors.Join(err, x.Rollback())
		}
	}
	if err := x.Commit(ctx, next); err != nil {
		return from, err
	}
	return next, nil
}

func open(t testing.TB, o Options) *parquet.Lake {
	t.Helper()
	l, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func must(t testing.TB, d load.Destination, from state.Cursor, batch, n int) state.Cursor {
	t.Helper()
	next, err := put(t.Context(), d, from, batch, n)
	require.NoError(t, err)
	return next
}

func warehouse(t testing.TB) Options {
	dir, err := os.MkdirTemp("", "it's a [lake] *") // not t.TempDir, because the names of subtests contain #
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return Options{Options: parquet.Options{Path: filepath.Join(dir, "lake"), TempDir: t.TempDir()}}
}

func metadata(t testing.TB, o Options, name string) *table.Table {
	t.Helper()
	at := located(t, o, name)
	require.Len(t, at, 1, name)
	tbl, err := table.NewFromLocation(t.Context(), table.Identifier{name}, at[0], filesOf(t, o), nil)
	require.NoError(t, err)
	return tbl
}

// In each table that a commit has changed, the summary of the new snapshot has the cursor. A commit makes only one
// snapshot per table, even if it both deletes and appends rows.
func TestSummary(t *testing.T) {
	o := warehouse(t)
	l := open(t, o)
	at := must(t, l, "", 1, 3)
	at = must(t, l, at, 2, 3)
	for _, name := range []string{"leads", "leads__mails", "_penstock_state"} {
		tbl := metadata(t, o, name)
		require.Len(t, tbl.Metadata().Snapshots(), 2, name)
		says := tbl.CurrentSnapshot().Summary
		require.EqualValues(t, at, says.Properties["penstock.cursor"], name)
		require.Equal(t, run(2), says.Properties["penstock.run"], name)
		require.Equal(t, table.OpOverwrite, says.Operation, name)
	}
	says := metadata(t, o, "leads").CurrentSnapshot().Summary.Properties
	require.Equal(t, []string{"3", "1", "3", "3"}, []string{says["total-records"], says["total-data-files"], says["added-records"], says["deleted-records"]})
}

// Commits replace all rows while a reader reads. At each moment, a table has rows of only one batch. If the reader gets
// the pointers of two tables at the same moment, it must find the same batch in both.
func TestReaders(t *testing.T) {
	o := warehouse(t)
	l := open(t, o)
	at := must(t, l, "", 1, 20)
	p := catalogOf(t, o)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	looked := 0
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			all, err := p.locate(t.Context(), "leads", "leads__mails")
			if err != nil {
				t.Errorf("read catalog: %v", err)
				return
			}
			if a, b := batchAt(t, all["leads"], 20), batchAt(t, all["leads__mails"], 20); a != b {
				t.Errorf("leads have rows of batch %s, but their mails have rows of batch %s", a, b)
			}
			looked++
		}
	})
	for n := range 15 {
		at = must(t, l, at, 2+n, 20)
	}
	close(stop)
	wg.Wait()
	require.Positive(t, looked)
}

func batchAt(t *testing.T, at string, n int64) string {
	tbl, err := table.NewFromLocation(t.Context(), nil, at, iceio.LoadFSFunc(nil, at), nil)
	if err != nil {
		t.Errorf("read %s: %v", at, err)
		return ""
	}
	rows, err := tbl.Scan(table.WithSelectedFields("batch")).ToArrowTable(t.Context())
	if err != nil {
		t.Errorf("read %s: %v", at, err)
		return ""
	}
	defer rows.Release()
	seen := map[string]bool{}
	for _, c := range rows.Column(0).Data().Chunks() {
		for i := range c.Len() {
			seen[c.ValueStr(i)] = true
		}
	}
	if len(seen) != 1 || rows.NumRows() != n {
		t.Errorf("found a part of a commit: %d rows of the batches %v", rows.NumRows(), seen)
	}
	for batch := range seen {
		return batch
	}
	return ""
}

func catalogOf(t testing.TB, o Options) backend {
	t.Helper()
	o, err := o.withDefaults()
	require.NoError(t, err)
	b, err := openBackend(t.Context(), o, files{bareRoot("")})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// Invariant 16
func TestForeignWriter(t *testing.T) {
	o := warehouse(t)
	l := open(t, o)
	at := must(t, l, "", 1, 3)
	tbl := metadata(t, o, "leads")
	b, err := table.MetadataBuilderFromBase(tbl.Metadata(), tbl.MetadataLocation())
	require.NoError(t, err)
	schema := tbl.Schema()
	fields := append(schema.Fields(), iceberg.NestedField{ID: 99, Name: "note", Type: iceberg.PrimitiveTypes.String})
	fields[1].Type = iceberg.PrimitiveTypes.String
	require.NoError(t, table.NewAddSchemaUpdate(iceberg.NewSchema(1, fields...)).Apply(b))
	require.NoError(t, table.NewSetCurrentSchemaUpdate(-1).Apply(b))
	meta, err := b.Build()
	require.NoError(t, err)
	repoint(t, o, "leads", tbl.MetadataLocation(), meta)
	_, err = put(t.Context(), l, at, 2, 3)
	require.ErrorIs(t, err, load.ErrForeignChange)
	require.ErrorContains(t, err, `column "batch" is string, was long`)
}

func TestPartitions(t *testing.T) {
	o := warehouse(t)
	o.PartitionBy = partition.Spec{Column: "on", Transform: partition.Month}
	l := open(t, o)
	at := must(t, l, "", 1, 3)
	must(t, l, at, 2, 3)
	tbl := metadata(t, o, "leads")
	spec := tbl.Spec()
	require.Equal(t, "on_month", spec.Field(0).Name)
	pruned := func(day string) int64 {
		on, err := iceberg.NewLiteral(day).To(iceberg.PrimitiveTypes.TimestampTz)
		require.NoError(t, err)
		rows, err := tbl.Scan(table.WithRowFilter(iceberg.LiteralPredicate(iceberg.OpGTEQ, iceberg.Reference("on"), on))).ToArrowTable(t.Context())
		require.NoError(t, err)
		defer rows.Release()
		return rows.NumRows()
	}
	require.EqualValues(t, 3, pruned("2026-11-01T00:00:00+00:00"))
	require.Zero(t, pruned("2026-12-01T00:00:00+00:00"))
}

func TestExpiry(t *testing.T) {
	o := warehouse(t)
	o.Keep, o.KeepFor = 2, -1
	l := open(t, o)
	at := state.Cursor("")
	for n := range 12 {
		at = must(t, l, at, 1+n, 3)
	}
	tbl := metadata(t, o, "leads")
	require.LessOrEqual(t, len(tbl.Metadata().Snapshots()), 3)
	for _, s := range tbl.Metadata().Snapshots() {
		rows, err := tbl.Scan(table.WithSnapshotID(s.SnapshotID)).ToArrowTable(t.Context())
		require.NoError(t, err, "a snapshot that is kept can be read")
		require.EqualValues(t, 3, rows.NumRows())
		rows.Release()
	}
	data, err := filepath.Glob(filepath.Join(o.Path, namespaceOf(o), "leads", "data", "*.parquet"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(data), 5)
	meta, err := filepath.Glob(filepath.Join(o.Path, namespaceOf(o), "leads", "metadata", "*"))
	require.NoError(t, err)
	lists := 0
	for _, name := range meta {
		if strings.Contains(name, "-snap-") {
			lists++
		}
	}
	require.LessOrEqual(t, lists, 5)
}

// repoint makes other metadata the current metadata of a table, as another program might do.
func repoint(t testing.TB, o Options, name, from string, meta table.Metadata) {
	t.Helper()
	text, err := json.Marshal(meta)
	require.NoError(t, err)
	to := strings.TrimSuffix(from, ".metadata.json") + "-other.metadata.json"
	require.NoError(t, iceio.LocalFS{}.WriteFile(to, text))
	require.NoError(t, catalogOf(t, o).commit(t.Context(), []change{{table: name, from: from, to: to}}))
}

func TestColumnsAreAdded(t *testing.T) {
	o := warehouse(t)
	l := open(t, o)
	number := func(digits int32) arrow.DataType {
		d, _ := schemas.Decimal(digits, 2)
		return d
	}
	from := state.Cursor("")
	commit := func(ordinal int, row loadtest.Row, columns ...arrow.Field) {
		t.Helper()
		row[schemas.ColSyncedAt], row[schemas.ColRun], row[schemas.ColHash], row[schemas.ColOrdinal] = "2026-11-20T12:00:00Z", run(1), row["id"], fmt.Sprint(ordinal)
		things := schemas.Table{Name: "things", Key: []string{"id"}, Columns: arrow.NewSchema(append(columns, own...), nil)}
		b := loadtest.Batch(t, things, row)
		defer b.Release()
		x, err := l.Begin(t.Context(), key, from, load.Pass{Run: run(1), Whole: true})
		require.NoError(t, err)
		require.NoError(t, x.Write(t.Context(), things, b))
		from = state.Cursor(fmt.Sprint("at ", ordinal))
		require.NoError(t, x.Commit(t.Context(), from))
	}
	files := func() []string { // not filepath.Glob: the folder's name has brackets
		data, err := fs.Glob(os.DirFS(filepath.Join(o.Path, namespaceOf(o), "things", "data")), "*.parquet")
		require.NoError(t, err)
		return data
	}
	id := schemas.Field("id", schemas.Int64, "/id")
	money := func(digits int32) arrow.Field { return schemas.Field("money", number(digits), "/money") }
	commit(1, loadtest.Row{"id": "1", "money": "1.50"}, id, money(8))
	before := files()
	require.Len(t, before, 1)
	commit(2, loadtest.Row{"id": "2", "money": "1234567890123456.25", "note": "new", "tags": `["x"]`},
		id, money(20), schemas.Field("note", schemas.Text, "/note"), schemas.Field("tags", arrow.ListOf(schemas.Text), "/tags"))
	after := files()
	require.Len(t, after, 2)
	require.Subset(t, after, before)
	want := []loadtest.Row{{"id": "1", "money": "1.50"}, {"id": "2", "money": "1234567890123456.25", "note": "new", "tags": `["x"]`}}
	pick := func(rows []loadtest.Row) (out []loadtest.Row) {
		for _, r := range rows {
			one := loadtest.Row{}
			for _, c := range []string{"id", "money", "note", "tags"} {
				if v, ok := r[c]; ok {
					one[c] = v
				}
			}
			out = append(out, one)
		}
		return out
	}
	var scanned []loadtest.Row
	require.NoError(t, l.Scan(t.Context(), "things", nil, func(b arrow.RecordBatch) error {
		scanned = append(scanned, loadtest.RowsOf(b)...)
		return nil
	}))
	require.ElementsMatch(t, want, pick(scanned))
	require.ElementsMatch(t, want, pick(read(t, o, "things")))
	var notes []loadtest.Row
	require.NoError(t, l.Scan(t.Context(), "things", []string{"note"}, func(b arrow.RecordBatch) error {
		notes = append(notes, loadtest.RowsOf(b)...)
		return nil
	}))
	require.ElementsMatch(t, []loadtest.Row{{}, {"note": "new"}}, notes)
}
