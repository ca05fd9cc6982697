package history

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// statusColumns are the columns of a certificate that [StreamStatuses] returns for a stream.
var statusColumns = []string{"verdict", "fetched", "written", "unchanged", "rejected", "deleted"}

// StreamStatuses returns, for every stream, the time of its cursor, its newest certificate, the reason why the last run
// did not complete the stream, and the checks of the data that failed. The function configured() reports whether the
// configuration has a check.
func StreamStatuses(ctx context.Context, d load.Destination, configured func(stream, check string) bool) (out render.Answer, err error) {
	newest, err := NewestCertificates(ctx, d, append(statusColumns, "witnesses"))
	if err != nil {
		return out, err
	}
	incomplete, err := IncompleteStreams(ctx, d)
	if err != nil {
		return out, err
	}
	out = render.Answer{Columns: append(render.Fields(load.State, "pipeline", "stream"), render.Fields(load.Certificates, statusColumns...)...)}
	out.Columns = append(append(out.Columns, render.Fields(load.State, "updated_at")...), render.Fields(load.Certificates, "run")...)
	changed, err := Drift(ctx, d)
	if err != nil {
		return out, err
	}
	failed, err := FailedChecks(ctx, d, configured)
	if err != nil {
		return out, err
	}
	for _, name := range []string{"drift", "state", "why", "webhooks", "checks"} {
		out.Columns = append(out.Columns, schemas.Field(name, schemas.Text, ""))
	}
	add := func(k state.Key, updated, webhooks any) {
		var checks any
		if failed[k] != "" {
			checks = failed[k]
		}
		out.Rows = append(out.Rows, append(statusRow(k, updated, newest[k], changed, incomplete[k]), webhooks, checks))
		delete(incomplete, k)
	}
	err = Scan(ctx, d, load.State, func(r Row) error {
		k := KeyOf(r)
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
	for _, k := range slices.Collect(maps.Keys(incomplete)) {
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
func statusRow(k state.Key, updated any, c Certificate, changed map[[2]string]string, o Incomplete) []any {
	status, why := any(string(pipeline.StatusComplete)), any(nil)
	counts := make([]any, len(statusColumns))
	if c.Values != nil {
		copy(counts, c.Values)
		text, _ := c.Values[len(statusColumns)].(string)
		why = Reasons(text)
	}
	if c.Values == nil {
		status = nil // the stream was never read to its end
	}
	run, _ := c.Run.(string)
	var drifted any
	if text := changed[[2]string{max(RunOf(run), o.Run), strings.ReplaceAll(k.Stream, ".", "_")}]; text != "" {
		drifted = text
	}
	if o.Run != "" && o.Run >= RunOf(run) {
		status, why = o.Status, o.Reason
		if c.Run == nil {
			c.Run = o.Run
		}
	}
	return append(append([]any{k.Pipeline, StreamName(k)}, counts...), updated, c.Run, drifted, status, why)
}

// StreamName returns the name of a stream. If several sources share the tables, the name of its source comes first.
func StreamName(k state.Key) string {
	if k.Source == "" {
		return k.Stream
	}
	return k.Source + " " + k.Stream
}
