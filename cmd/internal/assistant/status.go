package assistant

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/browse"
	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/knowledge"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/cmd/internal/runlist"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// StatusInput are the arguments of the tool status.
type StatusInput struct {
	Stream      string `json:"stream,omitempty" jsonschema:"only streams whose name contains this text"`
	Problems    bool   `json:"problems,omitempty" jsonschema:"only streams that the last run did not complete, or whose verdict is unproven or contradicted"`
	Destination string `json:"destination,omitempty" jsonschema:"only this destination"`
}

// StatusOutput is the result of the tool status.
type StatusOutput struct {
	Verdicts map[string]int   `json:"verdicts" jsonschema:"number of streams by verdict"`
	Streams  []map[string]any `json:"streams"`
	Cut      string           `json:"cut,omitempty" jsonschema:"how many streams were left out"`
	Warning  string           `json:"warning,omitempty" jsonschema:"what could not be read"`
}

// status is the tool status.
func (a *Assistant) status(ctx context.Context, in StatusInput) (out StatusOutput, err error) {
	var all runlist.Table
	err = a.Browser.ReadAll(ctx, in.Destination, func(d *open.Reader) error {
		rows, err := history.StreamStatuses(ctx, d, d.Conf.HasCheck)
		if err == nil {
			all.Add(d, rows)
		}
		return err
	})
	if err != nil && all.Empty() {
		return out, err
	}
	out.Warning, out.Verdicts = a.warning(ctx, err), map[string]int{}
	found := []map[string]any{}
	for _, r := range objects(all.Answer().Sort("pipeline", "stream", "source", "destination")) {
		stream, _ := r["stream"].(string)
		verdict, _ := r["verdict"].(string)
		status, _ := r["state"].(string)
		fine := status == string(pipeline.StatusComplete) && verdict != string(pipeline.Unproven) && verdict != string(pipeline.Contradicted)
		if !contains(stream, in.Stream) {
			continue
		}
		if verdict == "" {
			verdict = browse.NoVerdict
		}
		if out.Verdicts[verdict]++; !in.Problems || !fine {
			found = append(found, r)
		}
	}
	out.Streams, out.Cut = cut(found, maxItems, "set stream or problems")
	return out, nil
}

// warning returns the text of an error that left some destinations out of an answer.
func (a *Assistant) warning(ctx context.Context, err error) string {
	if err = a.answerable(ctx, err); err == nil {
		return ""
	}
	return err.Error()
}

// objects returns the rows of an answer as objects without null values. Texts with a JSON object become that object.
func objects(t render.Answer) []map[string]any {
	all := make([]map[string]any, len(t.Rows))
	for i, row := range t.Rows {
		all[i] = map[string]any{}
		for c, f := range t.Columns {
			switch v := row[c].(type) {
			case nil:
			case time.Time:
				all[i][f.Name] = v.UTC().Format(time.RFC3339)
			case string:
				var inner map[string]any
				if strings.HasPrefix(v, "{") && json.Unmarshal([]byte(v), &inner) == nil {
					all[i][f.Name] = inner
				} else if v != "" {
					all[i][f.Name] = v
				}
			default:
				all[i][f.Name] = v
			}
		}
	}
	return all
}

// RunsInput are the arguments of the tool runs.
type RunsInput struct {
	Run         string `json:"run,omitempty" jsonschema:"id of one run, to show it in detail"`
	Limit       int    `json:"limit,omitempty" jsonschema:"most runs to list, 1 to 300; default 20"`
	Destination string `json:"destination,omitempty" jsonschema:"only this destination"`
}

// RunsOutput is the result of the tool runs.
type RunsOutput struct {
	Runs         []map[string]any `json:"runs"`
	Certificates []map[string]any `json:"certificates,omitempty" jsonschema:"what each pass of the run read, and how complete it was"`
	Changes      []map[string]any `json:"changes,omitempty" jsonschema:"changes that the run made to tables"`
	Cut          string           `json:"cut,omitempty" jsonschema:"how many items were left out"`
	Warning      string           `json:"warning,omitempty" jsonschema:"what could not be read"`
}

