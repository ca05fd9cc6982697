package loadtest

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

var lines = root("lines", nil, column("line", schemas.Text))

func linesOf(run string, texts ...string) []Row {
	var rows []Row
	for i, text := range texts {
		rows = append(rows, with(run, i, "h-"+text, Row{"line": text}))
	}
	return rows
}

func testKeyless(t *testing.T, d Driver) {
	b := newFixture(t, d)
	out := b.commit(sweep("lines"), put{lines, linesOf(b.pass.Run, "a", "b", "a", "c")})
	require.Equal(t, load.Outcome{Written: 4, Inserted: 4, Alive: 4, Known: true}, out)
	b.run(2)
	out = b.commit(sweep("lines"), put{lines, linesOf(b.pass.Run, "a", "b")}, put{lines, linesOf(b.pass.Run, "a", "c")})
	require.Equal(t, load.Outcome{Unchanged: 4, Alive: 4, Known: true}, out)
	b.run(3)
	x := b.begin()
	b.write(x, put{lines, linesOf(b.pass.Run, "c", "a", "c", "c", "d")})
	out, err := x.Apply(t.Context(), load.Sweep{Table: "lines"})
	require.NoError(t, err)
	require.Equal(t, load.Outcome{Written: 3, Inserted: 3, Unchanged: 2, Alive: 7, Missing: 2, Known: true}, out)
	out, err = x.Apply(t.Context(), sweep("lines"))
	require.NoError(t, err)
	require.Equal(t, load.Outcome{Alive: 7, Missing: 2, Known: true, Deleted: 2}, out)
	b.finish(x)
	require.ElementsMatch(t, []Row{{"line": "a"}, {"line": "c"}, {"line": "c"}, {"line": "c"}, {"line": "d"}}, b.rows("lines"))
	b.run(4)
	out = b.commit(sweep("lines"))
	require.Equal(t, load.Outcome{Alive: 5, Missing: 5, Known: true, Deleted: 5}, out)
	require.Empty(t, b.rows("lines"))
}

func testKeylessChildren(t *testing.T, d Driver) {
	b := newFixture(t, d)
	words := hanging("lines__words", schemas.Text, false, column("sku", schemas.Text))
	of := func(run string, texts ...string) []put {
		var rows []Row
		for i, text := range texts {
			rows = append(rows, itemsOf(run, i, "h-"+text, "h-"+text+"-"+string(rune('0'+i)), text+"1", text+"2")...)
		}
		return []put{{lines, linesOf(run, texts...)}, {words, rows}}
	}
	b.commit(sweep("lines"), of(b.pass.Run, "a", "b", "a", "c")...)
	require.Len(t, b.rows("lines__words"), 8)
	b.run(2)
	b.commit(sweep("lines"), of(b.pass.Run, "d", "a", "c")...)
	require.ElementsMatch(t, []Row{{"line": "a"}, {"line": "c"}, {"line": "d"}}, b.rows("lines"))
	require.ElementsMatch(t, []Row{
		{"sku": "a1"}, {"sku": "a2"}, {"sku": "c1"}, {"sku": "c2"}, {"sku": "d1"}, {"sku": "d2"},
	}, b.rows("lines__words"))
}

func wordsOf(run string, texts ...string) []put {
	words := hanging("lines__words", schemas.Text, false, column("sku", schemas.Text))
	var rows []Row
	for i, text := range texts {
		rows = append(rows, itemsOf(run, i, "h-"+text, "h-"+text+"-"+string(rune('0'+i)), text+"1", text+"2")...)
	}
	return []put{{lines, linesOf(run, texts...)}, {words, rows}}
}

func testKeylessTwins(t *testing.T, d Driver) {
	b := newFixture(t, d)
	b.commit(sweep("lines"), wordsOf(b.pass.Run, "b", "a")...)
	b.run(2)
	b.commit(sweep("lines"), wordsOf(b.pass.Run, "a", "a")...) // the second row has the ordinal that the first row had in the previous pass
	require.Len(t, b.rows("lines__words"), 4)
	b.run(3)
	b.commit(sweep("lines"), wordsOf(b.pass.Run, "a")...)
	require.Equal(t, []Row{{"line": "a"}}, b.rows("lines"))
	require.ElementsMatch(t, []Row{{"sku": "a1"}, {"sku": "a2"}}, b.rows("lines__words"))
}

func testKeylessInexact(t *testing.T, d Driver) {
	b := newFixture(t, d)
	line := func(t arrow.DataType) schemas.Table { return root("lines", nil, column("line", t)) }
	words := func() put { return wordsOf(b.pass.Run, "x")[1] }
	b.commit(sweep("lines"), put{line(decimal(16, 2)), []Row{with(b.pass.Run, 0, "h-x", Row{"line": "1.50"})}}, words())
	b.run(2)
	b.commit(sweep("lines"), put{line(schemas.Text), []Row{with(b.pass.Run, 0, "h-x", Row{"line": "1.5"}), with(b.pass.Run, 1, "h-y", Row{"line": "z"})}}, words())
	require.ElementsMatch(t, []Row{{"line": "1.5"}, {"line": "z"}}, b.rows("lines"))
	require.ElementsMatch(t, []Row{{"sku": "x1"}, {"sku": "x2"}}, b.rows("lines__words"))
}
