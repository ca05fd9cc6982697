//go:build unix

package postgres

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// orders is a stream with child rows, two for each record.
type orders struct{ root, items schemas.Table }

func newOrders() orders {
	o := orders{rootTable("orders"), itemTable("orders")}
	o.items.Key = []string{schemas.ColParent, schemas.ColIndex}
	return o
}

// commit makes one transaction of a pass with the given records. If the parameter `last` is true, the pass ends.
func (o orders) commit(t testing.TB, d *DB, run int, last bool, hash string, ids ...int) error {
	t.Helper()
	from, err := d.Cursor(t.Context(), leads)
	require.NoError(t, err)
	x, err := d.Begin(t.Context(), leads, from, load.Pass{Run: runID(run), Whole: true})
	require.NoError(t, err)
	defer x.Rollback()
	var roots, items []loadtest.Row
	for _, id := range ids {
		roots = append(roots, row(run, id, hash, loadtest.Row{"id": fmt.Sprint(id)}))
		for i := range 2 {
			items = append(items, row(run, id, hash, loadtest.Row{schemas.ColParent: fmt.Sprint(id), schemas.ColIndex: fmt.Sprint(i)}))
		}
	}
	for _, p := range []part{{o.root, roots}, {o.items, items}} {
		if p.table.Name == "" {
			continue
		}
		b := loadtest.Batch(t, p.table, p.rows...)
		err := x.Write(t.Context(), p.table, b)
		b.Release()
		require.NoError(t, err)
	}
	s := load.Sweep{}
	if last {
		s = load.Sweep{Table: o.root.Name, Delete: true}
	}
	if _, err := x.Apply(t.Context(), s); err != nil {
		return err
	}
	return x.Commit(t.Context(), from+state.Cursor("x"))
}

// keysOf returns the number of primary keys of the child table.
func keysOf(server *pgtest.Server, schema string) string {
	return server.Text("SELECT count(*) FROM pg_constraint WHERE contype = 'p' AND conrelid = '" + schema + ".orders__items'::regclass")
}

// TestKeyOfChildTable: during a first load, a child table has no primary key. It gets the key at the end of the load, or
// in the first transaction that compares rows, such as the first one after a load that did not end.
func TestKeyOfChildTable(t *testing.T) {
	server := pgtest.Shared(t)
	o := newOrders()
	for name, second := range map[string]func(t *testing.T, d *DB) *DB{ // makes the second transaction
		"sweep":   func(t *testing.T, d *DB) *DB { require.NoError(t, o.commit(t, d, 1, true, "a", 3, 4)); return d },
		"again":   func(t *testing.T, d *DB) *DB { require.NoError(t, o.commit(t, d, 1, false, "b", 2, 3)); return d },
		"another": func(t *testing.T, d *DB) *DB { require.NoError(t, o.commit(t, d, 2, false, "b", 1, 3)); return d },
		"restart": func(t *testing.T, d *DB) *DB {
			require.NoError(t, d.Close())
			d = open(t, Options{URL: server.URL(), Schema: "restart"})
			require.NoError(t, o.commit(t, d, 2, false, "a", 5))
			return d
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, Options{URL: server.URL(), Schema: name})
			require.NoError(t, o.commit(t, d, 1, false, "a", 1, 2))
			require.Equal(t, "0", keysOf(server, name))
			d = second(t, d)
			require.Equal(t, "1", keysOf(server, name))
			require.NoError(t, o.commit(t, d, 3, true, "c", 1, 2))
			require.Equal(t, "4", server.Text("SELECT count(*) FROM "+name+".orders__items WHERE _penstock_deleted_at IS NULL"))
		})
	}
}

