package browse

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/knowledge"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/schemas"
)

// Proof says how fresh and how complete a table is. If several sources share the table, it describes the source that was
// read longest ago, and the worst verdict.
type Proof struct {
	Table   string    `json:"table,omitempty"`
	Stream  string    `json:"stream,omitempty"`
	ReadAt  time.Time `json:"read_at,omitzero" jsonschema:"when the stream was last read to its end; absent if it never was"`
	Age     string    `json:"age,omitempty" jsonschema:"time since read_at"`
	Verdict string    `json:"verdict" jsonschema:"proven, consistent, unproven, contradicted, or none if the stream was never read to its end"`
	Why     string    `json:"why,omitempty" jsonschema:"reasons of the verdict"`
	Run     string    `json:"run,omitempty" jsonschema:"the run that read the stream"`
	Sources int       `json:"sources,omitempty" jsonschema:"number of sources that share the table, if there are several"`
	Problem string    `json:"problem,omitempty" jsonschema:"why a later run did not complete the stream"`
}

// NoVerdict is the verdict of a stream that was never read to its end.
const NoVerdict = "none"

// verdicts are all verdicts, the worst first.
var verdicts = []string{NoVerdict, string(pipeline.Contradicted), string(pipeline.Unproven), string(pipeline.Consistent), string(pipeline.Proven)}

// Proofs are the proofs of the streams of a destination, by stream.
type Proofs map[string]Proof

// Proofs returns the proofs of all streams of a destination.
func (b *Browser) Proofs(ctx context.Context, d *open.Reader) (Proofs, error) {
	newest, err := history.NewestCertificates(ctx, d, []string{"verdict", "witnesses"})
	if err != nil {
		return nil, err
	}
	incomplete, err := history.IncompleteStreams(ctx, d)
	if err != nil {
		return nil, err
	}
	type part struct{ stream, source string }
	last := map[part]Proof{} // the newest pass of each source, by any pipeline
	for k, c := range newest {
		p := proofOf(c)
		if at := (part{k.Stream, k.Source}); p.ReadAt.After(last[at].ReadAt) {
			last[at] = p
		}
	}
	for k, o := range incomplete {
		at := part{k.Stream, k.Source}
		if p := last[at]; o.Run >= history.RunOf(p.Run) {
			p.Verdict = cmp.Or(p.Verdict, NoVerdict)
			p.Problem = strings.TrimSuffix(fmt.Sprintf("run %s: %s: %s", o.Run, o.Status, o.Reason), ": ")
			last[at] = p
		}
	}
	now, all := b.Opener.State(d.Conf).Now(), Proofs{}
	for at, p := range last {
		all[at.stream] = all[at.stream].with(p)
	}
	for stream, p := range all {
		p.Stream = stream
		if !p.ReadAt.IsZero() {
			p.Age = render.Brief(now.Sub(p.ReadAt))
		}
		if p.Sources == 1 {
			p.Sources = 0
		}
		all[stream] = p
	}
	return all, nil
}

// proofOf returns what a certificate says.
func proofOf(c history.Certificate) (p Proof) {
	p.ReadAt, _ = c.At.(time.Time)
	p.Run, _ = c.Run.(string)
	p.Verdict, _ = c.Values[0].(string)
	witnesses, _ := c.Values[1].(string)
	p.Why, _ = history.Reasons(witnesses).(string)
	return p
}

// with() returns the proof of a table that has the rows of one more source.
func (p Proof) with(one Proof) Proof {
	n := p.Sources + 1
	if n == 1 {
		p = one
	}
	if one.ReadAt.Before(p.ReadAt) {
		p.ReadAt, p.Run = one.ReadAt, one.Run
	}
	if slices.Index(verdicts, one.Verdict) < slices.Index(verdicts, p.Verdict) {
		p.Verdict, p.Why = one.Verdict, one.Why
	}
	p.Problem = max(p.Problem, one.Problem) // the newest run has the greatest id
	p.Sources = n
	return p
}

// Of returns the proof of a table.
func (all Proofs) Of(t knowledge.Table) Proof {
	p := all[t.Stream.Name]
	p.Table, p.Stream, p.Verdict = t.Name, t.Stream.Name, cmp.Or(p.Verdict, NoVerdict)
	return p
}

// named() returns the loaded tables that a statement names, or that a view reads which the statement names. It compares
// words. So it also returns a table whose name appears only in a text or as the name of a column. It never misses a
// table, except if a view of a user reads the table.
func named(sql string, tables []knowledge.Table) ([]knowledge.Table, error) {
	words := map[string]bool{}
	for _, w := range strings.FieldsFunc(strings.ToLower(sql), func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		words[w] = true
		words[strings.TrimSuffix(w, "_current")] = true
	}
	views, err := schemas.LoadViews()
	if err != nil {
		return nil, err
	}
	for _, v := range views {
		if words[v.Name] {
			for table := range maps.Keys(v.Needs) {
				words[table] = true
			}
		}
	}
	var found []knowledge.Table
	for _, t := range tables {
		if words[strings.ToLower(t.Name)] {
			found = append(found, t)
		}
	}
	return found, nil
}