const defaultRuns = 20

// certificateColumns and changeColumns are the columns that the tool runs shows. Rejects are left out, because they have
// the values of records.
var (
	certificateColumns = []string{"at", "stream", "verdict", "fetched", "written", "unchanged", "deduplicated", "rejected", "deleted", "pages", "requests", "witnesses"}
	changeColumns      = []string{"at", "table", "column", "action", "from_type", "to_type", "reason"}
)

// runs is the tool runs.
func (a *Assistant) runs(ctx context.Context, in RunsInput) (out RunsOutput, err error) {
	q, err := a.Browser.Selection(in.Destination)
	if err != nil {
		return out, err
	}
	if in.Limit <= 0 || in.Limit > maxItems {
		in.Limit = defaultRuns
	}
	var certificates, changes runlist.Table
	var also func(*open.Reader) error
	if in.Run != "" {
		of := func(r history.Row) bool { return history.RunOf(r.Text("run")) == in.Run }
		also = func(d *open.Reader) error {
			rows, err := d.Project(ctx, load.Certificates, certificateColumns, of)
			if err != nil {
				return err
			}
			certificates.Add(d, rows)
			rows, err = d.Project(ctx, load.Changes, changeColumns, of)
			changes.Add(d, rows)
			return err
		}
	}
	l, err := runlist.Read(ctx, a.Browser.Opener, q, in.Run, also)
	switch {
	case err != nil && len(l.Runs) == 0:
		return out, err
	case in.Run != "" && len(l.Runs) == 0:
		return out, failure.Hinted(fmt.Errorf("no run %q", in.Run), "call runs without arguments to list them")
	}
	out.Runs, out.Warning = objects(l.Answer(in.Limit)), a.warning(ctx, err)
	if in.Run != "" && len(out.Runs) > 0 {
		var left [2]string
		out.Certificates, left[0] = cut(objects(withReasons(certificates.Answer()).Sort("source", "stream", "at")), maxItems, "query _penstock_certificates")
		out.Changes, left[1] = cut(objects(changes.Answer().Sort("at")), maxItems, "query _penstock_schema")
		out.Cut = strings.TrimSpace(left[0] + " " + left[1])
	}
	return out, nil
}

// withReasons replaces the column of witnesses with the reasons of the verdicts.
func withReasons(t render.Answer) render.Answer {
	for i, f := range t.Columns {
		if f.Name != "witnesses" {
			continue
		}
		t.Columns[i] = schemas.Field("why", schemas.Text, "")
		for _, r := range t.Rows {
			text, _ := r[i].(string)
			r[i] = history.Reasons(text)
		}
	}
	return t
}

// ExplainInput are the arguments of the tool explain.
type ExplainInput struct {
	Stream string `json:"stream" jsonschema:"name of the stream, such as crm.leads"`
}

// explain is the tool explain.
func (a *Assistant) explain(ctx context.Context, in ExplainInput) (out map[string]any, err error) {
	c, err := a.Browser.Opener.LoadDestinations()
	if err != nil {
		return nil, err
	}
	s, known := c.Stream(in.Stream)
	if !known || !s.Readable() {
		return nil, failure.Hinted(fmt.Errorf("no stream %q that can be read", in.Stream), "status lists the streams that were loaded")
	}
	k, err := knowledge.Of(ctx, a.Browser.Opener, a.offered(c), in.Stream)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(k.Explain())
	if err != nil {
		return nil, fmt.Errorf("encode what is known about %s: %w", in.Stream, err)
	}
	return out, json.Unmarshal(text, &out)
}

// offered() returns a configuration whose pipelines load only into the destination that the assistant may read.
func (a *Assistant) offered(c *config.Config) *config.Config {
	name, _, _ := strings.Cut(a.Browser.Only.To, "@")
	if name == "" {
		return c
	}
	only := *c
	only.Pipelines = slices.Clone(c.Pipelines)
	for i, p := range only.Pipelines {
		only.Pipelines[i].To = slices.DeleteFunc(slices.Clone(p.To), func(to config.Ref) bool { return to.Text != name })
	}
	return &only
}
