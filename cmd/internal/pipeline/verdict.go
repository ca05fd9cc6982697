package pipeline

import (
	"github.com/penstock-data/penstock/extract"
)

// Verdict says how far a pass's completeness is established.
type Verdict string

// The verdicts, best first.
const (
	Proven       Verdict = "proven"       // nothing can be missing: see reading.verdict for the proofs
	Consistent   Verdict = "consistent"   // ended by its rule, nothing speaks against it, nothing proves it
	Unproven     Verdict = "unproven"     // records moved between the pages while they were read
	Contradicted Verdict = "contradicted" // the list's own total says otherwise
)

// reading is what is known about a pass once all its rows are applied.
type reading struct {
	end      extract.End
	whole    bool // made by this process from its beginning to its end
	counts   Counts
	filtered int64 // records that the stream's filter left out
	digest   digest
	most     int64   // records that the longest whole pass before has found
	missed   int64   // rows of the table that the pass did not carry
	parent   Verdict // of the parent's pass in this run; "" where it had none
}

// distinct is how many records of the pass are different ones; those no table
// could take count as such.
func (r reading) distinct() int64 { return r.counts.Fetched - r.counts.Deduplicated }

// listed is how many records the list has shown, as far as can be told: nobody
// knows which of those left out are the same.
func (r reading) listed() int64 { return r.distinct() + r.filtered }

// fanOut reports whether the pass asked the parents one by one. Then its
// completeness is that of the parent's list: reading again would ask the same
// parents and prove nothing.
func (r reading) fanOut() bool { return r.end.Rule == extract.RuleParents }

// contradicted reports whether the list's total changed during the pass or is
// not the number of records that came.
func (r reading) contradicted() bool {
	first, last := r.end.FirstTotal, r.end.LastTotal
	if first >= 0 && last >= 0 && first != last {
		return true
	}
	return r.whole && last >= 0 && last != r.listed()
}

// repeated reports whether a record came on two pages, as happens when the list
// changes between them: then another may have come on none.
func (r reading) repeated() bool {
	return r.counts.Deduplicated > 0 && r.end.Pages > 1 && !r.fanOut()
}

// same reports whether both readings are whole and found the same records.
func (r reading) same(before *reading) bool {
	return before != nil && r.whole && before.whole && r.digest == before.digest && !r.fanOut()
}

// cut reports whether the list may have been cut where it ended: then it is the
// same however often it is read, and that proves nothing. A list that was
// longer once is not cut at this length.
func (r reading) cut() bool { return r.end.Round && r.end.LastTotal < 0 && r.most <= r.listed() }

// verdict weighs the witnesses. before is the reading made just before this one
// in the same run, nil for none. // Invariant 12
func (r reading) verdict(before *reading) Verdict {
	switch {
	case r.contradicted():
		return Contradicted
	case r.same(before) && !r.cut():
		return Proven
	case r.repeated():
		return Unproven
	case r.whole && r.selfEvident():
		return Proven
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
		return r.parent == Proven && e.Short == 0 && (e.Gone < e.Parents || e.Parents == 0)
	case e.LastTotal >= 0 && r.filtered == 0:
		return true // it is the number of distinct records, else the pass were contradicted
	default:
		return e.Reread && !r.cut()
	}
}

// worthRepeating reports whether a second reading can lead to a better verdict.
func (r reading) worthRepeating(v Verdict) bool {
	return v != Proven && !r.fanOut() && !(v == Consistent && r.cut())
}
