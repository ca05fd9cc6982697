package runlist

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
)

// Table collects rows of several destinations, or of several sources in one destination.
type Table struct {
	columns []arrow.Field
	parts   []part
}

type part struct {
	destination, source string
	rows                [][]any
}

// Add adds rows that were read from d. If several sources share the tables of d, the first column may name the source.
func (t *Table) Add(d *open.Reader, a render.Answer) {
	p := part{destination: d.Name, rows: a.Rows}
	if d.Source != "" {
		p.source = d.Source
	}
	if t.columns == nil || len(a.Columns) > len(t.columns) {
		t.columns = a.Columns
	}
	t.parts = append(t.parts, p)
}

// Empty reports whether nothing was added.
func (t *Table) Empty() bool { return len(t.parts) == 0 }

// Answer returns all rows. If the rows come from several destinations or sources, additional columns name these.
func (t *Table) Answer() render.Answer {
	out := render.Answer{Columns: t.columns}
	if len(t.parts) == 1 {
		out.Rows = t.parts[0].rows
		return out
	}
	first := func(p part) bool { return p.destination != t.parts[0].destination }
	destinations := slices.ContainsFunc(t.parts, first)
	sources := slices.ContainsFunc(t.parts, func(p part) bool { return p.source != "" })
	own := len(t.columns) > 0 && t.columns[0].Name == "source"
	var front []string
	if destinations {
		front = append(front, "destination")
	}
	if sources && !own {
		front = append(front, "source")
	}
	out.Columns = append(fields(front...), t.columns...)
	for _, p := range t.parts {
		for _, row := range p.rows {
			if own && len(row) < len(t.columns) {
				row = append([]any{text(p.source)}, row...)
			}
			cells := []any{}
			if destinations {
				cells = append(cells, p.destination)
			}
			if sources && !own {
				cells = append(cells, text(p.source))
			}
			out.Rows = append(out.Rows, append(cells, row...))
		}
	}
	return out
}
