package pipeline

import (
	"fmt"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
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

// comparable reports whether a pass can be compared with another reading of the same list. This is possible if the pass
// was not resumed, has read the whole list, and does not consist of one list for each parent.
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

// twinNote reports records that the stream's twin lacks. A twin is another stream that returns the same records. The
// twin was read earlier, so it may lack newer records.
func twinNote(d *proof.Difference) string {
	if d == nil || d.Here == 0 {
		return ""
	}
	return fmt.Sprintf("%s lacks %s", d.Of, proof.Count(d.Here, ""))
}

func (r *reading) comparesWith() bool {
	f := &r.facts
	return !f.Resumed && !f.Partial && f.Skipped == 0 && f.Duplicates == 0 && f.Gaps == 0
}

// twins contains the digests of the streams that other streams name as their twins. Its methods may be called
// concurrently.
type twins struct {
	mu    sync.Mutex
	shown map[string]*rowhash.Digest
}

// show stores the digest of a stream's reading. Another stream that names this stream as its twin uses the digest.
func (t *twins) show(stream string, r *reading) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.shown, stream)
	if r.comparesWith() {
		t.shown[stream] = &r.digest
	}
}

// compare compares a reading with the reading of the stream's twin. It returns nil if the two cannot be compared.
func (t *twins) compare(h *rowhash.Hasher, s schemas.Stream, r *reading) *proof.Difference {
	t.mu.Lock()
	twin := t.shown[s.Twin]
	t.mu.Unlock()
	if s.Twin == "" || twin == nil || !r.comparesWith() {
		return nil
	}
	if r.digest.Rows > 0 && twin.Rows > 0 && (r.digest.Text == 0) != (twin.Text == 0) {
		return nil // the keys of one reading are integers, and those of the other are texts
	}
	d := h.Minus(&r.digest, twin)
	return &proof.Difference{Of: s.Twin, Here: d.Here, There: d.There, Examples: d.Examples}
}
