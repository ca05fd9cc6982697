package pipeline

import (
	"github.com/penstock-data/penstock/extract"
)

// Verdict says how far a pass's completeness is established.
type Verdict string

// The verdicts, best first. Each is told with its reasons: see reading.why.
const (
	Proven       Verdict = "proven"       // nothing can be missing: see reading.verdict for the proofs
	Consistent   Verdict = "consistent"   // ended by its rule, nothing speaks against it, nothing proves it
	Unproven     Verdict = "unproven"     // something is missing, or moved while it was read
	Contradicted Verdict = "contradicted" // the list's own total says otherwise
)

// reading is what is known about a pass once all its rows are applied.
type reading struct {
	end      extract.End
	whole    bool // made by this process from its beginning to its end
	counts   Counts
	filtered int64 // records that the stream's filter left out
	digest   digest
	most     int64      // records that the longest whole pass before has found
	earlier  int64      // records that another reading of this run has found and this one has not, at least
	missed   int64      // rows of the table that the pass did not carry
	parent   Verdict    // of the parent's pass in this run; "" where it had none
	unlike   difference // to the reading before, as far as both are whole
	twin     *agreement // with the stream that shows the same records; nil where that was not read
	single   bool       // each parent has one record
	mingled  bool       // what other passes have carried meanwhile counts as repeated
}

// distinct is how many records of the pass are different ones; those no table
// could take count as such.
func (r reading) distinct() int64 { return r.counts.Fetched - r.counts.Deduplicated }

// listed is how many records the list has shown, as far as can be told: nobody
// knows which of those left out are the same.
func (r reading) listed() int64 { return r.distinct() + r.filtered }

// gaps is how many records of the list the server could not give.
func (r reading) gaps() int64 {
	var n int64
	for _, g := range r.end.Gaps {
		n += g.Rows
	}
	return n
}

// fanOut reports whether the pass asked the parents one by one. Then its
// completeness is that of the parent's list: reading again would ask the same
// parents and prove nothing.
func (r reading) fanOut() bool { return r.end.Rule == extract.RuleParents }

// windowed reports whether the pass went from one window of time to the next. A
// record may be in two of them, or be moved to one that was read before, and in
// one that nobody has asked for: no number of such readings proves anything.
func (r reading) windowed() bool { return r.end.Rule == extract.RuleWindows }

// contradicted reports whether the list's total changed during the pass or is
// not the number of records that came.
func (r reading) contradicted() bool {
	first, last := r.end.FirstTotal, r.end.LastTotal
	if first >= 0 && last >= 0 && first != last {
		return true
	}
	return r.whole && last >= 0 && last != r.listed()+r.gaps()
}

// lacking reports whether records are known that the pass did not carry.
func (r reading) lacking() bool { return r.gaps() > 0 || r.twin.lacking() }

// repeats is how many records came on two pages: then others may have come on
// none, however often the list is read. Some lists show a record twice on one
// page; that moves none.
func (r reading) repeats() int64 {
	if r.end.Pages <= 1 || r.fanOut() || r.windowed() || r.mingled {
		return 0
	}
	return max(0, r.counts.Deduplicated-int64(r.end.Drift.Doubled))
}

// unwatched reports whether nothing would tell if the list had moved while it was
// read: its pages are counted out, a record that went from one of them has moved
// another past the reader, and there is no total to miss it by.
func (r reading) unwatched() bool {
	return r.whole && !r.end.Partial && r.end.Counted && r.end.Pages > 1 && r.end.LastTotal < 0 && !r.fanOut()
}

// moved reports whether the list is known to have changed while it was read.
func (r reading) moved() bool { return r.end.Drift.Moved > 0 || r.end.Drift.Shifted > 0 }

// same reports whether both readings are whole and found the same records.
func (r reading) same(before *reading) bool {
	return r.comparable(before) && r.digest == before.digest
}

// differs reports whether both readings are whole and found others.
func (r reading) differs(before *reading) bool {
	return r.comparable(before) && r.digest != before.digest
}

func (r reading) comparable(before *reading) bool {
	return before != nil && r.whole && before.whole && !r.fanOut() && !r.end.Partial && !before.end.Partial
}

// cut reports whether the list may have been cut where it ended: then it is the
// same however often it is read, and that proves nothing. A list that was
// longer once is not cut at this length.
func (r reading) cut() bool { return r.end.Round && r.end.LastTotal < 0 && r.most <= r.listed() }

// empty reports whether the list showed nothing and does not say that it has
// nothing: somebody who may not read it is shown the same.
func (r reading) empty() bool {
	return r.listed() == 0 && r.end.LastTotal < 0 && !r.fanOut() && r.end.Rule != extract.RuleSingle
}

// tainted reports whether no number of such readings can prove anything: what
// they all lack would not show.
func (r reading) tainted() bool {
	return r.cut() || r.empty() || r.end.Drift.Stale > 0 ||
		r.end.LastTotal < 0 && (r.end.Drift.Uneven > 0 || r.earlier > 0)
}

// verdict weighs the witnesses. before is the reading made just before this one
// in the same run, nil for none. // Invariant 12
func (r reading) verdict(before *reading) Verdict {
	switch {
	case r.contradicted():
		return Contradicted
	case r.lacking(), r.repeats() > 0, r.moved():
		return Unproven
	case r.end.Partial, r.windowed():
		return Consistent // it says nothing about what was left out
	case r.same(before) && !r.tainted():
		return Proven
	case r.whole && r.selfEvident():
		return Proven
	case r.differs(before):
		return Unproven
	default:
		return Consistent
	}
}

// confirmed reports whether no live row can be among those the pass missed. On
// several pages one can: a record deleted from a page that was read moves the
// next one up to it, and one created meanwhile makes the total good again. So
// there a second reading must have missed as much.
func (r reading) confirmed(before *reading) bool {
	if r.end.Pages <= 1 || r.fanOut() || r.same(before) {
		return true
	}
	return before != nil && before.whole && before.verdict(nil) == Proven && before.missed == r.missed
}

// selfEvident reports whether one whole reading is proof enough.
func (r reading) selfEvident() bool {
	e := r.end
	switch {
	case e.Rule == extract.RuleSingle:
		return true
	case r.fanOut():
		// Were every parent gone, the module and not the parents would be.
		// A parent that was not asked still has its record, if it has one by
		// definition; what a list below it holds by now, nobody knows.
		return r.parent == Proven && e.Short == 0 && (e.Gone < e.Parents || e.Parents == 0) && (e.Skipped == 0 || r.single)
	case e.LastTotal >= 0 && r.filtered == 0:
		return !r.tainted() // it is the number of distinct records, else the pass were contradicted
	default:
		return e.Reread && !r.tainted()
	}
}

// worthRepeating reports whether a second reading can lead to a better verdict.
func (r reading) worthRepeating(v Verdict) bool {
	return v != Proven && !r.fanOut() && !r.windowed() && r.gaps() == 0 && !(v == Consistent && r.tainted() && !r.empty())
}
