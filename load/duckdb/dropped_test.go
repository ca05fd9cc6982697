//go:build cgo && duckdb_arrow

package duckdb

import (
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// notes is a child table of leads.
var notes = schemas.Table{Name: "crm_leads__notes", Columns: arrow.NewSchema([]arrow.Field{
	schemas.Field("text", schemas.Text, "/text"),
	schemas.Field(schemas.ColHash, schemas.Text, ""), schemas.Field(schemas.ColDeletedAt, schemas.Timestamp, ""),
	schemas.Field(schemas.ColParent, schemas.Int64, ""), schemas.Field(schemas.ColIndex, schemas.Int64, ""),
	{Name: schemas.ColOrdinal, Type: schemas.Int64},
}, nil)}

// putFamily commits the leads 0 and 1, each with a note.
func putFamily(t *testing.T, d *DB, run string, from, next state.Cursor) {
	t.Helper()
	x, err := d.Begin(t.Context(), stream, from, load.Pass{Run: run, Whole: true})
	require.NoError(t, err)
	defer func() { _ = x.Rollback() }()
	var rows []loadtest.Row
	for i := range 2 {
		rows = append(rows, loadtest.Row{
			"text": fmt.Sprintf("note %d", i), schemas.ColHash: "v1",
			schemas.ColParent: fmt.Sprint(i), schemas.ColIndex: "0", schemas.ColOrdinal: fmt.Sprint(i),
		})
	}
	records, children := loadtest.Batch(t, leads, leadRows(run, "v1", 2)...), loadtest.Batch(t, notes, rows...)
	defer records.Release()
	defer children.Release()
	require.NoError(t, x.Write(t.Context(), leads, records))
	require.NoError(t, x.Write(t.Context(), notes, children))
	_, err = x.Apply(t.Context(), load.Sweep{Table: leads.Name, Delete: true})
	require.NoError(t, err)
	require.NoError(t, x.Commit(t.Context(), next))
}

// TestDroppedFamilyTable drops a root table or its child table. The next pass must restore all rows of both tables, and
// write no row twice.
func TestDroppedFamilyTable(t *testing.T) {
	for _, name := range []string{"crm_leads", "crm_leads__notes"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "dropped.duckdb")
			d := openTest(t, path, Options{})
			putFamily(t, d, "run000000001", "", "a")
			d.detachIdle()
			plainDB(t, path)("DROP TABLE " + name)
			putFamily(t, d, "run000000002", "a", "b")
			require.Len(t, rowsOf(t, d, "crm_leads"), 2)
			require.Len(t, rowsOf(t, d, "crm_leads__notes"), 2)
			putFamily(t, d, "run000000003", "b", "c")
			require.Len(t, rowsOf(t, d, "crm_leads__notes"), 2)
		})
	}
}

// A new field of the source needs a column name that a user has already given to a column. The commit must fail with an
// error that names the user's column.
func TestColumnNameTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "theirs.duckdb")
	d := openTest(t, path, Options{})
	slim := schemas.Table{Name: leads.Name, Key: leads.Key}
	var fields []arrow.Field
	for _, f := range leads.Columns.Fields() {
		if f.Name != "name" {
			fields = append(fields, f)
		}
	}
	slim.Columns = arrow.NewSchema(fields, nil)
	x, err := d.Begin(t.Context(), stream, "", load.Pass{Run: "run000000001", Whole: true})
	require.NoError(t, err)
	b := loadtest.Batch(t, slim, leadRows("run000000001", "v1", 1)...)
	defer b.Release()
	require.NoError(t, x.Write(t.Context(), slim, b))
	require.NoError(t, x.Commit(t.Context(), "a"))
	d.detachIdle()
	plainDB(t, path)("ALTER TABLE crm_leads ADD COLUMN Name VARCHAR")
	err = put(t.Context(), t, d, "run000000002", "a", "b", leadRows("run000000002", "v1", 1))
	require.ErrorIs(t, err, load.ErrForeignChange)
	require.ErrorContains(t, err, `column "Name" was not made by penstock, and has the name that penstock needs for /name`)
}

// Carried keys are the keys of the records that a pass has found unchanged. A long-running process keeps only the
// carried keys of each stream's last pass.
func TestCarriedKeysAreForgotten(t *testing.T) {
	d := openTest(t, filepath.Join(t.TempDir(), "carried.duckdb"), Options{})
	at := state.Cursor("")
	for i := range 6 {
		next := state.Cursor(fmt.Sprint(i))
		run := fmt.Sprintf("run%09d", i)
		require.NoError(t, put(t.Context(), t, d, run, at, next, leadRows(run, "v1", 3)))
		at = next
	}
	var tables int64
	require.NoError(t, backend{d: d}.Read(t.Context(), func(sqlmerge.Reader) error {
		query := "SELECT count(*) FROM duckdb_tables() WHERE table_name LIKE '_penstock_carried_%'"
		return d.window.engine.write.Query(t.Context(), query, func(v []driver.Value) error {
			tables = v[0].(int64)
			return nil
		})
	}))
	require.EqualValues(t, 1, tables)
}
