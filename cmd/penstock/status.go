package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/cmd/internal/runlist"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func statusCmd(a *app) *cobra.Command {
	var to open.Selection
	var health bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "show each stream: its last pass, the verdict and its reasons, and any problem",
		Long: `Shows each stream of all destinations, or of those that --to and --source select: its
last pass, the verdict and its reasons, and any problem. With -v it prints all columns, with --json also long texts in full.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if health {
				return printHealth(cmd.Context(), a)
			}
			return printStatus(cmd.Context(), a, to)
		},
	}
	addDestinationFlag(cmd, &to)
	cmd.Flags().BoolVar(&health, "health", false, "only check whether penstock serve, with this configuration, is healthy: exit 0 or 1")
	return cmd
}

// statusColumns are the columns of a certificate that `status` shows for a stream.
var statusColumns = []string{"verdict", "fetched", "written", "unchanged", "rejected", "deleted"}

// printStatus prints the streams of the selected destinations.
func printStatus(ctx context.Context, a *app, to open.Selection) error {
	var all runlist.Table
	now := time.Now
	err := a.open.ReadAll(ctx, to, func(d *open.Reader) error {
		now = a.open.State(d.Conf).Now
		out, err := streamStatuses(ctx, d)
		if err == nil {
			all.Add(d, out)
		}
		return err
	})
	if err != nil && all.Empty() {
		return err
	}
	out := all.Answer().Sort("pipeline", "stream", "source", "destination")
	if a.verbose || a.json {
		return errors.Join(out.Print(a.out, a.form()), err)
	}
	render.Status(a.out, out, now())
	return err // the part that could be read was printed
}

// streamStatuses returns, for every stream, the time of its cursor, its newest certificate, and the reason why the last
// run did not complete the stream.
func streamStatuses(ctx context.Context, d *open.Reader) (out render.Answer, err error) {
	newest, err := history.NewestCertificates(ctx, d, append(statusColumns, "witnesses"))
	if err != nil {
		return out, err
	}
	open, err := history.IncompleteStreams(ctx, d)
	if err != nil {
		return out, err
	}
	out = render.Answer{Columns: append(render.Fields(load.State, "pipeline", "stream"), render.Fields(load.Certificates, statusColumns...)...)}
	out.Columns = append(append(out.Columns, render.Fields(load.State, "updated_at")...), render.Fields(load.Certificates, "run")...)
	changed, err := history.Drift(ctx, d)
	if err != nil {
		return out, err
	}
	for _, name := range []string{"drift", "state", "why", "webhooks"} {
		out.Columns = append(out.Columns, schemas.Field(name, schemas.Text, ""))
	}
	add := func(k state.Key, updated, webhooks any) {
		out.Rows = append(out.Rows, append(statusRow(k, updated, newest[k], changed, open[k]), webhooks))
		delete(open, k)
	}
	err = history.Scan(ctx, d, load.State, func(r history.Row) error {
		k := history.KeyOf(r)
		if !strings.HasPrefix(k.Stream, "_") { // not one of penstock's own tables
			add(k, r.Value("updated_at"), webhooksOf(r.Text("cursor")))
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	for k := range newest {
		if strings.Contains(k.Stream, " ") { // a backfill has no row of its own in _penstock_state
			add(k, newest[k].At, nil)
		}
	}
	for _, k := range slices.Collect(maps.Keys(open)) {
		add(k, nil, nil)
	}
	return out, nil
}

// webhooksOf says how many of a stream's webhook events are applied. It reads this from the stream's cursor. If there
// were no events, it returns nil.
func webhooksOf(stored string) any {
	w, ok := cursor.WebhooksOf(state.Cursor(stored))
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

// statusRow returns the row of one stream. It shows a problem until a later run has completed the stream.
func statusRow(k state.Key, updated any, c history.Certificate, changed map[[2]string]string, o history.Incomplete) []any {
	status, why := any(string(pipeline.StatusComplete)), any(nil)
	counts := make([]any, len(statusColumns))
	if c.Values != nil {
		copy(counts, c.Values)
		text, _ := c.Values[len(statusColumns)].(string)
		why = history.Reasons(text)
	}
	if c.Values == nil {
		status = nil // the stream was never read to its end
	}
	run, _ := c.Run.(string)
	var drifted any
	if text := changed[[2]string{max(history.RunOf(run), o.Run), strings.ReplaceAll(k.Stream, ".", "_")}]; text != "" {
		drifted = text
	}
	if o.Run != "" && o.Run >= history.RunOf(run) {
		status, why = o.Status, o.Reason
		if c.Run == nil {
			c.Run = o.Run
		}
	}
	return append(append([]any{k.Pipeline, ofWhom(k)}, counts...), updated, c.Run, drifted, status, why)
}

// ofWhom returns the name of a stream. If several sources share the tables, the name of its source comes first.
func ofWhom(k state.Key) string {
	if k.Source == "" {
		return k.Stream
	}
	return k.Source + " " + k.Stream
}
