//go:build iceberg && unix

package iceberg

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	pqfile "github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/parquet/partition"
	"github.com/penstock-data/penstock/schemas"
)

func putKeyed(t *testing.T, l load.Destination, mode schemas.Mode, by []string, of arrow.DataType, ids ...string) {
	t.Helper()
	things := schemas.Table{Name: "things", Key: by, Mode: mode, Columns: arrow.NewSchema(append([]arrow.Field{
		schemas.Field("id", of, "/id"), schemas.Field("part", schemas.Int64, "/part"),
	}, own...), nil)}
	at, err := l.Cursor(t.Context(), key)
	require.NoError(t, err)
	x, err := l.Begin(t.Context(), key, at, load.Pass{Run: run(len(at) + 1), Whole: true})
	require.NoError(t, err)
	var rows []loadtest.Row
	for i, id := range ids {
		rows = append(rows, loadtest.Row{
			"id": id, "part": fmt.Sprint(i), schemas.ColSyncedAt: "2026-11-20T12:00:00Z", schemas.ColRun: run(len(at) + 1), schemas.ColHash: string(at) + id, schemas.ColOrdinal: fmt.Sprint(i),
		})
	}
	b := loadtest.Batch(t, things, rows...)
	defer b.Release()
	require.NoError(t, x.Write(t.Context(), things, b))
	require.NoError(t, x.Commit(t.Context(), at+"x"))
}

// keyOf returns the names of three groups of fields: the identifier fields, the required fields, and the fields of the
// sort order.
func keyOf(t *testing.T, o Options) (out [3][]string) {
	t.Helper()
	meta := metadata(t, o, "things").Metadata()
	s := meta.CurrentSchema()
	name := func(id int) string {
		f, ok := s.FindFieldByID(id)
		require.True(t, ok)
		return f.Name
	}
	for _, id := range s.IdentifierFieldIDs {
		out[0] = append(out[0], name(id))
	}
	for _, f := range s.Fields() {
		if f.Required {
			out[1] = append(out[1], f.Name)
		}
	}
	order := meta.SortOrder()
	for i := range order.Len() {
		f := order.Field(i)
		out[2] = append(out[2], name(f.SourceID()))
	}
	return out
}

func TestKeyInSchema(t *testing.T) {
	id, both := []string{"id"}, []string{"id", "part"}
	for name, c := range map[string]struct {
		mode schemas.Mode
		key  []string
		of   arrow.DataType
		want [3][]string
	}{
		"merge":       {schemas.Merge, id, schemas.Int64, [3][]string{id, id, id}},
		"replace":     {schemas.Replace, both, schemas.Text, [3][]string{both, both, id}},
		"append":      {schemas.Append, id, schemas.Int64, [3][]string{nil, id, id}},
		"history":     {schemas.History, id, schemas.Int64, [3][]string{nil, id, id}},
		"no key":      {schemas.Merge, nil, schemas.Int64, [3][]string{}},
		"float key":   {schemas.Merge, id, schemas.Float64, [3][]string{}},
		"decimal key": {schemas.Merge, id, &arrow.Decimal128Type{Precision: 9, Scale: 0}, [3][]string{id, id, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			o := warehouse(t)
			l := open(t, o)
			putKeyed(t, l, c.mode, c.key, c.of, "1", "2")
			putKeyed(t, l, c.mode, c.key, c.of, "1", "3")
			require.Equal(t, c.want, keyOf(t, o))
			require.NotEmpty(t, read(t, o, "things"))
		})
	}
}

// If the key column gets another type, it becomes a new column. This column must be required too, and the table must be
// sorted by it.
func TestKeyWidens(t *testing.T) {
	o := warehouse(t)
	l := open(t, o)
	id := []string{"id"}
	putKeyed(t, l, schemas.Merge, id, schemas.Int64, "1", "2")
	before := metadata(t, o, "things").Schema()
	putKeyed(t, l, schemas.Merge, id, schemas.Text, "1", "x")
	require.Equal(t, [3][]string{id, id, id}, keyOf(t, o))
	require.NotEqual(t, before.IdentifierFieldIDs, metadata(t, o, "things").Schema().IdentifierFieldIDs)
}

func TestKeyOfSharedTable(t *testing.T) {
	o := warehouse(t)
	l := open(t, o)
	for _, source := range []string{"berlin", "boston"} {
		putKeyed(t, of(t, l, source), schemas.Merge, []string{"id"}, schemas.Int64, "1", "2")
	}
	both := []string{schemas.ColSource, "id"}
	require.Equal(t, [3][]string{both, both, {"id"}}, keyOf(t, o))
}

func dataFiles(t *testing.T, o Options) (out []iceberg.DataFile) {
	t.Helper()
	all, err := metadata(t, o, "things").Scan().PlanFiles(t.Context())
	require.NoError(t, err)
	for _, one := range all {
		out = append(out, one.File)
	}
	return out
}

