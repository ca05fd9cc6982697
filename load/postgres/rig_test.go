//go:build unix

package postgres

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

var leads = state.Key{Pipeline: "nightly", Stream: "crm.leads"}

// currentSuffix is the suffix of the names of views that show current rows.
const currentSuffix = "_current"

// rootTable returns a table of records with the given columns.
func rootTable(name string, columns ...arrow.Field) schemas.Table {
	own := []arrow.Field{
		schemas.Field(schemas.ColSyncedAt, schemas.Timestamp, ""), schemas.Field(schemas.ColRun, schemas.Text, ""),
		schemas.Field(schemas.ColHash, schemas.Text, ""), schemas.Field(schemas.ColDeletedAt, schemas.Timestamp, ""),
		schemas.Field(schemas.ColVia, schemas.Text, ""), {Name: schemas.ColOrdinal, Type: schemas.Int64},
	}
	columns = append([]arrow.Field{schemas.Field("id", schemas.Int64, "/id")}, columns...)
	return schemas.Table{Name: name, Key: []string{"id"}, Columns: arrow.NewSchema(append(columns, own...), nil)}
}

// itemTable returns a child table of the table root.
func itemTable(root string, columns ...arrow.Field) schemas.Table {
	t := rootTable(root+"__items", append(columns, schemas.Field(schemas.ColParent, schemas.Int64, ""), schemas.Field(schemas.ColIndex, schemas.Int64, ""))...)
	t.Key = nil
	t.Columns = arrow.NewSchema(t.Columns.Fields()[1:], nil)
	return t
}

func field(name string, t arrow.DataType) arrow.Field { return schemas.Field(name, t, "/"+name) }

// row returns a row with the given cells, and with the columns that the given run adds.
func row(run, ordinal int, hash string, cells loadtest.Row) loadtest.Row {
	r := loadtest.Row{
		schemas.ColSyncedAt: "2026-11-20T08:00:00Z", schemas.ColRun: runID(run), schemas.ColHash: hash,
		schemas.ColVia: "poll", schemas.ColOrdinal: fmt.Sprint(ordinal),
	}
	for k, v := range cells {
		r[k] = v
	}
	return r
}

func runID(n int) string { return fmt.Sprintf("run%09d", n) }

// A part has rows of one table.
type part struct {
	table schemas.Table
	rows  []loadtest.Row
}

// attemptLoad makes one commit of the stream "leads". It writes the rows of parts, and deletes all other rows of the
// first part's table.
func attemptLoad(t testing.TB, d *DB, run int, next state.Cursor, parts ...part) (load.Outcome, error) {
	from, err := d.Cursor(t.Context(), leads)
	if err != nil {
		return load.Outcome{}, err
	}
	x, err := d.Begin(t.Context(), leads, from, load.Pass{Run: runID(run), Whole: true})
	if err != nil {
		return load.Outcome{}, err
	}
	defer x.Rollback()
	for _, p := range parts {
		b := loadtest.Batch(t, p.table, p.rows...)
		err := x.Write(t.Context(), p.table, b)
		b.Release()
		if err != nil {
			return load.Outcome{}, err
		}
	}
	out, err := x.Apply(t.Context(), load.Sweep{Table: parts[0].table.Name, Delete: true})
	if err != nil {
		return out, err
	}
	return out, x.Commit(t.Context(), next)
}

func loadRows(t testing.TB, d *DB, run int, parts ...part) load.Outcome {
	t.Helper()
	out, err := attemptLoad(t, d, run, state.Cursor(fmt.Sprintf("c%d", run)), parts...)
	require.NoError(t, err)
	return out
}

func open(t testing.TB, o Options) *DB {
	t.Helper()
	d, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}
