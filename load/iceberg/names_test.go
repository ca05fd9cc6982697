//go:build iceberg && unix

package iceberg

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/state"
)

// namesIn returns the names of all tables in a namespace.
func namesIn(t *testing.T, b backend, namespace string) []string {
	t.Helper()
	list := b.(interface {
		namesIn(ctx context.Context, namespace string) ([]string, error)
	})
	names, err := list.namesIn(t.Context(), namespace)
	require.NoError(t, err)
	slices.Sort(names)
	return names
}

// The internal tables are in a namespace of their own, and no name has a dot. Another process finds all streams and
// their cursors under these names. Invariants 2, 17
func TestNames(t *testing.T) { everywhere(t, internalNames) }

func internalNames(t *testing.T, warehouse place) {
	o := warehouse(t)
	l := open(t, o)
	at := must(t, l, "", 1, 3)
	runs := state.Key{Pipeline: "nightly", Stream: "_run"}
	commitRun(t, l, runs, "", "at 1")
	commitRun(t, l, state.Key{Pipeline: "nightly-eu", Stream: "_run"}, "", "at 2")

	b := catalogOf(t, o)
	require.Equal(t, []string{"leads", "leads__mails"}, namesIn(t, b, namespaceOf(o)))
	var kinds []string
	for _, name := range namesIn(t, b, namespaceOf(o)+"_penstock") {
		require.Regexp(t, `^_penstock_[a-z]+__[a-z0-9_]+$`, name)
		kinds = append(kinds, strings.TrimPrefix(name, load.Prefix))
	}
	require.Subset(t, kinds, []string{"state__crm__leads", "schema__crm__leads", "state___run__nightly", "runs___run__nightly"})
	runsAt := located(t, o, "_penstock_runs")
	require.Len(t, runsAt, 2)
	require.Contains(t, runsAt[0], "/"+namespaceOf(o)+"_penstock/penstock_runs___run__nightly/metadata/", "the names in the catalog begin without an underscore")

	other := open(t, o)
	require.Equal(t, at, now(t, other))
	next, err := other.Cursor(t.Context(), runs)
	require.NoError(t, err)
	require.EqualValues(t, "at 1", next)
	paths, err := other.Path(t.Context(), "_penstock_state")
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(paths, "metadata.json"))
	at = must(t, other, at, 2, 4)
	commitRun(t, other, runs, "at 1", "at 3")
	require.Equal(t, at, now(t, l))
	require.Len(t, read(t, o, "leads"), 4)
	require.Len(t, read(t, o, "_penstock_state"), 3)
}

func commitRun(t *testing.T, l *parquet.Lake, k state.Key, from, next state.Cursor) {
	t.Helper()
	x, err := l.Begin(t.Context(), k, from, load.Pass{Run: run(1)})
	require.NoError(t, err)
	rows, err := load.Rows(load.Runs, []any{run(1), k.Pipeline, nil, nil, "complete", "{}", nil})
	require.NoError(t, err)
	defer rows.Release()
	require.NoError(t, x.Write(t.Context(), load.Runs, rows))
	require.NoError(t, x.Commit(t.Context(), next))
}

// A namespace of another version has the internal tables among the tables of the user. Penstock refuses it, because it
// would not find the cursors and would load all rows again. Invariant 1
func TestOtherLayout(t *testing.T) { everywhere(t, otherLayout) }

func otherLayout(t *testing.T, warehouse place) {
	o := warehouse(t)
	earlier := o
	earlier.Namespace = namespaceOf(o) + "_other"
	const name = "_penstock_state__crm.leads"
	switch b := catalogOf(t, earlier).(type) {
	case *pointers:
		require.NoError(t, b.createTables(t.Context()))
		_, err := b.db.ExecContext(t.Context(), b.placeholders("INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location) VALUES (?, ?, ?, 'file:///x')"),
			b.catalog, namespaceOf(o), name)
		require.NoError(t, err)
	case *restCatalog:
		require.NoError(t, b.createNamespace(t.Context(), namespaceOf(o)))
		column := map[string]any{"id": 1, "name": "cursor", "type": "string", "required": false}
		require.NoError(t, b.client.do(t.Context(), http.MethodPost, map[string]any{
			"name": name, "schema": map[string]any{"type": "struct", "fields": []any{column}},
		}, nil, b.under(namespaceOf(o), "tables")...))
	}
	for range 2 {
		_, err := Open(t.Context(), o)
		require.ErrorContains(t, err, "namespace "+namespaceOf(o)+" has the table "+name+", which belongs in the namespace "+namespaceOf(o)+"_penstock")
		require.ErrorContains(t, err, "hint: load into an empty folder")
	}
}

func TestReservedNamespace(t *testing.T) {
	o := warehouse(t)
	o.Namespace = "crm_penstock"
	_, err := Open(t.Context(), o)
	require.ErrorContains(t, err, "names that end with _penstock are reserved")
}
