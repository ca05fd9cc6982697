package pipeline

import (
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/extract"
)

type reading struct {
	facts  proof.Facts
	digest rowhash.Digest
	missed int64 // live rows of the table that the pass did not contain
}

func factsOf(end *extract.End) proof.Facts {
	f := proof.Facts{
		Rule: end.Rule, Pages: end.Pages, FirstTotal: proof.Total(end.FirstTotal), LastTotal: proof.Total(end.LastTotal),
		Reread: end.Reread, Round: end.Round, Refused: end.Refused, Counted: end.Counted, Guessed: end.PathOnly, Unshown: end.OnePageOnly, Partial: end.Partial,
		Windows: end.Windows, ShortLists: end.Short, Misplaced: end.Misplaced,
		Unexplained: end.Unexplained, Incomplete: end.Incomplete,
		Moved: end.Drift.Moved, Shifted: end.Drift.Shifted, Overlap: end.Drift.Overlap,
		Alike: end.Drift.Alike, Doubled: end.Drift.Doubled, Uneven: end.Drift.Uneven, Stale: end.Drift.Stale,
		Resumed: end.Resumed, Parents: end.Parents, Skipped: end.Skipped, Gone: end.Gone,
	}
	for i, g := range end.Gaps {
		if f.Gaps += g.Rows; i == 0 {
			f.Gap = g.String()
		}
	}
	return f
}

// comparable reports whether a pass has read the whole list itself.
func comparable(f *proof.Facts) bool { return !f.Resumed && !f.Partial && !f.OfParents() }

func (r *reading) compare(h *rowhash.Hasher, before *reading, all []*rowhash.Digest) {
	f := &r.facts
	for _, d := range all {
		f.Earlier = max(f.Earlier, h.Minus(&r.digest, d).There)
	}
	if before == nil || !comparable(f) || !comparable(&before.facts) {
		return
	}
	if f.Second = proof.SameRecords; r.digest != before.digest {
		d := h.Minus(&r.digest, &before.digest)
		f.Second, f.Others = proof.OtherRecords, &proof.Difference{Here: d.Here, There: d.There, Examples: d.Examples}
	}
}

func since(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}
