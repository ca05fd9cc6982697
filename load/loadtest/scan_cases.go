package loadtest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

func (b *fixture) scanned(table string, columns []string) (rows []Row, fields []arrow.Field) {
	b.Helper()
	err := b.dest.Scan(b.Context(), table, columns, func(batch arrow.RecordBatch) error {
		fields = batch.Schema().Fields()
		rows = append(rows, RowsOf(batch)...)
		return nil
	})
	require.NoError(b, err)
	return rows, fields
}

func testScan(t *testing.T, d Driver) {
	b := newFixture(t, d)
	rows, _ := b.scanned("everything", nil)
	require.Empty(t, rows, "the table does not exist")
	table, all := everything(nil)
	b.commit(load.Sweep{}, put{table, all})
	b.commit(sweep("everything"))
	b.run(2)
	b.commit(sweep("everything"), put{table, all[:1]})
	x := b.begin()
	b.write(x, put{table, []Row{with("run000000003", 9999, "new", Row{"id": "9999"})}})
	_, err := x.Apply(t.Context(), load.Sweep{})
	require.NoError(t, err)
	if rows, _ = b.scanned("everything", []string{"id"}); true {
		require.Len(t, rows, len(all), "uncommitted rows are not visible")
	}
	require.NoError(t, x.Rollback())
	b.reopen()
	want := b.driver.Rows(t, b.dest, "everything")
	rows, fields := b.scanned("everything", nil)
	b.same(want, rows)
	tables, err := b.dest.Tables(t.Context(), "everything")
	require.NoError(t, err)
	require.Len(t, fields, tables[0].Columns.NumFields())
	for i, f := range fields {
		asMade := tables[0].Columns.Field(i)
		require.Equal(t, asMade.Name, f.Name)
		require.True(t, schemas.SameType(schemas.TypeOf(asMade), schemas.TypeOf(f)), "column %s is %s, want %s", f.Name, f.Type, asMade.Type)
		require.True(t, arrow.TypeEqual(asMade.Type, f.Type), "column %s is %s, want %s", f.Name, f.Type, asMade.Type)
	}
	rows, fields = b.scanned("everything", []string{schemas.ColRun, "words", "id"})
	require.Equal(t, []string{schemas.ColRun, "words", "id"}, []string{fields[0].Name, fields[1].Name, fields[2].Name})
	require.Len(t, rows, len(all))
}

func testScanEnds(t *testing.T, d Driver) {
	b := newFixture(t, d)
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}}, put{lines, nil})
	enough := errors.New("enough")
	require.ErrorIs(t, b.dest.Scan(t.Context(), "people", nil, func(arrow.RecordBatch) error { return enough }), enough)
	require.Error(t, b.dest.Scan(t.Context(), "people", []string{"no such column"}, func(arrow.RecordBatch) error { return nil }))
	rows, _ := b.scanned("lines", nil)
	require.Empty(t, rows)
	rows, _ = b.scanned(load.State.Name, []string{"stream", "cursor"})
	require.Equal(t, []Row{{"stream": b.key.Stream, "cursor": string(b.cursor)}}, rows, "penstock's own tables can be read")
	err := b.dest.Scan(t.Context(), "people", []string{"id"}, func(arrow.RecordBatch) error {
		inner, _ := b.scanned("people", []string{"name"})
		require.Len(t, inner, 1)
		_, err := b.dest.Cursor(t.Context(), b.key)
		return err
	})
	require.NoError(t, err, "a destination can be queried during a scan")
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "amy")}})
}

