package render

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Dictionary describes what a destination contains. `docs --json` prints it.
type Dictionary struct {
	Destination string       `json:"destination"`
	Kind        string       `json:"kind"`
	Schema      string       `json:"schema,omitempty"`
	At          time.Time    `json:"at"`
	Groups      []TableGroup `json:"groups"`
	Views       []ViewDoc    `json:"views,omitempty"`

	CertificateFiles string `json:"-"` // pattern for the files of all certificates, if there are any
}

// TableGroup is the tables of one documented group of endpoints.
type TableGroup struct {
	Name   string     `json:"name"`
	Tables []TableDoc `json:"tables"`
}

// TableDoc is a table.
type TableDoc struct {
	Name    string      `json:"name"`
	Stream  string      `json:"stream,omitempty"`
	Request string      `json:"request,omitempty"` // METHOD path of the endpoint
	Class   string      `json:"class,omitempty"`
	Place   string      `json:"place,omitempty"` // the member of a record that fills a child table
	Parent  string      `json:"parent,omitempty"`
	Mode    string      `json:"mode"`
	Key     []string    `json:"key,omitempty"`
	Rows    int64       `json:"rows"`
	Current int64       `json:"standing"` // number of rows that are neither deleted nor earlier versions
	Run     string      `json:"run,omitempty"`
	ReadAt  time.Time   `json:"read_at,omitzero"` // when the stream was last read to its end
	Verdict string      `json:"verdict,omitempty"`
	Files   string      `json:"files,omitempty"` // pattern for the table's files, if it has any
	Columns []ColumnDoc `json:"columns"`

	Of       config.Stream `json:"-"` // the stream that fills the table; zero if the configuration does not have it
	Selected bool          `json:"-"` // a pipeline loads the stream into this destination
	Shared   bool          `json:"-"` // several sources share the table
}

// ColumnDoc is a column of a table.
type ColumnDoc struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Source      string `json:"source,omitempty"`
	Meaning     string `json:"meaning"`
	Description string `json:"description,omitempty"` // what the configuration or the catalogue says
	Mask        string `json:"mask,omitempty"`        // how the values are masked before they are stored
	Key         bool   `json:"key,omitempty"`
}

// ViewDoc is a view that penstock has created.
type ViewDoc struct {
	Name  string `json:"name"`
	Title string `json:"title,omitempty"`
}

// Add puts a table into its group. Groups are in the order of their first tables.
func (d *Dictionary) Add(group string, t TableDoc) {
	i := slices.IndexFunc(d.Groups, func(g TableGroup) bool { return g.Name == group })
	if i < 0 {
		i = len(d.Groups)
		d.Groups = append(d.Groups, TableGroup{Name: group})
	}
	d.Groups[i].Tables = append(d.Groups[i].Tables, t)
}

// DescribeTable describes a table. If the parameter known is true, the parameter s is the stream that fills the table.
func DescribeTable(t schemas.Table, s config.Stream, known bool) TableDoc {
	doc := TableDoc{Name: t.Name, Mode: string(t.Mode), Key: load.FullKey(t), Place: load.SourcePointer(t.Columns), Shared: load.Shared(t.Columns)}
	if known {
		doc.Of, doc.Stream, doc.Request, doc.Class = s, s.Name, s.Method+" "+s.Origin+s.Path, string(s.Class)
		if i := strings.LastIndex(t.Name, "__"); t.Name != s.Table.Name && i > 0 {
			doc.Parent = t.Name[:i]
		}
	}
	prefix := strings.TrimPrefix(strings.TrimPrefix(t.Name, s.Table.Name), "__") // of paths in a child table
	if prefix != "" {
		prefix += "__"
	}
	for _, f := range t.Columns.Fields() {
		doc.Columns = append(doc.Columns, ColumnDoc{
			Name: f.Name, Type: schemas.TypeName(schemas.TypeOf(f)), Source: schemas.Source(f),
			Meaning: Meaning(f), Description: s.Descriptions[prefix+f.Name], Mask: maskOf(s, t, f), Key: slices.Contains(doc.Key, f.Name),
		})
	}
	return doc
}

// ViewDocs returns the views that penstock has created, with their titles.
func ViewDocs(changes []load.Change) ([]ViewDoc, error) {
	kit, err := schemas.LoadViews()
	if err != nil {
		return nil, err
	}
	titles := map[string]string{}
	for _, v := range kit {
		titles[v.Name] = v.Title
	}
	var out []ViewDoc
	for _, c := range changes {
		if c.Action != load.ActionView || slices.ContainsFunc(out, func(v ViewDoc) bool { return v.Name == c.Table }) {
			continue
		}
		title := titles[c.Table]
		if of, ok := strings.CutSuffix(c.Table, "_current"); ok && title == "" {
			title = "the rows of " + of + " that are current"
		}
		out = append(out, ViewDoc{Name: c.Table, Title: title})
	}
	slices.SortFunc(out, func(a, b ViewDoc) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}
