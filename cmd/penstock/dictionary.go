package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// dictionary describes what a destination contains. `docs --json` prints it.
type dictionary struct {
	Destination string     `json:"destination"`
	Kind        string     `json:"kind"`
	Schema      string     `json:"schema,omitempty"`
	At          time.Time  `json:"at"`
	Groups      []docGroup `json:"groups"`
	Views       []docView  `json:"views,omitempty"`
}

// docGroup is the tables of one documented group of endpoints.
type docGroup struct {
	Name   string     `json:"name"`
	Tables []docTable `json:"tables"`
}

// docTable is a table.
type docTable struct {
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
	Columns []docColumn `json:"columns"`

	certificates string // pattern for the files of the stream's certificates, if it has any
}

// docColumn is a column of a table.
type docColumn struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Source  string `json:"source,omitempty"`
	Meaning string `json:"meaning"`
	Mask    string `json:"mask,omitempty"` // how the values are masked before they are stored
	Key     bool   `json:"key,omitempty"`
}

// docView is a view that penstock has created.
type docView struct {
	Name  string `json:"name"`
	Title string `json:"title,omitempty"`
}

// dictionary collects what is loaded.
func (d *reader) dictionary(ctx context.Context) (dictionary, error) {
	out := dictionary{Destination: d.name, Kind: d.of.Scheme, Schema: d.of.Schema, At: time.Now().UTC().Truncate(time.Second)}
	changes, err := d.changes(ctx)
	if err != nil {
		return out, err
	}
	tables, err := d.tables(ctx)
	if err != nil {
		return out, err
	}
	newest, err := newestCertificates(ctx, d, []string{"verdict"})
	if err != nil {
		return out, err
	}
	streams := d.streams()
	for _, name := range sortedKeys(tables) {
		s, known := streamOf(streams, name)
		doc := tableDoc(tables[name], s, known)
		if doc.Rows, doc.Current, err = countRows(ctx, d, tables[name]); err != nil {
			return out, err
		}
		doc.read(newest)
		if known && d.kind.files != nil {
			doc.Files = d.kind.files(d.of, s.Name, name)
			doc.certificates = d.kind.files(d.of, s.Name, load.Certificates.Name)
		}
		out.add(cmp.Or(s.Group, "Other"), doc)
	}
	out.Views, err = viewDocs(changes)
	return out, err
}

// read sets the time, run and verdict of the last pass that read the table's stream to its end. The pass may be
// of any pipeline.
func (t *docTable) read(newest map[state.Key]certificate) {
	for k, c := range newest {
		at, _ := c.at.(time.Time)
		if k.Stream != t.Stream || !at.After(t.ReadAt) {
			continue
		}
		t.ReadAt = at
		t.Run, _ = c.run.(string)
		t.Verdict, _ = c.values[0].(string)
	}
}

// add puts a table into its group. Groups are in the order of their first tables.
func (d *dictionary) add(group string, t docTable) {
	i := slices.IndexFunc(d.Groups, func(g docGroup) bool { return g.Name == group })
	if i < 0 {
		i = len(d.Groups)
		d.Groups = append(d.Groups, docGroup{Name: group})
	}
	d.Groups[i].Tables = append(d.Groups[i].Tables, t)
}

// streams returns the streams of the pipelines that load into this destination, with the pipelines' settings.
// All streams of the configuration follow.
func (d *reader) streams() []config.Stream {
	var all []config.Stream
	for _, p := range d.conf.Pipelines {
		if !slices.ContainsFunc(p.To, func(to config.Ref) bool { return to.Text == d.name }) {
			continue
		}
		loaded, err := d.conf.Select(p, nil)
		if err != nil {
			continue // cannot happen: app.load refuses such a configuration
		}
		all = append(all, loaded...)
	}
	return append(all, d.conf.Streams...)
}

// streamOf returns the stream that fills a table or its ancestor.
func streamOf(streams []config.Stream, table string) (config.Stream, bool) {
	for _, s := range streams {
		if s.Readable() && (s.Table.Name == table || strings.HasPrefix(table, s.Table.Name+"__")) {
			return s, true
		}
	}
	return config.Stream{}, false
}

func tableDoc(t schemas.Table, s config.Stream, known bool) docTable {
	doc := docTable{Name: t.Name, Mode: string(t.Mode), Key: load.FullKey(t), Place: load.SourcePointer(t.Columns)}
	if known {
		doc.Stream, doc.Request, doc.Class = s.Name, s.Method+" "+s.Origin+s.Path, string(s.Class)
		if i := strings.LastIndex(t.Name, "__"); t.Name != s.Table.Name && i > 0 {
			doc.Parent = t.Name[:i]
		}
	}
	for _, f := range t.Columns.Fields() {
		doc.Columns = append(doc.Columns, docColumn{
			Name: f.Name, Type: schemas.TypeName(schemas.TypeOf(f)), Source: schemas.Source(f),
			Meaning: meaning(f), Mask: maskOf(s, t, f), Key: slices.Contains(doc.Key, f.Name),
		})
	}
	return doc
}

// countRows counts all rows of a table, and the rows that are neither deleted nor earlier versions.
func countRows(ctx context.Context, d load.Destination, t schemas.Table) (rows, standing int64, err error) {
	mark := schemas.ColDeletedAt
	if t.Mode == schemas.History {
		mark = schemas.ColValidTo
	}
	err = d.Scan(ctx, t.Name, []string{mark}, func(b arrow.RecordBatch) error {
		rows += b.NumRows()
		standing += int64(b.Column(0).NullN())
		return nil
	})
	if err != nil {
		return 0, 0, fmt.Errorf("count rows of %s: %w", t.Name, err)
	}
	return rows, standing, nil
}

// viewDocs returns the views that penstock has created, with their titles.
func viewDocs(changes []load.Change) ([]docView, error) {
	kit, err := schemas.LoadViews()
	if err != nil {
		return nil, err
	}
	titles := map[string]string{}
	for _, v := range kit {
		titles[v.Name] = v.Title
	}
	var out []docView
	for _, c := range changes {
		if c.Action != load.ActionView || slices.ContainsFunc(out, func(v docView) bool { return v.Name == c.Table }) {
			continue
		}
		title := titles[c.Table]
		if of, ok := strings.CutSuffix(c.Table, "_current"); ok && title == "" {
			title = "the rows of " + of + " that are current"
		}
		out = append(out, docView{Name: c.Table, Title: title})
	}
	slices.SortFunc(out, func(a, b docView) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}
