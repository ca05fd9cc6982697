//go:build iceberg && unix

package iceberg

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
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
		tbl, err := table.NewFromLocation(t.Context(), table.Identifier{name}, at, filesOf(t, o), nil)
		require.NoError(t, err)
		all, err := tbl.Scan().ToArrowTable(t.Context())
		require.NoError(t, err, name)
		batches := array.NewTableReader(all, 0)
		for batches.Next() {
			rows = append(rows, loadtest.RowsOf(batches.RecordBatch())...)
		}
		require.NoError(t, batches.Err())
		batches.Release()
		all.Release()
	}
	return rows
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
