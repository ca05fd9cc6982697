package assistant

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/browse"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/knowledge"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// ListInput are the arguments of the tool list_tables.
type ListInput struct {
	Search      string `json:"search,omitempty" jsonschema:"only tables whose name or description contains this text"`
	Destination string `json:"destination,omitempty" jsonschema:"name of the destination, if there are several"`
}

// ListOutput is the result of the tool list_tables.
type ListOutput struct {
	Destination string         `json:"destination"`
	Dialect     string         `json:"dialect" jsonschema:"SQL dialect of the tool query"`
	Tables      []TableSummary `json:"tables"`
	Views       []View         `json:"views,omitempty"`
	Cut         string         `json:"cut,omitempty" jsonschema:"how many tables were left out"`
}

// TableSummary is a table in the list of tables.
type TableSummary struct {
	About    string   `json:"about"`
	Children []string `json:"children,omitempty" jsonschema:"tables with the lists inside the records of this table"`
	browse.Proof
}

// View is a view that penstock has created.
type View struct {
	Name  string `json:"name"`
	About string `json:"about,omitempty"`
}

// listTables is the tool list_tables.
func (a *Assistant) listTables(ctx context.Context, in ListInput) (out ListOutput, err error) {
	err = a.Browser.Read(ctx, in.Destination, func(d *open.Reader) error {
		tables, err := knowledge.Tables(ctx, d)
		if err != nil {
			return err
		}
		proofs, err := a.Browser.Proofs(ctx, d)
		if err != nil {
			return err
		}
		out.Destination, out.Dialect = d.Name, browse.Dialect(d.Config)
		all := []TableSummary{}
		for _, t := range tables {
			s := TableSummary{about(t), children(tables, t), proofs.Of(t)}
			searched := in.Search != "" && contains(t.Name+" "+s.About, in.Search)
			if searched || in.Search == "" && t.Doc.Parent == "" {
				all = append(all, s)
			}
		}
		out.Tables, out.Cut = cut(all, maxItems, "set search")
		out.Views, err = views(ctx, d, in.Search)
		return err
	})
	return out, err
}

func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// views returns penstock's views, without the views of current rows: every table of mode merge or history has one.
func views(ctx context.Context, d *open.Reader, search string) (all []View, err error) {
	done, err := history.Changes(ctx, d)
	if err != nil {
		return nil, err
	}
	docs, err := render.ViewDocs(done)
	for _, v := range docs {
		if !strings.HasSuffix(v.Name, "_current") && contains(v.Name+" "+v.Title, search) {
			all = append(all, View{v.Name, v.Title})
		}
	}
	return all, err
}

// about describes a table in a few words.
func about(t knowledge.Table) string {
	if text := load.TableDescription(t.Columns); text != "" {
		return text
	}
	text := strings.TrimPrefix(t.Stream.Group+": "+t.Doc.Request, ": ")
	switch {
	case !t.Known:
		return "no stream of the configuration fills this table"
	case t.Doc.Parent != "":
		return fmt.Sprintf("the list %s in the records of %s", t.Doc.Place, t.Doc.Parent)
	}
	return text
}

// children returns the child tables of a table, and their child tables.
func children(tables []knowledge.Table, t knowledge.Table) (names []string) {
	for _, c := range tables {
		if strings.HasPrefix(c.Name, t.Name+"__") {
			names = append(names, c.Name)
		}
	}
	return names
}

// DescribeInput are the arguments of the tool describe_table.
type DescribeInput struct {
	Table       string `json:"table" jsonschema:"name of the table"`
	Destination string `json:"destination,omitempty" jsonschema:"name of the destination, if there are several"`
}

// DescribeOutput is the result of the tool describe_table.
type DescribeOutput struct {
	TableSummary
	Dialect string              `json:"dialect" jsonschema:"SQL dialect of the tool query"`
	Request string              `json:"request,omitempty" jsonschema:"the endpoint of the source"`
	Mode    string              `json:"mode"`
	Rows    string              `json:"rows" jsonschema:"what a row of the table is"`
	Key     []string            `json:"key,omitempty"`
	Parent  string              `json:"parent,omitempty" jsonschema:"the table whose key is in _penstock_parent"`
	Columns []ColumnDescription `json:"columns"`
}

// ColumnDescription describes a column of a table.
type ColumnDescription struct {
	browse.Column
	About string `json:"about,omitempty"`
	Mask  string `json:"mask,omitempty" jsonschema:"how the values were masked before they were stored"`
}

// describeTable is the tool describe_table.
func (a *Assistant) describeTable(ctx context.Context, in DescribeInput) (out DescribeOutput, err error) {
	err = a.Browser.Read(ctx, in.Destination, func(d *open.Reader) error {
		tables, err := knowledge.Tables(ctx, d)
		if err != nil {
			return err
		}
		for _, t := range tables {
			if !strings.EqualFold(t.Name, in.Table) {
				continue
			}
			proofs, err := a.Browser.Proofs(ctx, d)
			out = DescribeOutput{
				TableSummary: TableSummary{about(t), children(tables, t), proofs.Of(t)},
				Dialect:      browse.Dialect(d.Config), Request: t.Doc.Request, Mode: string(t.Mode), Rows: browse.RowsOf(t),
				Key: t.Doc.Key, Parent: t.Doc.Parent, Columns: columns(t),
			}
			return err
		}
		return failure.Hinted(fmt.Errorf("no table %q in destination %s", in.Table, d.Name),
			"list_tables lists the tables; to see the columns of a view, query it with LIMIT 1")
	})
	return out, err
}

func columns(t knowledge.Table) []ColumnDescription {
	all := make([]ColumnDescription, len(t.Doc.Columns))
	for i, c := range t.Doc.Columns {
		all[i] = ColumnDescription{browse.Column{Name: c.Name, Type: c.Type}, cmp.Or(schemas.DescriptionOf(t.Columns.Field(i)), c.Meaning), c.Mask}
	}
	return all
}
