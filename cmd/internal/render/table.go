package render

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

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

// maxCell is the largest number of characters of a cell, and of columns of a cell on a terminal. Longer texts are cut.
const maxCell = 72

// Render writes the table without borders, so that it is easy to copy. On a narrow terminal, long texts are cut. If
// that is not enough, the last columns are left out, and a line names them.
func (g *Table) Render(w io.Writer) {
	limit, _ := columns(w)
	g.render(w, limit)
}

// render writes the table for a terminal of this width. The width 0 means that w is not a terminal.
func (g *Table) render(w io.Writer, limit int) {
	rows := g.printable()
	widths := g.widths(rows)
	if limit > 0 {
		widths = g.fit(widths, limit)
	}
	t := table.NewWriter()
	style := table.StyleLight
	style.Format.Header = text.FormatDefault
	style.Options = table.Options{SeparateColumns: false, SeparateHeader: true}
	style.Box.PaddingLeft = ""
	style.Box.PaddingRight = "  "
	t.SetStyle(style)
	configs := make([]table.ColumnConfig, len(widths))
	for i := range widths {
		configs[i] = table.ColumnConfig{Number: i + 1}
		if g.right[i] {
			configs[i].Align, configs[i].AlignHeader = text.AlignRight, text.AlignRight
		}
	}
	t.AppendHeader(cells(rows[0], widths))
	t.SetColumnConfigs(configs)
	for _, r := range rows[1:] {
		row := cells(r, widths)
		for i := range row {
			if slices.Contains(g.toned, g.header[i]) {
				row[i] = Tone(w, row[i].(string))
			}
		}
		t.AppendRow(row)
	}
	for line := range strings.Lines(t.Render()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
	if left := rows[0][len(widths):]; len(left) > 0 {
		fmt.Fprintf(w, "the terminal is too narrow for %s: %s\n", Plural(len(left), "column"), strings.Join(left, ", "))
	}
}

// printable returns the header and the rows without control characters. Each cell has at most maxCell characters.
func (g *Table) printable() [][]string {
	all := make([][]string, 0, 1+len(g.rows))
	for _, r := range append([][]string{g.header}, g.rows...) {
		row := make([]string, len(r))
		for i, c := range r {
			row[i] = Printable(c, false)
			if utf8.RuneCountInString(row[i]) > maxCell {
				row[i] = string([]rune(row[i])[:maxCell-1]) + "…"
			}
		}
		all = append(all, row)
	}
	return all
}

// widths returns the width of each column. The table library measures a text as the sum of its characters, so widths
// does the same. Otherwise text.Snip would cut texts that fit.
func (g *Table) widths(rows [][]string) []int {
	widths := make([]int, len(g.header))
	for _, r := range rows {
		for i, c := range r {
			if i < len(widths) {
				widths[i] = max(widths[i], text.StringWidthWithoutEscSequences(c))
			}
		}
	}
	return widths
}

// gap is the number of spaces after a column.
const gap = 2

// On a narrow terminal, columns of text may be cut to these widths. The first column usually has names, so it keeps more.
const (
	leastCell  = 20
	leastFirst = 40
)

// fit cuts the widest columns of text until all columns fit into the limit. The first column is cut after the others.
// If the columns still do not fit, the result lacks the last columns. The first column always stays.
func (g *Table) fit(widths []int, limit int) []int {
	widths = slices.Clone(widths)
	excess := -limit
	for i := range widths {
		widths[i] = min(widths[i], maxCell)
		excess += widths[i] + gap
	}
	for excess > 0 {
		widest := -1
		for i := 1; i < len(widths); i++ {
			if !g.right[i] && widths[i] > leastCell && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		excess--
	}
	if cut := min(excess, widths[0]-leastFirst); cut > 0 && !g.right[0] {
		widths[0] -= cut
		excess -= cut
	}
	for ; excess > 0 && len(widths) > 1; widths = widths[:len(widths)-1] {
		excess -= widths[len(widths)-1] + gap
	}
	return widths
}

// cells returns the cells of a row, cut to the widths of the columns.
func cells(row []string, widths []int) table.Row {
	all := make(table.Row, min(len(row), len(widths)))
	for i := range all {
		all[i] = text.Snip(row[i], widths[i], "…")
	}
	return all
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
