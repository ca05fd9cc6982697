package board

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/browse"
	"github.com/penstock-data/penstock/cmd/internal/open"
)

// Limits of a page about data. // Invariant 6
const (
	dataTime   = 30 * time.Second // time of all statements of a page; an answer may take a minute
	tableRows  = 50               // first rows of a table on its page
	maxFilters = 3
)

// Paths of the pages about data. They escape names.
func dataPath(destination string) string { return "/data/" + url.PathEscape(destination) }
func tablePath(destination, table string) string {
	return dataPath(destination) + "/tables/" + url.PathEscape(table)
}
func sqlPathOf(destination string) string { return dataPath(destination) + "/query" }

// dataView is what the pages about data have in common.
type dataView struct {
	Destination  string
	Destinations []string
	Fault, Hint  string // why the page has no data
	Absent       bool   // nothing was loaded yet
	NoRows       string // why the visitor sees no rows
}

// maxReads limits the pages that read data at the same time. Others wait. // Invariant 6
const maxReads = 4

// dataPages are the pages about data.
type dataPages struct {
	board *Board
	data  *browse.Browser // nil: there are no such pages
	reads chan struct{}   // has an element for each page that reads data
}

func newDataPages(b *Board) *dataPages {
	return &dataPages{board: b, data: b.Data, reads: make(chan struct{}, maxReads)}
}

// The method common() returns the common part of a page about data. The destination is the one in the path, or else the first one.
func (p *dataPages) common(r *http.Request) (v dataView, err error) {
	if p.data == nil {
		return v, ErrUnknown
	}
	if v.Destinations, err = p.data.Destinations(); err != nil {
		return v, err
	}
	if len(v.Destinations) == 0 {
		return v, nil
	}
	v.Destination = cmp.Or(r.PathValue("destination"), v.Destinations[0])
	if !slices.Contains(v.Destinations, v.Destination) {
		return v, ErrUnknown
	}
	if err := p.board.Access.Rows(visitorOf(r)); err != nil {
		v.NoRows = err.Error()
	}
	return v, nil
}

// read opens the destination of a page. The page shows an error as text, because the rest of the dashboard works.
func (p *dataPages) read(ctx context.Context, v *dataView, use func(context.Context, *open.Reader) error) {
	ctx, cancel := context.WithTimeout(ctx, dataTime)
	defer cancel()
	select {
	case p.reads <- struct{}{}:
		defer func() { <-p.reads }()
	case <-ctx.Done():
		// Cause: several pages of the dashboard read data at the same time
		v.Fault, v.Hint = "other pages are reading data", "try again later"
		return
	}
	err := p.data.Read(ctx, v.Destination, func(d *open.Reader) error { return use(ctx, d) })
	if err == nil {
		return
	}
	v.Absent = open.IsAbsent(err)
	v.Fault, v.Hint = p.data.Explain(ctx, err)
}

type tablesView struct {
	dataView
	browse.Listing
}

func (p *dataPages) tables(r *http.Request) (any, error) {
	common, err := p.common(r)
	v := tablesView{dataView: common}
	if err != nil || v.dataView.Destination == "" {
		return v, err
	}
	p.read(r.Context(), &v.dataView, func(ctx context.Context, d *open.Reader) (err error) {
		v.Listing, err = p.data.Tables(ctx, d)
		return err
	})
	return v, nil
}

type tableView struct {
	dataView
	Table     browse.Table
	Filters   []browse.Filter // the filters of the request, and an empty one
	Operators []browse.Operator
	Filtered  bool
}

func (v tableView) title() string { return v.Table.Proof.Table }

func (p *dataPages) table(r *http.Request) (any, error) {
	common, err := p.common(r)
	v := tableView{dataView: common, Operators: browse.Operators()}
	if err != nil {
		return nil, err
	}
	in := browse.TableInput{Table: r.PathValue("table"), Filters: filtersOf(r)}
	if v.NoRows == "" {
		in.Rows = tableRows
	}
	v.Table.Proof.Table = in.Table
	v.Filtered = len(in.Filters) > 0
	v.Filters = in.Filters
	if len(v.Filters) < maxFilters {
		v.Filters = append(slices.Clone(v.Filters), browse.Filter{})
	}
	p.read(r.Context(), &v.dataView, func(ctx context.Context, d *open.Reader) error {
		t, err := p.data.Table(ctx, d, in)
		if t.Proof.Table != "" {
			v.Table = t
		}
		return err
	})
	if v.NoRows == "" {
		p.board.audit(r, visitorOf(r), "read rows", in.Table+" in "+v.Destination+conditionOf(in.Filters), faultOf(v.Fault))
	}
	return v, nil
}

// filtersOf returns the filters of a request. A filter without a column is left out.
func filtersOf(r *http.Request) (all []browse.Filter) {
	q := r.URL.Query()
	columns, operators, values := q["column"], q["op"], q["value"]
	for i, column := range columns[:min(len(columns), maxFilters)] {
		if column != "" && i < len(operators) && i < len(values) {
			all = append(all, browse.Filter{Column: column, Operator: operators[i], Value: values[i]})
		}
	}
	return all
}

// conditionOf returns filters as text for the audit log.
func conditionOf(filters []browse.Filter) string {
	text, join := "", " where "
	for _, f := range filters {
		text += fmt.Sprintf("%s%s %s %q", join, f.Column, f.Operator, f.Value)
		join = " and "
	}
	return text
}

// faultOf returns the error that a page shows, or nil.
func faultOf(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

// selectOf returns a statement to begin with in the SQL editor.
func selectOf(t browse.Table) string { return browse.Select(t.Dialect, t.Proof.Table) }
