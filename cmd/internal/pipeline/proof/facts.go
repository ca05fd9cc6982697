// Package proof decides what a pass over a stream has shown: its verdict, the
// reasons for it, and what happens to the rows that the pass did not carry. It
// is pure: facts go in, decisions come out. It makes no request, reads no clock
// and knows no table. Its functions may be called concurrently.
//
// A verdict can only fall. A [Witness] earns the verdict proven, and each
// [Doubt] that applies lowers it. A new observation is one field of [Facts] and
// one Doubt.
package proof

// Facts are what is known about one pass when it has ended. Each field says who
// observes it. The certificate stores them, and `penstock explain` prints them.
type Facts struct {
	Rule       string `json:"rule"`                  // the extractor: how the end was reached, one of its Rule constants
	Pages      int    `json:"pages,omitempty"`       // the extractor: pages of the list
	FirstTotal Total  `json:"total_first,omitzero"`  // the extractor: records that the source states on the first page
	LastTotal  Total  `json:"total_last,omitzero"`   // the extractor: the same, on the last page
	Reread     bool   `json:"reread"`                // the extractor: it read the records of a single page twice, and they were the same
	Round      bool   `json:"round"`                 // the extractor: a round number of records, and no page was short, as a hidden limit leaves it
	Refused    bool   `json:"refused,omitempty"`     // the extractor: the source refuses the page after a full one, which is the end, or as deep as it goes
	Counted    bool   `json:"counted,omitempty"`     // the extractor: pages were requested by number or offset, so that a deleted record moves all behind it
	Guessed    bool   `json:"guessed,omitempty"`     // the extractor: the user gives the list by its path alone, so that nothing but probes says how it goes on
	Unshown    bool   `json:"unshown,omitempty"`     // the extractor: no page but the first ever held a record
	Partial    bool   `json:"partial,omitempty"`     // the extractor: an incremental pass, which leaves out what has not changed
	Misplaced  string `json:"misplaced,omitempty"`   // the extractor: how the order of the records contradicts that the latest change comes first; "" where nothing relies on it
	Windows    int    `json:"windows,omitempty"`     // the extractor: windows of time that were requested
	ShortLists int    `json:"short,omitempty"`       // the extractor: parents or windows whose list may have been cut
	Gaps       int64  `json:"unreadable,omitempty"`  // the extractor: records that the source fails to give
	Gap        string `json:"-"`                     // the extractor: the first of the gaps, in words
	ObjectKind bool   `json:"object_kind,omitempty"` // the pipeline: the stream has one object by its class, or two readings have shown it

	Unexplained []string `json:"unexplained,omitempty"` // the extractor: signals that may speak of more records, and that nothing explains
	Incomplete  []string `json:"incomplete,omitempty"`  // the extractor: statements of the source that an answer lacks records

	Moved   int `json:"moved,omitempty"`   // the extractor: pages whose total differs from that of the page before
	Shifted int `json:"shifted,omitempty"` // the extractor: pages at the end that held other records when they were requested again
	Overlap int `json:"overlap,omitempty"` // the extractor: records that the page before held as well
	Alike   int `json:"alike,omitempty"`   // the extractor: records without a key that the page before held as well, where they were half of a page
	Doubled int `json:"doubled,omitempty"` // the extractor: records that one page held twice
	Uneven  int `json:"uneven,omitempty"`  // the extractor: counted pages that held fewer records than others, and were not the last
	Stale   int `json:"stale,omitempty"`   // the extractor: pages that were older than one before them, as a cache gives them

	Resumed    bool  `json:"resumed"`              // the pipeline: an earlier process began the pass
	Keyless    bool  `json:"keyless,omitempty"`    // the pipeline: the stream has no key, so that repeats cannot be counted
	Distinct   int64 `json:"distinct"`             // the destination: distinct records of the pass, those that no table could take included
	Duplicates int64 `json:"duplicates"`           // the destination: records whose key came before in this pass
	Overlooked int64 `json:"overlooked,omitempty"` // the destination: rows that the pass wrote although their records were changed before the edge, up to where earlier passes had come
	Mingled    bool  `json:"-"`                    // the pipeline: records of other passes count as duplicates, too
	Unstored   int64 `json:"unstored,omitempty"`   // the pipeline: records that no table could take, and whose loss nobody has accepted
	Filtered   int64 `json:"filtered,omitempty"`   // the transformer: records that the stream's filter left out
	Longest    int64 `json:"longest,omitempty"`    // the destination: records that the longest whole pass so far has found
	Steady     bool  `json:"steady,omitempty"`     // the pipeline: the list has that length again, and some of its records are others

	Clashes    int64  `json:"clashes,omitempty"`    // the transformer: records that were rejected because another record has their key
	Clash      string `json:"clash,omitempty"`      // the transformer: the key of one of them
	Differing  int64  `json:"differing,omitempty"`  // the transformer: records that came twice with other content, as they may have changed
	Uncompared int64  `json:"uncompared,omitempty"` // the pipeline: duplicates that were not compared, as there were too many keys to remember

	Second  Reading     `json:"second,omitempty"`  // the pipeline: how the reading before this one, in the same run, compares
	Others  *Difference `json:"others,omitempty"`  // the pipeline: in what a second reading differs
	Earlier int64       `json:"earlier,omitempty"` // the pipeline: records that another reading of the run found and this one did not, at least
	Twin    *Difference `json:"twin,omitempty"`    // the pipeline: in what the stream differs that shows the same records

	Parents    int     `json:"parents,omitempty"`  // the extractor: parents that were requested
	Skipped    int     `json:"skipped,omitempty"`  // the extractor: parents that were not requested, as nothing about them has changed
	Gone       int     `json:"gone,omitempty"`     // the extractor: parents that the source no longer has
	Parent     Verdict `json:"parent,omitempty"`   // the pipeline: the verdict on the list of parents in this run
	OnePerItem bool    `json:"one_each,omitempty"` // the catalogue: each parent has one record

	without string // the rule that does not apply: see Without
}

