package knowledge

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Table is a loaded table with its description.
type Table struct {
	schemas.Table
	Doc    render.TableDoc // without the number of rows and the last pass
	Stream config.Stream   // the stream that fills the table; the zero value if the configuration does not have it
	Known  bool            // the configuration has the stream
}

// Tables returns the loaded tables of a destination by name, without penstock's own tables.
func Tables(ctx context.Context, d *open.Reader) ([]Table, error) {
	tables, err := d.LoadedTables(ctx)
	if err != nil {
		return nil, err
	}
	selected := selectedStreams(d)
	streams := append(slices.Clone(selected), d.Conf.Streams...)
	all := make([]Table, 0, len(tables))
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		s, known := streamOf(streams, name)
		doc := render.DescribeTable(tables[name], s, known)
		doc.Selected = slices.ContainsFunc(selected, func(o config.Stream) bool { return o.Name == doc.Stream })
		all = append(all, Table{tables[name], doc, s, known})
	}
	return all, nil
}

// ReadDictionary reads what the data dictionary needs from a destination: tables, row counts, last passes and views.
func ReadDictionary(ctx context.Context, d *open.Reader) (render.Dictionary, error) {
	out := render.Dictionary{Destination: d.Name, Kind: d.Config.Scheme, Schema: d.Config.Schema, At: time.Now().UTC().Truncate(time.Second)}
	done, err := history.Changes(ctx, d)
	if err != nil {
		return out, err
	}
	tables, err := Tables(ctx, d)
	if err != nil {
		return out, err
	}
	newest, err := history.NewestCertificates(ctx, d, []string{"verdict"})
	if err != nil {
		return out, err
	}
	for _, t := range tables {
		doc := t.Doc
		if doc.Rows, doc.Current, err = countRows(ctx, d, t.Table); err != nil {
			return out, err
		}
		setLastPass(&doc, newest)
		if t.Known && d.Kind.Files != nil {
			doc.Files = d.Kind.Files(d.Config, t.Stream.Name, t.Name)
			out.CertificateFiles = d.Kind.Files(d.Config, "*", load.Certificates.Name)
		}
		out.Add(cmp.Or(t.Stream.Group, "Other"), doc)
	}
	out.Views, err = render.ViewDocs(done)
	return out, err
}

// setLastPass sets the time, run and verdict of the last pass that read the table's stream to its end. The pass may be
// of any pipeline.
func setLastPass(t *render.TableDoc, newest map[state.Key]history.Certificate) {
	for k, c := range newest {
		at, _ := c.At.(time.Time)
		if k.Stream != t.Stream || !at.After(t.ReadAt) {
			continue
		}
		t.ReadAt = at
		t.Run, _ = c.Run.(string)
		t.Verdict, _ = c.Values[0].(string)
	}
}

// selectedStreams returns the streams of the pipelines that load into this destination, with the pipelines' settings.
func selectedStreams(d *open.Reader) []config.Stream {
	var all []config.Stream
	for _, p := range d.Conf.Pipelines {
		if !slices.ContainsFunc(p.To, func(to config.Ref) bool { return to.Text == d.Name }) {
			continue
		}
		loaded, err := d.Conf.Select(p, nil)
		if err != nil {
			continue // cannot happen: Opener.Load refuses such a configuration
		}
		all = append(all, loaded...)
	}
	return all
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

// countRows counts all rows of a table, and the rows that are neither deleted nor earlier versions.
func countRows(ctx context.Context, d load.Destination, t schemas.Table) (rows, current int64, err error) {
	mark := schemas.ColDeletedAt
	if t.Mode == schemas.History {
		mark = schemas.ColValidTo
	}
	err = d.Scan(ctx, t.Name, []string{mark}, func(b arrow.RecordBatch) error {
		rows += b.NumRows()
		current += int64(b.Column(0).NullN())
		return nil
	})
	if err != nil {
		return 0, 0, fmt.Errorf("count rows of %s: %w", t.Name, err)
	}
	return rows, current, nil
}
