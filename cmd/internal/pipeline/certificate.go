package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform"
)

// witnesses is what a certificate rests on, as it is stored.
type witnesses struct {
	verdict Verdict
	counts  Counts

	Why        string     `json:"why"` // the verdict's reasons in words
	Pass       string     `json:"pass"`
	Rule       string     `json:"rule"`
	FirstTotal *int64     `json:"total_first,omitempty"`
	LastTotal  *int64     `json:"total_last,omitempty"`
	Distinct   int64      `json:"distinct"`
	Filtered   int64      `json:"filtered,omitempty"` // records that the stream's filter left out
	Duplicates int64      `json:"duplicates"`
	Reread     bool       `json:"reread"`
	Round      bool       `json:"round"`
	Resumed    bool       `json:"resumed"`
	Twice      bool       `json:"twice"` // the pass before, in the same run, found the same
	Parents    int        `json:"parents,omitempty"`
	Skipped    int        `json:"skipped,omitempty"` // parents that were not asked: they are as they were
	Gone       int        `json:"gone,omitempty"`
	Windows    int        `json:"windows,omitempty"` // of time, that were asked for
	Short      int        `json:"short,omitempty"`
	Parent     string     `json:"parent,omitempty"` // verdict of the parents' list
	Alive      int64      `json:"alive"`
	Missing    int64      `json:"missing"`
	Asked      int64      `json:"asked,omitempty"`     // of the missing rows, those that the source was asked for
	NotFound   int64      `json:"not_found,omitempty"` // of these, those it said are gone
	Partial    bool       `json:"partial,omitempty"`   // incremental: what has not changed was left out
	Since      *time.Time `json:"since,omitempty"`     // what was changed before
	Held       string     `json:"held,omitempty"`
	Note       string     `json:"note,omitempty"`

	extract.Drift
	Gaps   []extract.Gap `json:"gaps,omitempty"`   // what the server could not give
	Others *apart        `json:"others,omitempty"` // how the reading before differs
	Twin   *apart        `json:"twin,omitempty"`   // how the stream's twin does
}

// apart is how many records only one of two readings has, at least.
type apart struct {
	Of       string   `json:"of,omitempty"` // stream of the other reading, where it is another
	OnlyHere int64    `json:"only_here"`
	Missing  int64    `json:"only_there"`
	Examples []string `json:"examples,omitempty"` // keys of some that are only there
}

func (e ending) witnesses(p *pass, d decision, twice bool) witnesses {
	found := findings{}
	if e.found != nil {
		found = *e.found
	}
	w := witnesses{
		verdict:    e.verdict,
		counts:     e.counts,
		Why:        e.why(e.verdict, e.before),
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
		Skipped:    e.end.Skipped,
		Gone:       e.end.Gone,
		Windows:    e.end.Windows,
		Short:      e.end.Short,
		Parent:     string(e.parent),
		Alive:      e.outcome.Alive,
		Missing:    e.outcome.Missing,
		Asked:      found.asked,
		NotFound:   found.gone,
		Partial:    e.end.Partial,
		Since:      since(e.end.Since),
		Held:       d.held,
		Note:       notes(notes(e.end.Note, found.note), e.twin.note()),
		Drift:      e.end.Drift,
		Gaps:       e.end.Gaps,
	}
	if e.differs(e.before) {
		w.Others = &apart{OnlyHere: e.unlike.here, Missing: e.unlike.there, Examples: e.unlike.examples}
	}
	if t := e.twin; t != nil {
		w.Twin = &apart{t.stream, t.here, t.there, t.examples}
	}
	return w
}

// since is nil for a pass that leaves nothing out by its time.
func since(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
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
		p.Run, p.Name, k.report.Called(), p.Now(), string(w.verdict), string(text),
		c.Fetched, w.Distinct, c.Written, c.Unchanged,
		c.Deduplicated, c.Rejected, c.Deleted, g.total.pages, g.total.requests,
	})
}

// writeRejects puts the group's rejects into the transaction of its rows: what
// the tables cannot hold is kept there. // Invariant 11
func (k *sink) writeRejects(ctx context.Context, p *pass, g *group) error {
	if len(g.rejects)+len(g.gaps) == 0 {
		return nil
	}
	var rows [][]any
	for _, r := range g.rejects {
		rows = append(rows, rejectRow(p.run, p.stream.Name, p.passes, r))
	}
	for _, gap := range g.gaps {
		rows = append(rows, rejectRow(p.run, p.stream.Name, p.passes, gapReject(gap)))
	}
	return writeOwn(ctx, k.tx, load.Rejects, rows...)
}

// gapReject tells a gap as a reject: of no record, as none has come. It stands
// below the ordinals of those that have.
func gapReject(g extract.Gap) transform.Reject {
	return transform.Reject{
		Ordinal: -1 - g.From, Pointer: "", Wanted: "an answer",
		Raw: g.Words, Reason: "the server does not give " + g.String(),
	}
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