// TestKeyOfChildTableRefused: rows that another program has inserted may make the key impossible. The stream then stops
// with an error that says so, and nothing is lost.
func TestKeyOfChildTableRefused(t *testing.T) {
	server := pgtest.Shared(t)
	o := newOrders()
	d := open(t, Options{URL: server.URL(), Schema: "refused"})
	require.NoError(t, o.commit(t, d, 1, false, "a", 1, 2))
	server.Exec("INSERT INTO refused.orders__items SELECT * FROM refused.orders__items LIMIT 1")
	err := o.commit(t, d, 1, true, "a", 3)
	var foreign *load.ForeignChange
	require.ErrorAs(t, err, &foreign)
	require.ErrorContains(t, err, "several rows have the same (_penstock_parent, _penstock_index)")
	require.Equal(t, "2", server.Text("SELECT count(*) FROM refused.orders"), "the transaction is rolled back")
}

// TestKeyOfChildTableWaits: while a reader blocks the table, commits go on without the key.
func TestKeyOfChildTableWaits(t *testing.T) {
	server := pgtest.Shared(t)
	o := newOrders()
	d := open(t, Options{URL: server.URL(), Schema: "waits"})
	require.NoError(t, o.commit(t, d, 1, false, "a", 1, 2))
	reader, err := pgx.Connect(t.Context(), server.URL())
	require.NoError(t, err)
	defer reader.Close(context.Background())
	_, err = reader.Exec(t.Context(), "BEGIN; SELECT count(*) FROM waits.orders__items")
	require.NoError(t, err)
	require.NoError(t, o.commit(t, d, 1, true, "a", 3))
	require.Equal(t, "0", keysOf(server, "waits"))
	_, err = reader.Exec(t.Context(), "COMMIT")
	require.NoError(t, err)
	require.NoError(t, o.commit(t, d, 2, true, "b", 1, 2))
	require.Equal(t, "1", keysOf(server, "waits"))
}

// TestKeyOfChildTableAdopted: the recorded changes are lost before the child table has its key.
func TestKeyOfChildTableAdopted(t *testing.T) {
	server := pgtest.Shared(t)
	o := newOrders()
	d := open(t, Options{URL: server.URL(), Schema: "adopted"})
	require.NoError(t, o.commit(t, d, 1, false, "a", 1, 2))
	require.NoError(t, d.Close())
	server.Exec("TRUNCATE adopted._penstock_schema")
	d = open(t, Options{URL: server.URL(), Schema: "adopted"})
	require.NoError(t, o.commit(t, d, 2, true, "b", 1, 2))
	require.Equal(t, "1", keysOf(server, "adopted"))
	require.Equal(t, "4", server.Text("SELECT count(*) FROM adopted.orders__items"))
}

// TestKeyOfChildTableModes: the mode changes before the child table has its key. Then it keeps several versions.
func TestKeyOfChildTableModes(t *testing.T) {
	server := pgtest.Shared(t)
	o := newOrders()
	d := open(t, Options{URL: server.URL(), Schema: "modes_of_child"})
	require.NoError(t, o.commit(t, d, 1, false, "a", 1, 2))
	o.root.Mode, o.items.Mode = schemas.History, schemas.History
	items := o.items
	o.items = schemas.Table{} // the first transaction of the new mode has no rows of the child table
	require.NoError(t, o.commit(t, d, 2, true, "a", 1, 2))
	o.items = items
	require.NoError(t, o.commit(t, d, 3, true, "b", 1, 2))
	require.NoError(t, o.commit(t, d, 4, true, "c", 1, 2))
	require.Equal(t, "0", keysOf(server, "modes_of_child"))
}

// TestKeyOfChildTableReplaced: a person has given the table another primary key.
func TestKeyOfChildTableReplaced(t *testing.T) {
	server := pgtest.Shared(t)
	o := newOrders()
	d := open(t, Options{URL: server.URL(), Schema: "replaced"})
	require.NoError(t, o.commit(t, d, 1, false, "a", 1, 2))
	server.Exec("ALTER TABLE replaced.orders__items ADD PRIMARY KEY (_penstock_index, _penstock_parent)")
	var foreign *load.ForeignChange
	require.ErrorAs(t, o.commit(t, d, 1, true, "a", 3), &foreign)
	require.ErrorContains(t, foreign, "it has a primary key other than (_penstock_parent, _penstock_index)")
}