// A file is marked as sorted only if its rows are sorted.
func TestSortedFiles(t *testing.T) {
	for name, c := range map[string]struct {
		of   arrow.DataType
		ids  []string
		want bool
	}{
		"numbers":           {schemas.Int64, []string{"9", "10", "11"}, true},
		"unordered numbers": {schemas.Int64, []string{"9", "11", "10"}, false},
		"texts":             {schemas.Text, []string{"10", "11", "9"}, true},
		"unordered texts":   {schemas.Text, []string{"9", "10", "11"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := warehouse(t)
			putKeyed(t, open(t, o), schemas.Merge, []string{"id"}, c.of, c.ids...)
			all := dataFiles(t, o)
			require.Len(t, all, 1)
			id := all[0].SortOrderID()
			require.Equal(t, c.want, id != nil && *id == metadata(t, o, "things").Metadata().DefaultSortOrder())
		})
	}
}

// The sort order of another program stays. // Invariant 16
func TestForeignSortOrder(t *testing.T) {
	o := warehouse(t)
	l := open(t, o)
	putKeyed(t, l, schemas.Merge, []string{"id"}, schemas.Int64, "1", "2")
	tbl := metadata(t, o, "things")
	b, err := table.MetadataBuilderFromBase(tbl.Metadata(), tbl.MetadataLocation())
	require.NoError(t, err)
	part, _ := tbl.Schema().FindFieldByName("part")
	order, err := table.NewSortOrder(2, []table.SortField{{SourceIDs: []int{part.ID}, Transform: iceberg.IdentityTransform{}, Direction: table.SortDESC, NullOrder: table.NullsLast}})
	require.NoError(t, err)
	require.NoError(t, b.AddSortOrder(&order))
	require.NoError(t, b.SetDefaultSortOrderID(-1))
	meta, err := b.Build()
	require.NoError(t, err)
	repoint(t, o, "things", tbl.MetadataLocation(), meta)
	putKeyed(t, l, schemas.Merge, []string{"id"}, schemas.Int64, "1", "2", "3")
	require.Equal(t, []string{"part"}, keyOf(t, o)[2])
	for _, f := range dataFiles(t, o) {
		if id := f.SortOrderID(); id != nil {
			require.NotEqual(t, 2, *id)
		}
	}
}

// For each column, the manifests have the number of values and the size in bytes. The sizes equal those in the footers
// of the files.
func TestColumnSizes(t *testing.T) {
	o := warehouse(t)
	putKeyed(t, open(t, o), schemas.Merge, []string{"id"}, schemas.Text, "one", "two", "three")
	f := dataFiles(t, o)[0]
	r, err := pqfile.OpenParquetFile(strings.TrimPrefix(f.FilePath(), "file://"), false)
	require.NoError(t, err)
	defer r.Close()
	require.NotEmpty(t, f.ColumnSizes())
	for i := range r.MetaData().Schema.NumColumns() {
		chunk, err := r.MetaData().RowGroup(0).ColumnChunk(i)
		require.NoError(t, err)
		id := int(r.MetaData().Schema.Column(i).SchemaNode().FieldID())
		require.Equal(t, chunk.TotalCompressedSize(), f.ColumnSizes()[id])
		require.EqualValues(t, 3, f.ValueCounts()[id])
	}
	info, err := os.Stat(strings.TrimPrefix(f.FilePath(), "file://"))
	require.NoError(t, err)
	require.Equal(t, info.Size(), f.FileSizeBytes())
}

// A filter by a column that does not partition the table reads only the file with matching rows, because the manifests
// have the bounds of each column.
func TestManyFilesArePruned(t *testing.T) {
	o := warehouse(t)
	o.PartitionBy = partition.Spec{Column: "id", Transform: partition.Truncate, Width: 10}
	const n = 1200
	var rows []loadtest.Row
	for i := range n {
		rows = append(rows, loadtest.Row{"id": fmt.Sprint(i), "name": fmt.Sprintf("name %04d", i), "day": "2026-11-01"})
	}
	_, err := putAll(t, open(t, o), "", 1, partitionColumns, rows...)
	require.NoError(t, err)
	require.Equal(t, n/10, planned(t, o, iceberg.AlwaysTrue{}))
	require.Equal(t, 1, planned(t, o, is(iceberg.OpEQ, "name", "name 0777")))
	require.Zero(t, planned(t, o, is(iceberg.OpGT, "day", "2026-11-01")))
	require.Zero(t, planned(t, o, iceberg.NotNull(iceberg.Reference("at"))))
	want := map[string][]int{
		"name = 'name 0777'": {1, 1}, "name >= 'name 0500' and name < 'name 0600'": {10, 100}, "id = 42 or name = 'name 0777'": {2, 2},
		"day > '2026-11-01'": {0, 0}, "at is not null": {0, 0}, "at is null": {n / 10, n},
	}
	var got map[string][]int
	args := []string{filepath.Join(o.Path, catalogFile), o.Path, "things"}
	for f := range want {
		args = append(args, f)
	}
	ask(t, &got, pyplan, args...)
	require.Equal(t, want, got)
}
