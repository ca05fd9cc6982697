//go:build iceberg && unix

package iceberg

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/parquet"
)

type houses struct {
	place
	kept, opened sync.Map
}

func (h *houses) options(t testing.TB) Options {
	o, ok := h.kept.Load(t)
	if !ok {
		o = h.place(t)
		h.kept.Store(t, o)
	}
	return o.(Options)
}

// located() returns the location of a table. For an internal table, it returns one location per stream.
func located(t testing.TB, o Options, name string) (out []string) {
	t.Helper()
	b := catalogOf(t, o)
	names := []string{parquet.CatalogName("", name)}
	if load.IsInternal(name) {
		all, err := b.names(t.Context())
		require.NoError(t, err)
		names = slices.DeleteFunc(all, func(n string) bool { return n != name && !strings.HasPrefix(n, name+"__") })
	}
	at, err := b.locate(t.Context(), names...)
	require.NoError(t, err)
	for _, n := range names {
		if at[n] != "" {
			out = append(out, anyLocation(at[n]))
		}
	}
	require.NoError(t, b.Close())
	slices.Sort(out)
	return out
}

// anyLocation returns the location in the form that iceberg-go reads, which is file:///x and not file:/x.
func anyLocation(at string) string {
	if path, ok := strings.CutPrefix(at, "file:/"); ok {
		return "file:///" + strings.TrimLeft(path, "/")
	}
	return at
}

func read(t testing.TB, o Options, name string) (rows []loadtest.Row) {
	t.Helper()
	for _, at := range located(t, o, name) {
		some, err := rowsAt(t.Context(), filesOf(t, o), at)
		require.NoError(t, err, name)
		rows = append(rows, some...)
	}
	return rows
}

// rowsAt reads the rows of the table whose metadata is at the given location.
func rowsAt(ctx context.Context, from func(context.Context) (iceio.IO, error), at string, columns ...string) (rows []loadtest.Row, err error) {
	tbl, err := table.NewFromLocation(ctx, nil, at, from, nil)
	if err != nil {
		return nil, err
	}
	var options []table.ScanOption
	if columns != nil {
		options = append(options, table.WithSelectedFields(columns...))
	}
	all, err := tbl.Scan(options...).ToArrowTable(ctx)
	if err != nil {
		return nil, err
	}
	defer all.Release()
	batches := array.NewTableReader(all, 0)
	defer batches.Release()
	for batches.Next() {
		rows = append(rows, loadtest.RowsOf(batches.RecordBatch())...)
	}
	return rows, batches.Err()
}

func comment(t testing.TB, o Options, name, column string) string {
	t.Helper()
	if len(located(t, o, name)) == 0 {
		return ""
	}
	tbl := metadata(t, o, name)
	if column == "" {
		return tbl.Properties()["comment"]
	}
	f, ok := tbl.Schema().FindFieldByName(column)
	require.True(t, ok, column)
	return f.Doc
}

func driver(at place) loadtest.Driver {
	h := houses{place: at}
	return loadtest.Driver{
		Open: func(t testing.TB, step func(string) error) load.Destination {
			o := h.options(t)
			o.Step = step
			l, err := Open(t.Context(), o)
			require.NoError(t, err)
			h.opened.Store(l, o)
			return l
		},
		Rows: func(t testing.TB, d load.Destination, name string) []loadtest.Row {
			o, _ := h.opened.Load(d)
			return read(t, o.(Options), name)
		},
		Comment: func(t testing.TB, d load.Destination, name, column string) string {
			o, _ := h.opened.Load(d)
			return comment(t, o.(Options), name, column)
		},
	}
}

func TestConformance(t *testing.T) { everywhere(t, conformance) }

// In this test, a commit never writes a file again if it can delete the changed rows by their positions.
func TestConformanceWithDeletes(t *testing.T) { conformance(t, withDeletes(warehouse)) }

// withDeletes returns a place at which a commit writes a file again only if all of its rows change.
func withDeletes(at place) place {
	return func(t testing.TB) Options {
		o := at(t)
		o.Deletes = parquet.DeleteRule{MinSize: 1, MaxShare: 1}
		return o
	}
}

func conformance(t *testing.T, at place) {
	d := driver(at)
	d.Skip = skipInShort
	loadtest.Run(t, d)
}

// skipInShort reports whether a test takes too long for the short form.
func skipInShort(name string) bool {
	slow := []string{"columns widen", "columns widen twice", "hostile tables", "hostile columns", "modes", "modes without a key", "modes at random", "modes, applied in parts", "modes change",
		"lists paged by key", "concurrent commits of one stream", "failure at every step", "cancelled at every step", "a removal of old rows fails at every step", "rows delivered again", "log of rows", "accept", "shared by sources", "sources side by side"}
	return testing.Short() && slices.Contains(slow, name)
}