// Total is a number of records that a source states; a negative one states
// nothing.
type Total int64

// None is the Total of a source that states none.
const None Total = -1

// IsZero reports whether t states nothing. It keeps such totals out of JSON.
func (t Total) IsZero() bool { return t < 0 }

// Reading says how an earlier reading of the same list compares.
type Reading string

// How the reading before compares. The zero value: there was none, or the two
// cannot be compared.
const (
	SameRecords  Reading = "same"      // both are whole and found the same records
	OtherRecords Reading = "different" // both are whole and found different records
)

// Difference is what only one of two readings has.
type Difference struct {
	Of       string   `json:"of,omitempty"` // stream of the other reading, where it is another
	Here     int64    `json:"only_here"`    // records, at least
	There    int64    `json:"only_there"`   // records, at least
	Examples []string `json:"examples,omitempty"`
}

// Listed is how many records the source has shown. Those that a filter left out
// count as distinct: nothing tells which of them are the same.
func (f *Facts) Listed() int64 { return f.Distinct + f.Filtered }

// whole reports whether one process has read the list from its beginning to its
// end, and nothing was left out on purpose.
func (f *Facts) whole() bool { return !f.Resumed && !f.Partial }

// totalMet reports whether the pass has found as many distinct records as the
// source states. Without a key nothing tells whether two of them are the same
// one on two pages.
func (f *Facts) totalMet() bool {
	return f.LastTotal >= 0 && f.Filtered == 0 && f.FirstTotal.agrees(f.LastTotal) && int64(f.LastTotal) == f.Distinct &&
		(!f.Keyless || f.Pages <= 1)
}

// settled reports whether the source's own total leaves nothing to be asked.
func (f *Facts) settled() bool { return f.whole() && f.totalMet() }

// agrees reports whether two totals do not differ, as far as both are stated.
func (t Total) agrees(o Total) bool { return t < 0 || o < 0 || t == o }

// OfParents reports whether the pass requested one parent after the other. Then
// its completeness is that of the parents' list.
func (f *Facts) OfParents() bool { return f.Rule == "parents" }

// OfWindows reports whether the pass requested one window of time after the
// other. A record may lie in two of them, or in none.
func (f *Facts) OfWindows() bool { return f.Rule == "windows" }

func (f *Facts) object() bool { return f.Rule == "single" }

// Repeats is how many records came on two pages. Then others may have come on
// none. A record that stands twice on one page moves no other.
func (f *Facts) Repeats() int64 {
	if f.Pages <= 1 || f.OfParents() || f.OfWindows() || f.Mingled {
		return 0
	}
	return max(0, f.Duplicates-int64(f.Doubled))
}

// Empty reports whether the list showed nothing and does not state that it has
// nothing: a user without the right to read it is shown the same.
func (f *Facts) Empty() bool {
	return f.Listed() == 0 && f.LastTotal < 0 && !f.OfParents() && !f.object()
}

// Cut reports whether the list may have been cut where it ended: at a round number, or
// at one that stays while its records change. A list that was longer once is not cut at
// this length.
func (f *Facts) Cut() bool {
	return (f.Round || f.steady()) && f.LastTotal < 0 && f.Longest <= f.Listed()
}

// steady reports whether a list that came in one answer keeps its length while its
// records change, as one does that shows so many of them and no more.
func (f *Facts) steady() bool { return f.Steady && f.Rule == "one_page" && !f.Keyless }

// Unwatched reports whether nothing would show that the list moved while it was
// read: its pages are counted, and there is no total to miss a record by, or no
// key to tell its records apart.
func (f *Facts) Unwatched() bool {
	return f.whole() && f.Counted && f.Pages > 1 && !f.OfParents() && (f.LastTotal < 0 || f.Keyless)
}

// Alone is f without what other readings of the run have shown.
func (f Facts) Alone() Facts {
	f.Second, f.Others, f.Earlier = "", nil, 0
	return f
}

// Without is f where a witness, a doubt or a rule of deletion does not apply. Tests show with it
// that a rule is needed.
func (f Facts) Without(rule string) Facts {
	f.without = rule
	return f
}

// Rules are the names of all witnesses, doubts and rules of deletion.
func Rules() []string {
	var names []string
	for _, w := range witnesses {
		names = append(names, w.Name)
	}
	for _, d := range doubts {
		names = append(names, d.Name)
	}
	for _, r := range rules {
		names = append(names, r.name)
	}
	return names
}

// Moves reports whether the list seems to change faster than it is read, so that
// more readings than two are worth their requests.
func (f *Facts) Moves() bool {
	return f.Second == OtherRecords && (totalChanged(f) || totalNotMet(f) || f.Repeats() > 0 || f.Moved > 0 || f.Shifted > 0 || f.LastTotal < 0 || f.Keyless)
}
