package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
)

func TestConformance(t *testing.T) {
	var paths sync.Map
	loadtest.Run(t, loadtest.Driver{
		Thorough: true,
		Open: func(t testing.TB, step func(string) error) load.Destination {
			path, ok := paths.Load(t)
			if !ok {
				path = filepath.Join(t.TempDir(), "it's a test.db")
				paths.Store(t, path)
			}
			d, err := Open(Options{Path: path.(string), Step: step})
			require.NoError(t, err)
			return d
		},
		Rows: func(t testing.TB, d load.Destination, table string) []loadtest.Row { return rowsOf(t, d.(*DB), table) },
		Alter: func(t testing.TB, d load.Destination, table, column string, to arrow.DataType) {
			s, err := d.(*DB).b.Write(t.Context())
			require.NoError(t, err)
			defer s.End()
			require.NoError(t, alterByHand(t.Context(), s.(*session), table, column, to))
		},
		Drop: func(t testing.TB, d load.Destination, table string) {
			s, err := d.(*DB).b.Write(t.Context())
			require.NoError(t, err)
			defer s.End()
			require.NoError(t, s.Exec(t.Context(), "DROP TABLE "+sqlmerge.Ident(table)))
			require.NoError(t, s.Commit(t.Context()))
		},
		Comment: func(t testing.TB, d load.Destination, table, column string) string {
			tables, err := d.Tables(t.Context(), table)
			require.NoError(t, err)
			if len(tables) == 0 {
				return ""
			}
			if column == "" {
				return load.Comment(load.TableDescription(tables[0].Columns), "records of sales.orders")
			}
			f, _ := tables[0].Columns.FieldsByName(column)
			return load.Comment(schemas.DescriptionOf(f[0]), schemas.Source(f[0]))
		},
		Views: true,
	})
}

// alterByHand drops a column, or gives it another type and keeps its values.
func alterByHand(ctx context.Context, s *session, table, column string, to arrow.DataType) error {
	if to != nil {
		w := load.Widening{Column: schemas.Field(column, to, ""), From: to}
		if err := s.rebuild(ctx, load.Plan{Table: schemas.Table{Name: table}, Widen: []load.Widening{w}}); err != nil {
			return err
		}
		return s.Commit(ctx)
	}
	for _, q := range []string{
		"PRAGMA writable_schema = 1", // otherwise a view that reads a missing column prevents the change
		"DROP INDEX IF EXISTS " + sqlmerge.Ident("_penstock_find_"+table),
		"ALTER TABLE " + sqlmerge.Ident(table) + " DROP COLUMN " + sqlmerge.Ident(column),
		"PRAGMA writable_schema = 0",
	} {
		if err := s.Exec(ctx, q); err != nil {
			return err
		}
	}
	return s.Commit(ctx)
}

// rowsOf returns the rows of a table, or none if the table does not exist.
func rowsOf(t testing.TB, d *DB, table string) (rows []loadtest.Row) {
	t.Helper()
	err := d.Query(t.Context(), "SELECT * FROM "+sqlmerge.Ident(table), func(b arrow.RecordBatch) error {
		rows = append(rows, loadtest.RowsOf(b)...)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) || err != nil && strings.Contains(err.Error(), "no such table") {
		return nil
	}
	require.NoError(t, err)
	return rows
}
