//go:build cgo && duckdb_arrow

package duckdb

import (
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// A table without a key contains three equal rows, and one of them is removed. The two that stay must keep their values
// in a column that a user added. Invariant 16
func TestKeylessRowsKeepUserColumns(t *testing.T) {
	for _, mode := range []schemas.Mode{schemas.Merge, schemas.History} {
		t.Run(string(mode), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lines.duckdb")
			d := openTest(t, path, Options{})
			hostile := schemas.Field("penstock_rank", schemas.Int64, "/penstock_rank")
			lines := schemas.Table{Name: "lines", Mode: mode, Columns: arrow.NewSchema(append(leads.Columns.Fields(), hostile), nil)}
			pass := func(run string, from, next state.Cursor, rows int) {
				x, err := d.Begin(t.Context(), stream, from, load.Pass{Run: run, Whole: true})
				require.NoError(t, err)
				defer func() { _ = x.Rollback() }()
				b := loadtest.Batch(t, lines, leadRows(run, "v1", rows)...)
				defer b.Release()
				require.NoError(t, x.Write(t.Context(), lines, b))
				_, err = x.Apply(t.Context(), load.Sweep{Table: lines.Name, Delete: true})
				require.NoError(t, err)
				require.NoError(t, x.Commit(t.Context(), next))
			}
			pass("run000000001", "", "a", 3)
			byHand(t, d, path, "ALTER TABLE lines ADD COLUMN note TEXT", "UPDATE lines SET note = 'checked'")
			pass("run000000002", "a", "b", 2)
			rows := rowsOf(t, d, lines.Name)
			require.Len(t, rows, map[schemas.Mode]int{schemas.Merge: 2, schemas.History: 3}[mode])
			for _, r := range rows {
				require.Equal(t, "checked", r["note"])
			}
		})
	}
}
