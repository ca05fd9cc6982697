package parquet

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/parquet/encode"
	"github.com/penstock-data/penstock/load/parquet/objects"
	"github.com/penstock-data/penstock/schemas"
)

func driver(rows func(testing.TB, load.Destination, string) []loadtest.Row) loadtest.Driver {
	var paths sync.Map
	return loadtest.Driver{
		Open: func(t testing.TB, step func(string) error) load.Destination {
			path, ok := paths.Load(t)
			if !ok {
				path = filepath.Join(t.TempDir(), "it's a [lake]")
				paths.Store(t, path)
			}
			l, err := Open(t.Context(), Options{Path: path.(string), TempDir: t.TempDir(), Step: step})
			require.NoError(t, err)
			l.disk.Sync = func(*os.File) error { return nil } // for speed; other tests check durability
			return l
		},
		Rows:  rows,
		Alter: alter,

		Comment: comment,
	}
}

func comment(t testing.TB, d load.Destination, name, column string) string {
	t.Helper()
	all, err := d.(*Lake).manifests(t.Context())
	require.NoError(t, err)
	for _, m := range all {
		table := m.table(name)
		if table == nil {
			continue
		}
		if column == "" {
			return load.Comment(load.TableDescription(table.schema), "records of "+m.key().Stream)
		}
		f := table.schema.Field(table.column(column))
		require.Contains(t, inFiles(t, m.files(table), column), schemas.DescriptionOf(f), "in the files as well")
		return load.Comment(schemas.DescriptionOf(f), schemas.Source(f))
	}
	return ""
}

func inFiles(t testing.TB, files []*file, column string) (all []string) {
	t.Helper()
	for _, f := range files {
		r, err := f.open(t.Context())
		require.NoError(t, err)
		pq, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
		require.NoError(t, err)
		schema, err := pq.Schema()
		require.NoError(t, err)
		if i := schema.FieldIndices(column); i != nil {
			all = append(all, schemas.DescriptionOf(schema.Field(i[0])))
		}
		require.NoError(t, r.Close())
	}
	return all
}

func alter(t testing.TB, d load.Destination, name, column string, to arrow.DataType) {
	t.Helper()
	all, err := d.(*Lake).manifests(t.Context())
	require.NoError(t, err)
	for _, m := range all {
		old := m.table(name)
		if old == nil {
			continue
		}
		var fields []arrow.Field
		for _, f := range old.schema.Fields() {
			switch {
			case f.Name != column:
				fields = append(fields, f)
			case to != nil:
				fields = append(fields, schemas.Field(column, to, ""))
			}
		}
		altered := *old
		altered.become(schemas.Table{Columns: arrow.NewSchema(fields, nil)})
		for _, f := range m.files(old) {
			w := newFileWriter(t, &altered, t.TempDir(), "altered.parquet")
			require.NoError(t, f.read(t.Context(), old, nil, func(_ int64, c []arrow.Array, rows int) error {
				out, err := altered.shape(c, old.schema, rows)
				require.NoError(t, err)
				defer release(out)
				return w.add(out, rows)
			}))
			fresh, err := w.finish(t.Context())
			require.NoError(t, err)
			replaceFile(t, d.(*Lake), f, fresh.path(), fresh.Size)
		}
	}
}

func replaceFile(t testing.TB, l *Lake, f *file, with string, size int64) {
	t.Helper()
	b, far := l.storage.(*bucket)
	if !far {
		require.NoError(t, os.Rename(with, f.path()))
		return
	}
	in, err := os.Open(with)
	require.NoError(t, err)
	defer in.Close()
	require.NoError(t, b.o.Put(t.Context(), f.key(), in, size))
}

func newFileWriter(t testing.TB, of *table, dir, name string) *writer {
	t.Helper()
	d := &directory{path: string(filepath.Separator), disk: &objects.Disk{}}
	out, err := createFile(d.disk, dir, name)
	require.NoError(t, err)
	return newWriter(of, &file{Name: name, store: d.store(".")}, out, &encode.Pool{})
}

// The function scanned() reads a table. If the table is the log of table changes, scanned() adds the source to each
// row, as an engine does that reads the source from the name of a folder.
func scanned(t testing.TB, d load.Destination, table string) (rows []loadtest.Row) {
	t.Helper()
	collect := func(b arrow.RecordBatch) error {
		rows = append(rows, loadtest.RowsOf(b)...)
		return nil
	}
	if table != load.Changes.Name {
		require.NoError(t, d.Scan(t.Context(), table, nil, collect))
		return rows
	}
	all, err := d.(*Lake).manifests(t.Context())
	require.NoError(t, err)
	for _, m := range all {
		at := len(rows)
		if log := m.table(table); log != nil {
			require.NoError(t, m.scan(t.Context(), log, nil, collect, false))
		}
		for _, r := range rows[at:] {
			if m.Source != "" {
				r[schemas.ColSource] = m.Source
			}
		}
	}
	return rows
}
