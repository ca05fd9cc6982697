package render

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Table is a table of text: a header and rows. Numbers are aligned to the right.
type Table struct {
	header []string
	right  []bool
	toned  []string // columns of states or verdicts
	rows   [][]string
}

// NewTable returns an empty table with this header. If a name begins with #, its column contains numbers.
func NewTable(header ...string) *Table {
	g := &Table{}
	for _, h := range header {
		name, number := strings.CutPrefix(h, "#")
		g.header, g.right = append(g.header, name), append(g.right, number)
	}
	return g
}

// Toned says which columns have states or verdicts. On a terminal, Render prints these in colors. It returns g.
func (g *Table) Toned(columns ...string) *Table {
	g.toned = columns
	return g
}

// Add adds a row.
func (g *Table) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = shown(c)
	}
	g.rows = append(g.rows, row)
}

// maxCell is the largest number of characters in a cell. Longer texts are cut.
const maxCell = 72

// Render writes the table without borders, so that it is easy to copy.
func (g *Table) Render(w io.Writer) {
	t := table.NewWriter()
	style := table.StyleLight
	style.Format.Header = text.FormatDefault
	style.Options = table.Options{SeparateColumns: false, SeparateHeader: true}
	style.Box.PaddingLeft = ""
	style.Box.PaddingRight = "  "
	t.SetStyle(style)
	head := make(table.Row, len(g.header))
	configs := make([]table.ColumnConfig, len(g.header))
	for i, h := range g.header {
		head[i] = cut(Printable(h, false))
		configs[i] = table.ColumnConfig{Number: i + 1}
		if g.right[i] {
			configs[i].Align, configs[i].AlignHeader = text.AlignRight, text.AlignRight
		}
	}
	if width, ok := columns(w); ok {
		t.Style().Size.WidthMax = width
	}
	t.AppendHeader(head)
	t.SetColumnConfigs(configs)
	for _, r := range g.rows {
		row := make(table.Row, len(r))
		for i, c := range r {
			row[i] = cut(Printable(c, false))
			if i < len(g.header) && slices.Contains(g.toned, g.header[i]) {
				row[i] = Tone(w, cut(Printable(c, false)))
			}
		}
		t.AppendRow(row)
	}
	for line := range strings.Lines(t.Render()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
}

func cut(s string) string {
	if r := []rune(s); len(r) > maxCell {
		return string(r[:maxCell-1]) + "…"
	}
	return s
}

// shown() formats v for a table: numbers in groups of three, times without fractions.
func shown(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case int:
		return Grouped(int64(v))
	case int64:
		return Grouped(v)
	case time.Time:
		if v.IsZero() {
			return ""
		}
		return v.Local().Format("2006-01-02 15:04:05")
	case time.Duration:
		return Brief(v)
	}
	return fmt.Sprint(v)
}
