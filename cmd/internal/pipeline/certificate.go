package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// witnesses is what a certificate rests on, as it is stored.
type witnesses struct {
	verdict Verdict
	counts  Counts

	Pass       string `json:"pass"`
	Rule       string `json:"rule"`
	FirstTotal *int64 `json:"total_first,omitempty"`
	LastTotal  *int64 `json:"total_last,omitempty"`
	Distinct   int64  `json:"distinct"`
	Filtered   int64  `json:"filtered,omitempty"` // records that the stream's filter left out
	Duplicates int64  `json:"duplicates"`
	Reread     bool   `json:"reread"`
	Round      bool   `json:"round"`
	Resumed    bool   `json:"resumed"`
	Twice      bool   `json:"twice"` // the pass before, in the same run, found the same
	Parents    int    `json:"parents,omitempty"`
	Gone       int    `json:"gone,omitempty"`
	Short      int    `json:"short,omitempty"`
	Parent     string `json:"parent,omitempty"` // verdict of the parents' list
	Alive      int64  `json:"alive"`
	Missing    int64  `json:"missing"`
	Asked      int64  `json:"asked,omitempty"`     // of the missing rows, those that the source was asked for
	NotFound   int64  `json:"not_found,omitempty"` // of these, those it said are gone
	Held       string `json:"held,omitempty"`
	Note       string `json:"note,omitempty"`
}

func (e ending) witnesses(p *pass, d decision, twice bool) witnesses {
	found := findings{}
	if e.found != nil {
		found = *e.found
	}
	return witnesses{
		verdict:    e.verdict,
		counts:     e.counts,
		Pass:       p.id,
		Rule:       e.end.Rule,
		FirstTotal: known(e.end.FirstTotal),
		LastTotal:  known(e.end.LastTotal),
		Distinct:   e.distinct(),
		Filtered:   e.filtered,
		Duplicates: e.counts.Deduplicated,
		Reread:     e.end.Reread,
		Round:      e.end.Round,
		Resumed:    !e.whole || e.end.Resumed,
		Twice:      twice,
		Parents:    e.end.Parents,
		Gone:       e.end.Gone,
		Short:      e.end.Short,
		Parent:     string(e.parent),
		Alive:      e.outcome.Alive,
		Missing:    e.outcome.Missing,
		Asked:      found.asked,
		NotFound:   found.gone,
		Held:       d.held,
		Note:       notes(e.end.Note, found.note),
	}
}

// notes is what there is of both.
func notes(a, b string) string {
	if a != "" && b != "" {
		return a + "; " + b
	}
	return a + b
}

// known is nil for a total that was not stated.
func known(total int64) *int64 {
	if total < 0 {
		return nil
	}
	return &total
}

// writeCertificate puts the pass's certificate into the transaction of its last
// rows.
func (k *sink) writeCertificate(ctx context.Context, p *pass, g *group, w witnesses) error {
	text, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("write certificate: %w", err)
	}
	c := w.counts
	return writeOwn(ctx, k.tx, load.Certificates, []any{
		p.Run, p.Name, p.stream.Name, time.Now(), string(w.verdict), string(text),
		c.Fetched, w.Distinct, c.Written, c.Unchanged,
		c.Deduplicated, c.Rejected, c.Deleted, g.total.pages, g.total.requests,
	})
}

// writeRejects puts the group's rejects into the transaction of its rows: what
// the tables cannot hold is kept there. // Invariant 11
func (k *sink) writeRejects(ctx context.Context, p *pass, g *group) error {
	if len(g.rejects) == 0 {
		return nil
	}
	rows := make([][]any, len(g.rejects))
	for i, r := range g.rejects {
		rows[i] = rejectRow(p.run, p.stream.Name, p.passes, r)
	}
	return writeOwn(ctx, k.tx, load.Rejects, rows...)
}

// writeOwn writes rows of one of penstock's own tables.
func writeOwn(ctx context.Context, tx load.Tx, t schemas.Table, rows ...[]any) error {
	b, err := load.Rows(t, rows...)
	if err != nil {
		return err
	}
	defer b.Release()
	return tx.Write(ctx, t, b)
}
