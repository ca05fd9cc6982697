package loadtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

func testViews(t *testing.T, d Driver) {
	if !d.Views {
		t.Skip("the destination has no views")
	}
	b := newFixture(t, d)
	wide := root("people", []string{"id"}, column("id", schemas.Text), column("name", schemas.Text), column("age", schemas.Int64))
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann"), person(b.pass.Run, 1, "2", "bob")}})
	b.run(2)
	b.commit(sweep("people"), put{wide, []Row{with(b.pass.Run, 0, "h", Row{"id": "x", "name": "eve", "age": "7"}), person(b.pass.Run, 1, "2", "bob")}})
	b.reopen()
	require.ElementsMatch(t, []Row{{"id": "2", "name": "bob"}, {"id": "x", "name": "eve", "age": "7"}}, b.rows("people_current"))
	views := slices.DeleteFunc(b.driver.Rows(t, b.dest, load.Changes.Name), func(r Row) bool { return r["action"] != load.ActionView })
	require.NotEmpty(t, views)
	require.Equal(t, "people_current", views[0]["table"])
	tables, err := b.dest.Tables(t.Context(), "people")
	require.NoError(t, err)
	require.Len(t, tables, 1, "a view is not a table")

	for _, f := range []struct {
		name string
		mode schemas.Mode
		key  []string
	}{
		{strings.Repeat("x", schemas.MaxName-4), schemas.Merge, []string{"id"}}, // with the suffix of a view, the name would be too long
		{"every", schemas.Append, []string{"id"}}, {"latest", schemas.Replace, []string{"id"}}, {"none", schemas.Merge, nil},
	} {
		table := root(f.name, f.key, column("id", schemas.Int64))
		table.Mode = f.mode
		b.commit(load.Sweep{}, put{table, []Row{with(b.pass.Run, 0, "h", Row{"id": "1"})}})
		require.Len(t, b.rows(f.name), 1)
		require.Empty(t, b.rows(f.name+"_current"))
	}
}
