package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/reject"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/transform"
)

type witnesses struct {
	verdict Verdict
	counts  Counts

	Why    string      `json:"why"`
	End    proof.Known `json:"end,omitempty"` // how the end of the list is known
	Doubts []string    `json:"doubts,omitempty"`
	Pass   string      `json:"pass"`
	proof.Facts
	Alive    int64         `json:"alive"`
	Missing  int64         `json:"missing"`
	Asked    int64         `json:"asked,omitempty"`
	NotFound int64         `json:"not_found,omitempty"`
	Decided  string        `json:"decided"`
	Since    *time.Time    `json:"since,omitempty"` // unchanged records before this time were not requested
	Held     string        `json:"held,omitempty"`
	Note     string        `json:"note,omitempty"`
	Gaps     []extract.Gap `json:"gaps,omitempty"`
}

func (e *ending) witnesses(p *pass, end *extract.End) witnesses {
	found := findings{}
	if e.found != nil {
		found = *e.found
	}
	return witnesses{
		verdict: e.verdict, counts: e.counts,
		Why: e.why(), End: e.facts.End(), Doubts: proof.Doubts(e.facts), Pass: p.id, Facts: e.facts,
		Alive: e.table.Alive, Missing: e.table.Missing, Asked: found.answered, NotFound: found.gone,
		Decided: e.decision.Rule, Since: since(end.Since), Held: e.decision.Held,
		Note: notes(notes(end.Note, found.note), notes(twinNote(e.facts.Twin), p.leftByFilter(e))), Gaps: end.Gaps,
	}
}

func notes(a, b string) string {
	if a != "" && b != "" {
		return a + "; " + b
	}
	return a + b
}

func (k *destinationRun) writeCertificate(ctx context.Context, p *pass, g *group, w witnesses) error {
	text, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("write certificate: %w", err)
	}
	c := w.counts
	return load.WriteRows(ctx, k.tx, load.Certificates, []any{
		p.Run, p.Name, k.report.Title(), p.Now(), string(w.verdict), string(text),
		c.Fetched, w.Distinct, c.Written, c.Unchanged,
		c.Deduplicated, c.Rejected, c.Deleted, g.total.pages, g.total.requests,
	})
}

// writeRejects writes the rejects in the same transaction as the rows of the group, so that no value is lost.
// Invariant 11
func (k *destinationRun) writeRejects(ctx context.Context, p *pass, g *group) error {
	now := p.Now()
	row := func(r transform.Reject) []any {
		return reject.Values(p.Run, p.Name, p.stream.Name, p.passes, now, k.rejects.Accepted(r), r)
	}
	for part := range slices.Chunk(g.rejects, rejectsAtOnce) {
		rows := make([][]any, len(part))
		for i, r := range part {
			rows[i] = row(r)
		}
		if err := load.WriteRows(ctx, k.tx, load.Rejects, rows...); err != nil {
			return err
		}
	}
	rows := make([][]any, len(g.gaps))
	for i, gap := range g.gaps {
		rows[i] = row(gapReject(gap))
	}
	return load.WriteRows(ctx, k.tx, load.Rejects, rows...)
}

// rejectsAtOnce is the number of rejects that one batch writes. // Invariant 6
const rejectsAtOnce = 4096

// gapReject returns a gap as a reject. Its ordinal is negative, so it differs from the ordinals of records.
func gapReject(g extract.Gap) transform.Reject {
	return transform.Reject{
		Stage: transform.StageExtract, ID: fmt.Sprintf("gap at %s, from %d", g.At, g.First),
		Ordinal: -1 - g.First, Pointer: "", Wanted: "an answer",
		Raw: g.Message, Reason: "the server did not return " + g.String(),
	}
}
