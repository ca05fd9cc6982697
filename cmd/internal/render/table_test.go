package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// On a narrow terminal, a table first cuts its long texts, and then leaves out its last columns. Short names in the first
// column and numbers are never cut.
func TestTableFits(t *testing.T) {
	t.Parallel()
	g := NewTable("stream", "verdict", "#fetched", "why", "#took")
	g.Add("accounting.customer_payments", "proven", 1234567, strings.Repeat("long ", 20), "12s")
	whole := g.widths(g.printable())
	require.Equal(t, []int{28, 7, 9, maxCell, 4}, whole)
	for limit, want := range map[int][]int{
		200: whole,
		100: {28, 7, 9, 42, 4},
		78:  {28, 7, 9, 20, 4},
		70:  {28, 7, 9},
		60:  {28, 7, 9},
		30:  {28},
		5:   {28},
	} {
		require.Equal(t, want, g.fit(whole, limit), limit)
	}
	var out bytes.Buffer
	g.Render(&out)
	head, _, _ := strings.Cut(out.String(), "\n")
	require.Equal(t, []string{"stream", "verdict", "fetched", "why", "took"}, strings.Fields(head))
	require.Contains(t, out.String(), "…   12s\n")
}

// A text that fits is never cut, whatever the script is. Combined characters have fewer cells than characters.
func TestTableKeepsTexts(t *testing.T) {
	t.Parallel()
	texts := []string{"राजेश शर्मा", "น้ำ", "น้ำดื่ม", "👍🏽", "生命", strings.Repeat("生", maxCell)}
	for _, text := range texts {
		g := NewTable("a", "b")
		g.Add(1, text)
		g.Add(2, "x")
		var out bytes.Buffer
		g.Render(&out)
		require.Contains(t, out.String(), text+"\n")
		if text != texts[len(texts)-1] {
			out.Reset()
			g.render(&out, 80)
			require.Contains(t, out.String(), text+"\n", "on a terminal")
		}
	}
	g := NewTable("a")
	g.Add(strings.Repeat("生", maxCell+1))
	var out bytes.Buffer
	g.Render(&out)
	require.Contains(t, out.String(), "\n"+strings.Repeat("生", maxCell-1)+"…\n", "in a pipe, the limit counts characters")
	out.Reset()
	g.render(&out, 200)
	require.Contains(t, out.String(), "\n"+strings.Repeat("生", (maxCell-1)/2)+"…\n", "on a terminal, the limit is a width")
}

// The line about columns that are left out has no control characters from their names.
func TestTableNamesLeftOut(t *testing.T) {
	t.Parallel()
	g := NewTable("id", "\x1b[2Jname", "#count")
	g.Add("a", strings.Repeat("x", 20), 1)
	var out bytes.Buffer
	g.render(&out, 10)
	require.Contains(t, out.String(), `the terminal is too narrow for 2 columns: \x1b[2Jname, count`+"\n")
	require.NotContains(t, out.String(), "\x1b")
}

// A long text in the first column is cut before other columns are left out.
func TestTableCutsFirstColumn(t *testing.T) {
	t.Parallel()
	for header, want := range map[string][]int{"text": {50, 20}, "#number": {maxCell}} {
		g := NewTable(header, "b")
		require.Equal(t, want, g.fit([]int{100, 30}, 74), header)
	}
	g := NewTable("text", "b", "c")
	require.Equal(t, []int{40, 20}, g.fit([]int{100, 30, 30}, 65))
}
