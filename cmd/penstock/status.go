package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func (a *app) statusCmd() *cobra.Command {
	var to selection
	var health bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "show each stream: its last pass, the verdict and its reasons, and any problem",
		Long: `Shows each stream: its last pass, the verdict and its reasons, and any problem.
With -v it prints all columns, with --json also long texts in full.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if health {
				return a.health(cmd.Context())
			}
			return a.read(cmd.Context(), to, func(d *reader) error { return a.status(cmd.Context(), d) })
		},
	}
	addDestinationFlag(cmd, &to)
	cmd.Flags().BoolVar(&health, "health", false, "only check whether `penstock serve` with this configuration is healthy: exit 0 or 1")
	return cmd
}

// statusColumns are the certificate columns shown of a stream.
var statusColumns = []string{"verdict", "fetched", "written", "unchanged", "rejected", "deleted"}

// status prints for every stream the time of its cursor, its newest certificate, and why the last run did
// not complete it.
func (a *app) status(ctx context.Context, d *reader) error {
	newest, err := newestCertificates(ctx, d, append(statusColumns, "witnesses"))
	if err != nil {
		return err
	}
	open, err := openStreams(ctx, d)
	if err != nil {
		return err
	}
	out := render.Answer{Columns: append(render.Fields(load.State, "pipeline", "stream"), render.Fields(load.Certificates, statusColumns...)...)}
	out.Columns = append(append(out.Columns, render.Fields(load.State, "updated_at")...), render.Fields(load.Certificates, "run")...)
	changed, err := drift(ctx, d)
	if err != nil {
		return err
	}
	for _, name := range []string{"drift", "state", "why", "webhooks"} {
		out.Columns = append(out.Columns, schemas.Field(name, schemas.Text, ""))
	}
	add := func(k state.Key, updated, webhooks any) {
		out.Rows = append(out.Rows, append(statusRow(k, updated, newest[k], changed, open[k]), webhooks))
		delete(open, k)
	}
	err = scan(ctx, d, load.State, func(r row) error {
		k := keyOf(r)
		if !strings.HasPrefix(k.Stream, "_") { // not one of penstock's own tables
			add(k, r.value("updated_at"), webhooksOf(r.text("cursor")))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for k := range newest {
		if strings.Contains(k.Stream, " ") { // a backfill has no state row of its own
			add(k, newest[k].at, nil)
		}
	}
	for _, k := range slices.Collect(maps.Keys(open)) {
		add(k, nil, nil)
	}
	out = out.Sort("pipeline", "stream")
	if a.verbose || a.json {
		return out.Print(a.out, a.form())
	}
	render.Status(a.out, out, a.stateOf(d.conf).Now())
	return nil
}

// webhooksOf says how many of a stream's webhook events are applied, according to its cursor. It returns nil if
// there were no events.
func webhooksOf(cursor string) any {
	w, ok := pipeline.WebhooksOf(state.Cursor(cursor))
	if !ok {
		return nil
	}
	words := fmt.Sprintf("applied up to event %d", w.Through)
	if share, ok := w.Coverage(); ok {
		words = fmt.Sprintf("%.0f %% of %s announced, %s", 100*share, render.Plural(int(w.Announced+w.Found), "change"), words)
	}
	if w.Open > 0 {
		words += fmt.Sprintf(", %s to be requested again", render.Plural(w.Open, "record"))
	}
	if w.Refresh {
		words += ", the stream must be read"
	}
	if w.Dead > 0 {
		words += fmt.Sprintf(", %s given up", render.Plural(int(w.Dead), "record"))
	}
	return words
}

// statusRow returns the row of one stream. A problem is shown until a later run has completed the stream.
func statusRow(k state.Key, updated any, c certificate, changed map[[2]string]string, o openStream) []any {
	standing, why := any(string(pipeline.StatusComplete)), any(nil)
	counts := make([]any, len(statusColumns))
	if c.values != nil {
		copy(counts, c.values)
		text, _ := c.values[len(statusColumns)].(string)
		why = whyOf(text)
	}
	if c.values == nil {
		standing = nil // the stream was never read to its end
	}
	run, _ := c.run.(string)
	var drifted any
	if text := changed[[2]string{max(runOf(run), o.run), strings.ReplaceAll(k.Stream, ".", "_")}]; text != "" {
		drifted = text
	}
	if o.run != "" && o.run >= runOf(run) {
		standing, why = o.state, o.words
		if c.run == nil {
			c.run = o.run
		}
	}
	return append(append([]any{k.Pipeline, ofWhom(k)}, counts...), updated, c.run, drifted, standing, why)
}

// keyOf returns the stream key of a row of one of penstock's own tables.
func keyOf(r row) state.Key {
	return state.Key{Pipeline: r.text("pipeline"), Source: r.text(schemas.ColSource), Stream: r.text("stream")}
}

// ofWhom returns the name of a stream. If several sources share the tables, the name of its source comes first.
func ofWhom(k state.Key) string {
	if k.Source == "" {
		return k.Stream
	}
	return k.Source + " " + k.Stream
}

// whyOf returns the reasons of a verdict, from the witnesses in a certificate. It returns nil for a certificate
// of an earlier release.
func whyOf(witnesses string) any {
	var w struct{ Why string }
	if json.Unmarshal([]byte(witnesses), &w) != nil || w.Why == "" {
		return nil
	}
	return w.Why
}

// openStream has the newest run that did not complete a stream, and the stream's status and reason in that run.
type openStream struct{ run, state, words string }

// openStreams returns the streams that some run did not complete. A later run may have completed them.
func openStreams(ctx context.Context, d load.Destination) (map[state.Key]openStream, error) {
	open := map[state.Key]openStream{}
	err := scan(ctx, d, load.Runs, func(r row) error {
		var counts struct {
			Open  map[string][]string
			Words map[string]string
		}
		if json.Unmarshal([]byte(r.text("counts")), &counts) != nil {
			return nil // a run under way
		}
		for status, streams := range counts.Open {
			for _, s := range streams {
				k := state.Key{Pipeline: r.text("pipeline"), Source: r.text(schemas.ColSource), Stream: s}
				if o := (openStream{r.text("run"), status, counts.Words[s]}); o.run > open[k].run {
					open[k] = o
				}
			}
		}
		return nil
	})
	return open, err
}

// certificate is the newest certificate of a stream.
type certificate struct {
	run, at any
	values  []any // values of the requested columns
}

func newestCertificates(ctx context.Context, d load.Destination, columns []string) (map[state.Key]certificate, error) {
	newest := map[state.Key]certificate{}
	err := scan(ctx, d, load.Certificates, func(r row) error {
		k := keyOf(r)
		c := certificate{run: r.value("run"), at: r.value("at")}
		if old, ok := newest[k]; ok && (render.Compare(c.run, old.run) < 0 || render.Compare(c.run, old.run) == 0 && render.Compare(c.at, old.at) < 0) {
			return nil
		}
		for _, name := range columns {
			c.values = append(c.values, r.value(name))
		}
		newest[k] = c
		return nil
	})
	return newest, err
}
