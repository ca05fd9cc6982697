package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/knowledge"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform"
)

func previewCmd(a *app) *cobra.Command {
	var n int
	var from string
	cmd := &cobra.Command{
		Use:   "preview STREAM",
		Short: "print a few records as a table, with the inferred schema",
		Long: `Prints a few records as a table, with the inferred schema. The stream is read with
the conventions stored in the destinations. Its records are filtered and masked as
in the first pipeline that contains the stream. Nothing is stored.`,
		Example: "  penstock preview crm.leads -n 5",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if n < 1 || n > render.MaxRows {
				return failure.Usage("", "-n %d: want 1 to %d", n, render.MaxRows)
			}
			c, err := a.open.Load()
			if err != nil {
				return err
			}
			src, err := open.Pick(c.File, "source", "--from", c.Sources, func(s config.Source) string { return s.Name }, from)
			if err != nil {
				return err
			}
			return printStart(cmd.Context(), a, c, src, args[0], n)
		},
	}
	cmd.Flags().IntVarP(&n, "rows", "n", 20, "`number` of records")
	cmd.Flags().StringVar(&from, "from", "", "`name` of the source, if the configuration has several")
	return cmd
}

// previewPipeline returns the first pipeline that reads the stream from the source, so that its masks and filters
// apply. If no pipeline reads the stream, previewPipeline returns a new pipeline without a destination.
func previewPipeline(c *config.Config, src config.Source, name string) config.Pipeline {
	for _, p := range c.Pipelines {
		if !p.Reads(src.Name) {
			continue
		}
		p = p.ForSource(src.Name)
		if streams, err := c.Select(p, []string{name}); err == nil && len(streams) == 1 {
			return p
		}
	}
	return config.Pipeline{Name: "preview", From: []config.Ref{{Text: src.Name}}, Streams: []config.Ref{{Text: name}}}
}

// printStart reads the start of a stream and prints it. Nothing is stored.
func printStart(ctx context.Context, a *app, c *config.Config, src config.Source, name string, n int) error {
	p := previewPipeline(c, src, name)
	streams, err := a.open.Choose(c, p, []string{name})
	if err != nil {
		return err
	}
	if len(streams) != 1 {
		return failure.Usage("`penstock streams` lists them", "%q matches %d streams; name one of them", name, len(streams))
	}
	k, err := knowledge.Of(ctx, &a.open, c, streams[0].Name)
	if err != nil {
		return err
	}
	streams[0].Stream = k.Learned.Apply(streams[0].Stream)
	source, err := a.open.Source(c, p, streams, nil)
	if err != nil {
		return err
	}
	defer source.Close()
	m := transform.NewMapper(streams[0].Stream, transform.Stamp{SyncedAt: time.Now().UTC(), Via: "poll"}, nil)
	defer m.Close()
	shaper, err := transform.NewShaper(m, false)
	if err != nil {
		return fmt.Errorf("preview %s: %w", name, err)
	}
	if err := readRecords(ctx, source, streams[0].Stream, m, n); err != nil {
		return err
	}
	batches, rejects := m.Flush()
	batches, refused, err := shaper.Shape(batches)
	if err != nil {
		return fmt.Errorf("preview %s: %w", name, err)
	}
	rejects = append(rejects, refused...)
	defer func() {
		for _, b := range batches {
			b.Batch.Release()
		}
	}()
	return printPreview(a, streams[0].Stream, batches, rejects, n)
}

// readRecords reads pages until the mapper has n rows.
func readRecords(ctx context.Context, s *open.Source, st schemas.Stream, m *transform.Mapper, n int) error {
	for page, err := range s.Client.Pages(ctx, st, "") {
		if err != nil {
			return &failure.Error{Err: fmt.Errorf("preview %s: %w", st.Name, err), Hint: render.Remedy(err, st.Name)}
		}
		rest, err := m.Append(page.Records)
		if err != nil {
			return fmt.Errorf("preview %s: %w", st.Name, err)
		}
		if m.Rows() >= n || len(rest) > 0 {
			break
		}
	}
	return nil
}

// printPreview prints up to n rows of the root table. Without --json, it also prints the columns of every table, and
// the rejects of the first n records.
func printPreview(a *app, s schemas.Stream, batches []transform.TableBatch, rejects []transform.Reject, n int) error {
	p := render.Printer{W: a.out, Form: a.form()}
	left := int64(n)
	for _, b := range batches {
		if b.Table.Name != s.Table.Name || left <= 0 {
			continue
		}
		rows := sourceColumns(b.Batch, min(left, b.Batch.NumRows()))
		left -= rows.NumRows()
		err := p.Batch(rows)
		rows.Release()
		if err != nil {
			return err
		}
	}
	if err := p.Close(); err != nil || a.json {
		return err
	}
	if len(batches) == 0 {
		fmt.Fprintf(a.out, "%s has no records\n", s.Name)
	}
	seen := map[string]bool{}
	for _, b := range batches {
		if !seen[b.Table.Name] {
			seen[b.Table.Name] = true
			printColumns(a.out, b)
		}
	}
	for _, r := range rejects {
		if r.Ordinal > int64(n) {
			break // the last page may have more records than are printed
		}
		fmt.Fprintf(a.out, "rejected: record %d%s: %s\n", r.Ordinal, r.Pointer, render.Printable(r.Reason, false))
	}
	return nil
}

// sourceColumns returns the first n rows of the columns that come from the source.
func sourceColumns(b arrow.RecordBatch, n int64) arrow.RecordBatch {
	var fields []arrow.Field
	var columns []arrow.Array
	for i, f := range b.Schema().Fields() {
		if schemas.Source(f) != "" {
			fields, columns = append(fields, f), append(columns, b.Column(i))
		}
	}
	whole := arrowBatch(fields, columns, b.NumRows())
	defer whole.Release()
	return whole.NewSlice(0, n)
}

func printColumns(w io.Writer, b transform.TableBatch) {
	fmt.Fprintf(w, "\n%s\n", b.Table.Name)
	g := render.NewTable("column", "type", "field of the source")
	for _, f := range b.Batch.Schema().Fields() {
		if p := schemas.Source(f); p != "" {
			g.Add(f.Name, schemas.TypeName(schemas.TypeOf(f)), p)
		}
	}
	g.Render(w)
}
