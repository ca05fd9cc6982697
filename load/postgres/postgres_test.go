//go:build unix

package postgres

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/state/pgerror"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// TestConformance uses json for documents, because the suite compares the spelling of documents, and jsonb does not
// keep the spelling. TestDocuments covers jsonb.
func TestConformance(t *testing.T) {
	server := pgtest.Start(t)
	loadtest.Run(t, driver(server, server.URL(), Options{JSON: "json", Servers: &Servers{}}))
}

// driver gives each test its own schema. The destinations connect to the server at the given URL.
func driver(server *pgtest.Server, url string, o Options) loadtest.Driver {
	var named sync.Map
	var count atomic.Int64
	return loadtest.Driver{
		Open: func(t testing.TB, step func(string) error) load.Destination {
			schema, ok := named.Load(t)
			if !ok { // drop each schema at the end of its test: the next tests do not see its tables, but many tables slow down the catalog
				t.Cleanup(func() { server.Exec("DROP SCHEMA IF EXISTS " + ident(schema.(string)) + " CASCADE") })
				schema = fmt.Sprintf(`it's "%s" %d`, o.JSON, count.Add(1))
				named.Store(t, schema)
			}
			own := o
			own.URL, own.Schema, own.Step = url, schema.(string), step
			d, err := Open(t.Context(), own)
			require.NoError(t, err)
			return d
		},
		Rows: func(t testing.TB, d load.Destination, table string) []loadtest.Row {
			if testing.Short() { // the checks take most of the time of a small query, and other tests cover them
				return uncheckedRows(t, d.(*DB), table)
			}
			return rowsOf(t, d.(*DB), table)
		},
		Alter: func(t testing.TB, d load.Destination, table, column string, to arrow.DataType) {
			p := d.(*DB)
			server.Exec("DROP VIEW IF EXISTS " + p.b.Place(table+currentSuffix))
			action := "DROP COLUMN " + ident(column)
			if to != nil {
				action = "ALTER COLUMN " + ident(column) + " TYPE " + p.b.Type(to) + " USING " + ident(column) + "::text::" + p.b.Type(to)
			}
			server.Exec("ALTER TABLE " + p.b.Place(table) + " " + action)
		},
		Drop: func(_ testing.TB, d load.Destination, table string) {
			server.Exec("DROP TABLE " + d.(*DB).b.Place(table) + " CASCADE")
		},
		Comment: func(t testing.TB, d load.Destination, table, column string) string {
			p := d.(*DB)
			of := literal(p.b.Place(table)) + "::regclass"
			if column == "" {
				return server.Text("SELECT coalesce(obj_description(" + of + "), '')")
			}
			return server.Text("SELECT coalesce(col_description(attrelid, attnum), '') FROM pg_attribute WHERE attrelid = " + of + " AND attname = " + literal(column))
		},
		Views:    true,
		Surveys:  true,
		Reserved: []string{"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"},
		Escape:   func(text string) string { return strings.ReplaceAll(text, "\x00", `\u0000`) },
	}
}

// rowsOf reads a table or view with a query. If the table or view does not exist, rowsOf returns no rows.
func rowsOf(t testing.TB, d *DB, table string) (rows []loadtest.Row) {
	t.Helper()
	return collect(t, func(each func(arrow.RecordBatch) error) error {
		return d.Query(t.Context(), "SELECT * FROM "+ident(table), each)
	})
}

// uncheckedRows is like rowsOf, but does not check which functions the query calls.
func uncheckedRows(t testing.TB, d *DB, table string) []loadtest.Row {
	t.Helper()
	return collect(t, func(each func(arrow.RecordBatch) error) error {
		return d.b.pool.read(t.Context(), func(s *session) error {
			stmt, err := s.pg.Prepare(t.Context(), "", "SELECT * FROM "+d.b.Place(table), nil)
			if err != nil {
				return err
			}
			return s.answer(t.Context(), stmt, "", each)
		})
	})
}

func collect(t testing.TB, read func(each func(arrow.RecordBatch) error) error) (rows []loadtest.Row) {
	t.Helper()
	err := read(func(b arrow.RecordBatch) error {
		rows = append(rows, loadtest.RowsOf(b)...)
		return nil
	})
	if c := pgerror.Code(err); c == pgerror.UndefinedTable || c == pgerror.UndefinedName {
		return nil
	}
	require.NoError(t, err)
	return rows
}
