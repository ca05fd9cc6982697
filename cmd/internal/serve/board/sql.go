package board

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/browse"
	"github.com/penstock-data/penstock/cmd/internal/knowledge"
	"github.com/penstock-data/penstock/cmd/internal/open"
)

// sqlPath is the path of the SQL editor.
const sqlPath = "/data/{destination}/query"

// resultBytes limits the rows of a result on a page. // Invariant 6
const resultBytes = 1 << 20

type sqlView struct {
	dataView
	SQL    string
	Schema string // the dialect and the names for completion, as JSON
	Saved  []browse.Saved
	Done   bool
	Result browse.Result
	Limit  int
	Chart  *chart
}

func (v sqlView) title() string { return "SQL" }

func (p *dataPages) sql(r *http.Request) (any, error) {
	v, err := p.editor(r)
	if err != nil {
		return nil, err
	}
	v.SQL = r.URL.Query().Get("sql")
	for _, s := range v.Saved {
		if s.Name == r.URL.Query().Get("saved") {
			v.SQL = s.SQL
		}
	}
	p.read(r.Context(), &v.dataView, func(ctx context.Context, d *open.Reader) (err error) {
		v.Schema, err = schemaOf(ctx, d)
		return err
	})
	return v, nil
}

// editor returns the page of the editor without a result and without names for completion.
func (p *dataPages) editor(r *http.Request) (v sqlView, err error) {
	v.Limit = browse.DefaultRows
	if v.dataView, err = p.common(r); err != nil {
		return v, err
	}
	if v.Saved, err = p.data.SavedQueries(); err != nil {
		return v, err
	}
	return v, nil
}

// schemaOf returns the dialect and the names for completion in the editor, as JSON.
func schemaOf(ctx context.Context, d *open.Reader) (string, error) {
	tables, err := knowledge.Tables(ctx, d)
	if err != nil {
		return "", err
	}
	names := map[string][]string{}
	for _, t := range tables {
		for _, c := range t.Doc.Columns {
			names[t.Name] = append(names[t.Name], c.Name)
		}
	}
	dialect := browse.Dialect(d.Config)
	if dialect == "PostgreSQL" {
		dialect = "Postgres" // its name in the editor's script
	}
	text, err := json.Marshal(map[string]any{"dialect": dialect, "tables": names})
	return string(text), err
}

// runSQL runs the statement of the form, and shows or exports its result. The method is POST, so that no link can run a
// statement, and no address has one. The destination is opened once for the statement and the names for completion, so
// that one time limit applies to both. Without these names, the page still shows the result.
func (p *dataPages) runSQL(w http.ResponseWriter, r *http.Request) {
	v, err := p.editor(r)
	if err != nil {
		p.board.fail(w, r, err)
		return
	}
	v.SQL = strings.TrimSpace(r.PostFormValue("sql"))
	v.Limit = limitOf(r.PostFormValue("limit"))
	who := visitorOf(r)
	if err := p.board.Access.Rows(who); err != nil {
		p.board.audit(r, who, "query", v.Destination, err)
		p.board.problem(w, r, http.StatusForbidden, err.Error())
		return
	}
	format := r.PostFormValue("format")
	formatOf, export := browse.Formats()[format]
	var file []byte
	p.read(r.Context(), &v.dataView, func(ctx context.Context, d *open.Reader) (err error) {
		if export {
			file, err = p.data.Export(ctx, d, v.SQL, formatOf)
			return err
		}
		v.Result, err = p.data.Query(ctx, d, v.SQL, browse.Limits{Rows: v.Limit, Bytes: resultBytes})
		v.Schema, _ = schemaOf(ctx, d)
		return err
	})
	p.board.audit(r, who, "query", v.Destination+": "+v.SQL, faultOf(v.Fault))
	if export && v.Fault == "" {
		w.Header().Set("Content-Type", map[string]string{"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}[format])
		w.Header().Set("Content-Disposition", `attachment; filename="query.`+format+`"`)
		_, _ = w.Write(file)
		return
	}
	if v.Done = v.Fault == ""; v.Done {
		v.Chart = chartOf(v.Result)
	}
	p.board.render(w, http.StatusOK, "sql", page{Title: v.title(), Nav: "/data", Data: v, Open: true, Signed: !p.board.Access.Open(), Here: local(r.URL.RequestURI()),
		Mark: p.board.sessions.mark(w, r), Version: p.board.Version})
}

// limitOf returns the number of rows that a form asks for.
func limitOf(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > browse.MaxRows {
		return browse.DefaultRows
	}
	return n
}

// charted limits the rows of a chart.
const charted = 100

// chartOf returns a chart of a result: its second column, or the first later one with numbers, by the first column. If
// the first column has times, the chart has a line, and otherwise bars. It returns nil if the result has no such column.
func chartOf(r browse.Result) *chart {
	if len(r.Rows) < 2 || len(r.Rows) > charted {
		return nil
	}
	at := slices.IndexFunc(r.Columns, browse.Column.Numeric)
	if at == 0 {
		at = 1 + slices.IndexFunc(r.Columns[1:], browse.Column.Numeric)
	}
	if at <= 0 {
		return nil
	}
	values, most := valuesOf(r.Rows, at)
	if most == 0 {
		return nil
	}
	by := r.Columns[0]
	c := &chart{Width: chartWidth, Height: chartHeight, Title: r.Columns[at].Name + " by " + by.Name, Top: strconv.FormatFloat(most, 'g', 6, 64)}
	c.Desc = fmt.Sprintf("%s by %s, from %s to %s; at most %s", r.Columns[at].Name, by.Name, brief(browse.Text(r.Rows[0][0]), 40), brief(browse.Text(r.Rows[len(r.Rows)-1][0]), 40), c.Top)
	var d strings.Builder
	step := chartWidth / float64(len(values))
	line := by.Type == "timestamp" || by.Type == "date"
	for i, v := range values {
		x, h := step*(float64(i)+.5), (chartHeight-4)*v/most
		switch {
		case math.IsNaN(v): // a gap
		case line && (i == 0 || math.IsNaN(values[i-1])):
			fmt.Fprintf(&d, "M%.1f %.1f", x, chartHeight-h)
		case line:
			fmt.Fprintf(&d, "L%.1f %.1f", x, chartHeight-h)
		default:
			fmt.Fprintf(&d, "M%.1f %dh%.1fv%.1fh%.1fZ", x-step*.4, chartHeight, step*.8, -h, -step*.8)
		}
	}
	class := "bars"
	if line {
		class = "line"
	}
	c.Paths = []shape{{class, d.String()}}
	return c
}

// valuesOf returns the numbers of a column and the largest of them. A null is not a number (NaN). If the charts cannot
// show a number, the largest is 0: they have no scale below zero.
func valuesOf(rows [][]any, at int) (values []float64, most float64) {
	for _, row := range rows {
		f, err := strconv.ParseFloat(browse.Text(row[at]), 64)
		switch {
		case row[at] == nil:
			f = math.NaN()
		case err != nil || f < 0 || math.IsInf(f, 0) || math.IsNaN(f):
			return nil, 0
		default:
			most = max(most, f)
		}
		values = append(values, f)
	}
	return values, most
}
