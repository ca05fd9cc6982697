//go:build iceberg && unix

package iceberg

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/state"
)

// The catalog has lost a stream's head table. The error names two ways out: the table is registered again, or its folder
// is removed and the stream is loaded again. Invariants 1, 16
func TestHeadTableLost(t *testing.T) {
	for _, source := range []string{"", "berlin"} {
		t.Run("source "+source, func(t *testing.T) {
			for name, repair := range map[string]func(t *testing.T, o Options, folder string, from state.Cursor) state.Cursor{
				"registered": func(t *testing.T, o Options, folder string, from state.Cursor) state.Cursor {
					files, err := filepath.Glob(filepath.Join(escaped.Replace(folder), "metadata", "*.metadata.json"))
					require.NoError(t, err)
					require.NotEmpty(t, files)
					register := change{table: parquet.HeadTable("crm.leads"), to: "file://" + files[len(files)-1]}
					require.NoError(t, catalogOf(t, o).commit(t.Context(), []change{register}))
					return from
				},
				"removed": func(t *testing.T, o Options, folder string, _ state.Cursor) state.Cursor {
					if source != "" {
						dropTables(t, o)
					}
					require.NoError(t, os.RemoveAll(folder))
					return ""
				},
			} {
				t.Run(name, func(t *testing.T) { headLost(t, source, repair) })
			}
		})
	}
}

var escaped = strings.NewReplacer("[", "\\[", "]", "\\]")

// dropTables removes the tables of the test's stream from the catalog.
func dropTables(t *testing.T, o Options) {
	t.Helper()
	b := catalogOf(t, o)
	names, err := b.names(t.Context())
	require.NoError(t, err)
	at, err := b.locate(t.Context(), append(names, "leads", "leads__mails")...)
	require.NoError(t, err)
	var drops []change
	for name, from := range at {
		drops = append(drops, change{table: name, from: from})
	}
	require.NotEmpty(t, drops)
	require.NoError(t, b.commit(t.Context(), drops))
}

func headLost(t *testing.T, source string, repair func(t *testing.T, o Options, folder string, from state.Cursor) state.Cursor) {
	o := warehouse(t)
	opened := func() load.Destination {
		if source == "" {
			return open(t, o)
		}
		return of(t, open(t, o), source)
	}
	at := must(t, opened(), "", 1, 3)
	at = must(t, opened(), at, 2, 3)
	lost := change{table: parquet.HeadTable("crm.leads"), from: located(t, o, "_penstock_state")[0]}
	require.NoError(t, catalogOf(t, o).commit(t.Context(), []change{lost}))
	_, err := put(t.Context(), opened(), "", 1, 3)
	require.ErrorIs(t, err, load.ErrForeignChange)
	folder := filepath.Join(o.Path, "penstock_penstock", "penstock_state__crm__leads")
	require.ErrorContains(t, err, "table penstock_penstock.penstock_state__crm__leads was changed by hand: the catalog has lost it")
	require.ErrorContains(t, err, "register it again with the newest file in file://"+folder+"/metadata, or, to load the stream again")
	require.ErrorContains(t, err, "remove the folder file://"+folder)
	from := repair(t, o, folder, at)
	for batch := 3; batch < 6; batch++ {
		from = must(t, opened(), from, batch, 4)
		require.Len(t, read(t, o, "leads"), 4)
	}
}

// Someone has removed all data files of a child table, and the source has no child rows any more. Then penstock drops the
// table from the catalog and removes none of its other files. When the table comes back, it uses the same folder, and
// later commits remove the old files.
func TestDroppedTableComesBack(t *testing.T) {
	o := warehouse(t)
	o.Keep, o.KeepFor = 1, -1
	at := must(t, open(t, o), must(t, open(t, o), "", 1, 3), 2, 3)
	folder := filepath.Join(o.Path, "penstock", "leads__mails")
	require.NoError(t, os.RemoveAll(filepath.Join(folder, "data")))
	all := func() (names []string) {
		found, err := filepath.Glob(filepath.Join(escaped.Replace(folder), "metadata", "*"))
		require.NoError(t, err)
		return found
	}
	x, err := open(t, o).Begin(t.Context(), key, at, load.Pass{Run: run(3), Whole: true})
	require.NoError(t, err)
	b, err := load.Rows(leads, []any{0, 3, time.Now(), time.Now(), run(3), "3.0", nil, nil, 0})
	require.NoError(t, err)
	defer b.Release()
	require.NoError(t, x.Write(t.Context(), leads, b))
	require.NoError(t, x.Commit(t.Context(), "at 3"))
	require.Empty(t, located(t, o, "leads__mails"))
	left := all()
	require.NotEmpty(t, left)

	at = "at 3"
	for batch := 4; batch < 8; batch++ {
		at = must(t, open(t, o), at, batch, 3)
		require.Len(t, read(t, o, "leads__mails"), 3)
	}
	for _, name := range all() {
		require.NotContains(t, left, name)
	}
}