// testAccept changes a table by hand. Its stream is stopped until the changes are accepted. // Invariant 16
func testAccept(t *testing.T, d Driver) {
	if d.Alter == nil {
		t.Skip("tables cannot be changed by hand")
	}
	for i, c := range []struct {
		table, column string
		to            arrow.DataType
	}{{"people", "name", nil}, {"people__items", "sku", nil}, {"people", "age", schemas.Text}} {
		for _, mode := range d.modesOf(i + 2) {
			t.Run(fmt.Sprint(mode, " ", c.table, ".", c.column, " ", c.to), func(t *testing.T) {
				b, f := newFixture(t, d), newFamily(mode, true)
				f.root.Columns = arrow.NewSchema(append(f.root.Columns.Fields(), column("age", schemas.Int64)), nil)
				puts := func() []put {
					puts := f.puts(b.pass.Run, "1:ann 2:bob")
					for i := range puts[0].rows {
						puts[0].rows[i]["age"] = "7"
					}
					return puts
				}
				b.commit(load.Sweep{}, puts()...)
				d.Alter(t, b.dest, c.table, c.column, c.to)
				b.run(2)
				x := b.begin()
				b.write(x, puts()...)
				_, err := x.Apply(t.Context(), sweep("people"))
				require.ErrorIs(t, err, load.ErrForeignChange)
				require.NoError(t, x.Rollback())
				err = b.dest.Scan(t.Context(), c.table, nil, func(arrow.RecordBatch) error { return nil })
				require.ErrorIs(t, err, load.ErrForeignChange, "the content of the changed column is unknown")

				changes, err := b.dest.Accept(t.Context(), c.table)
				require.NoError(t, err)
				require.Len(t, changes, 1)
				require.Equal(t, []string{c.table, c.column}, []string{changes[0].Table, changes[0].Column})
				require.Equal(t, map[bool]string{true: load.ActionForget, false: load.ActionRetype}[c.to == nil], changes[0].Action)
				if d.Views && (mode == schemas.Merge || mode == schemas.History) {
					require.Len(t, d.Rows(t, b.dest, c.table+"_current"), 2, "the view does not need the column")
				}
				changes, err = b.dest.Accept(t.Context(), c.table)
				require.NoError(t, err)
				require.Empty(t, changes, "already accepted")
				b.reopen()
				tables, err := b.dest.Tables(t.Context(), c.table)
				require.NoError(t, err)
				if c.to == nil {
					require.False(t, tables[0].Columns.HasField(c.column))
				} else {
					found, _ := tables[0].Columns.FieldsByName(c.column)
					require.True(t, schemas.SameType(c.to, schemas.TypeOf(found[0])))
				}
				b.commit(load.Sweep{}, puts()...)
				b.restored(f)
			})
		}
	}
}

func (b *fixture) restored(f family) {
	b.Helper()
	want := map[string]string{"name": "", "sku": "", "age": ""}
	for _, t := range []schemas.Table{f.root, f.items, f.parts} {
		m := table{Table: t}
		latest := map[string]Row{}
		for _, r := range b.driver.Rows(b, b.dest, t.Name) {
			id := r["id"] + r[schemas.ColParent]
			if have, ok := latest[id]; !ok || m.follows(r, have) {
				latest[id] = r
			}
		}
		require.Len(b, latest, 2, t.Name)
		for _, r := range latest {
			for _, field := range t.Columns.Fields() {
				if _, ours := want[field.Name]; ours {
					require.NotEmpty(b, r[field.Name], "column %s of %s", field.Name, t.Name)
				}
			}
		}
	}
}

func testAcceptRefuses(t *testing.T, d Driver) {
	b := newFixture(t, d)
	changes, err := b.dest.Accept(t.Context(), "people")
	require.NoError(t, err)
	require.Empty(t, changes, "the table does not exist")
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}})
	changes, err = b.dest.Accept(t.Context(), "people")
	require.NoError(t, err)
	require.Empty(t, changes, "nothing was changed")
	if d.Alter == nil {
		return
	}
	for i, column := range []string{"id", schemas.ColHash} {
		b := newFixture(t, d)
		b.key.Stream += column
		table := root(fmt.Sprint("people", i), []string{"id"}, people.Columns.Fields()[0], people.Columns.Fields()[1])
		b.commit(load.Sweep{}, put{table, []Row{person(b.pass.Run, 0, "1", "ann")}})
		d.Alter(t, b.dest, table.Name, column, nil)
		_, err := b.dest.Accept(t.Context(), table.Name)
		require.ErrorContains(t, err, column)
		x := b.begin()
		b.write(x, put{table, []Row{person(b.pass.Run, 0, "1", "ann")}})
		_, err = x.Apply(t.Context(), load.Sweep{})
		require.ErrorIs(t, err, load.ErrForeignChange, "an Accept that was refused changes nothing")
		require.NoError(t, x.Rollback())
	}
}
