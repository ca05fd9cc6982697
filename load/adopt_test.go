package load

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func named(_ arrow.Field, sql string) (arrow.DataType, bool) {
	t, err := schemas.ParseTypeName(sql)
	return t, err == nil
}

func TestAdopt(t *testing.T) {
	live := map[string]string{"id": "text", "theirs": "text", "odd": "point"}
	want := schemas.Table{Name: "leads__notes", Key: []string{"id"}, Columns: newSchema([]arrow.Field{
		schemas.Field("id", schemas.Int64, "/id"), schemas.Field("odd", schemas.Text, "/odd"), schemas.Field("new", schemas.Text, "/new"),
	}, "/notes", "what was said")}
	_, ok := Adopt(want, schemas.Merge, live, named)
	require.False(t, ok, "a table without bookkeeping columns is not adopted")
	for _, c := range []string{schemas.ColSyncedAt, schemas.ColRun, schemas.ColHash, schemas.ColDeletedAt, schemas.ColVia} {
		live[c] = "text"
	}
	p, ok := Adopt(want, schemas.Merge, live, named)
	require.True(t, ok)
	require.Equal(t, schemas.Merge, p.Table.Mode)
	require.Equal(t, []string{"id"}, Names(p.Table.Columns), "a column is left out if it does not exist, or if its type is unknown to penstock")
	require.Equal(t, "text", schemas.TypeName(TypeOf(p.Table.Columns, "id")), "the column keeps the type that it has in the database")
	require.Equal(t, "/notes", SourcePointer(p.Table.Columns))
	require.Equal(t, "what was said", TableDescription(p.Table.Columns))

	live[schemas.ColValidFrom], live[schemas.ColValidTo] = "timestamp", "timestamp"
	p, ok = Adopt(want, schemas.Merge, live, named)
	require.True(t, ok)
	require.Equal(t, schemas.History, p.Table.Mode, "a table with versions gets mode History, whatever mode was requested")
	require.Equal(t, []string{"id", schemas.ColValidFrom, schemas.ColValidTo}, Names(p.Table.Columns))
	_, err := Fit(p.Table, want)
	require.ErrorContains(t, err, "cannot change to mode merge")

	want.Name = Runs.Name
	_, ok = Adopt(want, schemas.Merge, live, named)
	require.False(t, ok, "penstock's own tables are not adopted")
}

func TestAccept(t *testing.T) {
	table := schemas.Table{Name: "leads", Key: []string{"id"}, Columns: arrow.NewSchema([]arrow.Field{
		schemas.Field("id", schemas.Int64, "/id"), schemas.Field("a", schemas.Int64, "/a"), schemas.Field("b", schemas.Text, "/b"),
	}, nil)}
	made := map[string]string{"id": "int", "a": "int", "b": "text"}
	changes, err := Accept(table, made, made, named)
	require.NoError(t, err)
	require.Empty(t, changes)
	changes, err = Accept(table, made, map[string]string{"id": "int", "a": "text", "theirs": "point"}, named)
	require.NoError(t, err)
	require.Equal(t, []string{"a " + ActionRetype + " text", "b " + ActionForget + " "},
		[]string{changes[0].Column + " " + changes[0].Action + " " + changes[0].To, changes[1].Column + " " + changes[1].Action + " " + changes[1].To})
	_, err = Accept(table, made, map[string]string{"id": "int", "a": "point", "b": "text"}, named)
	require.ErrorContains(t, err, `column "a" is point, which penstock does not write`)
	_, err = Accept(table, made, map[string]string{"a": "int", "b": "text"}, named)
	require.ErrorContains(t, err, `column "id" is part of the key`)
}

func TestVacant(t *testing.T) {
	p := Plan{Table: schemas.Table{Name: "leads"}, Add: []arrow.Field{schemas.Field("a", schemas.Text, "/a"), schemas.Field("b", schemas.Text, "/b")}}
	require.NoError(t, CheckNewColumns(p, func(string) string { return "" }))
	err := CheckNewColumns(p, func(column string) string { return map[string]string{"b": "B"}[column] })
	require.ErrorIs(t, err, ErrForeignChange)
	require.ErrorContains(t, err, `column "B" was not made by penstock, and has the name that penstock needs for /b`)
	p.Create = true
	require.NoError(t, CheckNewColumns(p, func(column string) string { return column }))
}
