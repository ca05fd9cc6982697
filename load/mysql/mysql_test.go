//go:build unix

package mysql

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/mysql/mysqltest"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
)

func TestConformance(t *testing.T) {
	server := mysqltest.Start(t)
	var urls sync.Map
	change := func(t testing.TB, d load.Destination, statement string) {
		statement, _ = translate(statement)
		_, err := d.(*DB).b.pool.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	loadtest.Run(t, loadtest.Driver{
		Open: func(t testing.TB, step func(string) error) load.Destination {
			url, ok := urls.Load(t)
			if !ok {
				url = server.URL(t)
				urls.Store(t, url)
			}
			d, err := Open(Options{URL: url.(string), Step: step})
			require.NoError(t, err)
			return d
		},
		Rows: func(t testing.TB, d load.Destination, table string) []loadtest.Row { return rowsOf(t, d.(*DB), table) },
		Alter: func(t testing.TB, d load.Destination, table, column string, to arrow.DataType) {
			b := d.(*DB).b
			if to == nil {
				change(t, d, "ALTER TABLE "+b.Place(table)+" DROP COLUMN "+sqlmerge.Ident(column))
				return
			}
			change(t, d, "ALTER TABLE "+b.Place(table)+" MODIFY COLUMN "+sqlmerge.Ident(column)+" "+b.Type(to))
		},
		Drop: func(t testing.TB, d load.Destination, table string) {
			change(t, d, "DROP TABLE "+d.(*DB).b.Place(table))
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
		// The function json_valid of MySQL refuses numbers that no DOUBLE can hold.
		Skip: func(name string) bool { return name == "log of values" && !server.IsMariaDB() },
		// MySQL ignores accents. If a stream has the column e, no column gets one of these names; see schemas.Namer.
		Reserved: []string{"é", "è", "ß"},
		LastTime: func(text string) string {
			if strings.HasPrefix(text, "10000-") {
				return "9999-12-31T23:59:59.999999Z"
			}
			return text
		},
	})
}

// rowsOf returns the rows of a table or a view, or none if it does not exist. The types of its columns are those that
// penstock has recorded.
func rowsOf(t testing.TB, d *DB, table string) (rows []loadtest.Row) {
	t.Helper()
	ctx := context.Background()
	fields := map[string]arrow.DataType{}
	for _, own := range load.OwnTables() {
		if own.Name == table {
			for _, f := range own.Columns.Fields() {
				fields[f.Name] = schemas.TypeOf(f)
			}
		}
	}
	for _, name := range []string{table, strings.TrimSuffix(table, "_current")} {
		tables, err := d.Tables(ctx, name)
		require.NoError(t, err)
		for _, made := range tables {
			if made.Name == name {
				for _, f := range made.Columns.Fields() {
					fields[f.Name] = schemas.TypeOf(f)
				}
			}
		}
	}
	err := d.b.Read(ctx, func(r sqlmerge.Reader) error {
		s := r.(*session)
		all, err := s.readObject(ctx, table)
		require.NoError(t, err)
		if all[table] == nil {
			return nil
		}
		var columns []arrow.Field
		var names []string
		for name, typ := range all[table].Types {
			of, ok := fields[name]
			if live, known := d.b.Lattice(schemas.Field(name, schemas.Text, ""), typ); !ok || d.b.Type(of) != typ {
				require.True(t, known, typ)
				of = live
			}
			columns, names = append(columns, schemas.Field(name, of, "")), append(names, name)
		}
		return s.Stream(ctx, "SELECT "+sqlmerge.Idents(names)+" FROM "+d.b.Place(table), arrow.NewSchema(columns, nil), func(b arrow.RecordBatch) error {
			rows = append(rows, loadtest.RowsOf(b)...)
			return nil
		})
	})
	require.NoError(t, err)
	return rows
}
