package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// docsForms are the formats of the data dictionary, by name. Each has a file name, which is used if the user gives
// only a folder, and a function that writes the dictionary.
var docsForms = map[string]struct {
	file  string
	write func(io.Writer, render.Dictionary) error
}{
	"markdown": {"dictionary.md", render.WriteMarkdown},
	"html":     {"dictionary.html", render.WriteHTML},
	"dbt":      {"sources.yml", render.WriteDBT},
}

func docsCmd(a *app) *cobra.Command {
	var to open.Selection
	var format, file string
	cmd := &cobra.Command{
		Use:   "docs",
		Short: "write a data dictionary of what is loaded, for people or for dbt",
		Long: `Writes a data dictionary of what is loaded: tables, columns, types, the source
fields, and for each table the endpoint, the time and the verdict of the last reading,
and the number of rows. The format is Markdown, one HTML page, or dbt sources with
freshness and key tests.`,
		Example: `  penstock docs --format html -o dictionary.html
  penstock docs --format dbt -o models/`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			form, ok := docsForms[format]
			if !ok {
				return failure.Usage("", "--format %q: want %s", format, strings.Join(slices.Sorted(maps.Keys(docsForms)), ", "))
			}
			if a.json && cmd.Flags().Changed("format") {
				return failure.Usage("", "--format and --json contradict each other")
			}
			write := form.write
			if a.json {
				write = func(w io.Writer, d render.Dictionary) error { return render.NewEncoder(w).Encode(d) }
			}
			if s, err := os.Stat(file); err == nil && s.IsDir() {
				file = filepath.Join(file, form.file)
			}
			return a.open.Read(cmd.Context(), to, func(d *open.Reader) error { return writeDocs(cmd.Context(), a, d, file, write) })
		},
	}
	addDestinationFlag(cmd, &to)
	cmd.Flags().StringVar(&format, "format", "markdown", "`format`: markdown, html or dbt")
	cmd.Flags().StringVarP(&file, "output", "o", "", "`file` or folder to write instead of stdout")
	return cmd
}

func writeDocs(ctx context.Context, a *app, d *open.Reader, file string, write func(io.Writer, render.Dictionary) error) error {
	dict, err := readDictionary(d, ctx)
	if err != nil {
		return err
	}
	return a.writeTo(file, func(w io.Writer) error { return write(w, dict) })
}

// readDictionary reads what the data dictionary needs from a destination: tables, row counts, last passes and views.
func readDictionary(d *open.Reader, ctx context.Context) (render.Dictionary, error) {
	out := render.Dictionary{Destination: d.Name, Kind: d.Config.Scheme, Schema: d.Config.Schema, At: time.Now().UTC().Truncate(time.Second)}
	done, err := history.Changes(ctx, d)
	if err != nil {
		return out, err
	}
	tables, err := d.LoadedTables(ctx)
	if err != nil {
		return out, err
	}
	newest, err := history.NewestCertificates(ctx, d, []string{"verdict"})
	if err != nil {
		return out, err
	}
	streams := streamsInto(d)
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		s, known := streamOf(streams, name)
		doc := render.DescribeTable(tables[name], s, known)
		if doc.Rows, doc.Current, err = countRows(ctx, d, tables[name]); err != nil {
			return out, err
		}
		setLastPass(&doc, newest)
		if known && d.Kind.Files != nil {
			doc.Files = d.Kind.Files(d.Config, s.Name, name)
			doc.Certificates = d.Kind.Files(d.Config, s.Name, load.Certificates.Name)
		}
		out.Add(cmp.Or(s.Group, "Other"), doc)
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

// streamsInto returns the streams of the pipelines that load into this destination, with the pipelines' settings. After
// these streams, the result has all streams of the configuration.
func streamsInto(d *open.Reader) []config.Stream {
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
	return append(all, d.Conf.Streams...)
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
