// Package proof computes the verdict of a pass over a stream, the reasons for it, and what happens to the rows that
// the pass did not contain. Its functions depend only on their arguments, and may be called concurrently.
//
// A [Witness] raises the verdict to proven, and each [Doubt] that applies lowers it. To add an observation,
// add one field to [Facts] and one Doubt.
package proof

// Facts are the observations of one finished pass. The comment of each field begins with the component that observes
// it. The certificate stores the facts, and `penstock explain` prints them.
type Facts struct {
	Rule       string `json:"rule"`                  // the extractor: how the end was reached, one of its Rule constants
	Pages      int    `json:"pages,omitempty"`       // the extractor: pages of the list
	FirstTotal Total  `json:"total_first,omitzero"`  // the extractor: records that the source states on the first page
	LastTotal  Total  `json:"total_last,omitzero"`   // the extractor: records that the source states on the last page
	Reread     bool   `json:"reread,omitempty"`      // the extractor: the list has one page, and a second request returned the same records
	Round      bool   `json:"round,omitempty"`       // the extractor: the number of records is round and no page was short, as if the source had a hidden limit
	Refused    bool   `json:"refused,omitempty"`     // the extractor: the source refuses the page after a full one: the list ends there, or the source limits how far one can page
	Counted    bool   `json:"counted,omitempty"`     // the extractor: pages were requested by number or offset, so a deleted record shifts all later ones
	Guessed    bool   `json:"guessed,omitempty"`     // the extractor: the user configured only the list's path, so only probes show how it continues
	Unshown    bool   `json:"unshown,omitempty"`     // the extractor: only one page had records, so it is unknown how further pages would be requested
	Partial    bool   `json:"partial,omitempty"`     // the extractor: the pass is incremental and leaves out unchanged records
	Misplaced  string `json:"misplaced,omitempty"`   // the extractor: where the records are not in the order "latest change first"; "" if they are, or if nothing relies on that order
	Windows    int    `json:"windows,omitempty"`     // the extractor: time windows that were requested
	ShortLists int    `json:"short,omitempty"`       // the extractor: parents or windows whose list may have been cut
	Gaps       int64  `json:"unreadable,omitempty"`  // the extractor: records that could not be read
	Gap        string `json:"-"`                     // the extractor: description of the first gap
	ObjectKind bool   `json:"object_kind,omitempty"` // the pipeline: the answer is one object and no list: the class of the stream says so, or two readings have shown it

	Unexplained []string `json:"unexplained,omitempty"` // the extractor: unexplained signals that may mean more records
	Incomplete  []string `json:"incomplete,omitempty"`  // the extractor: the source's own statements that an answer lacks records

	Moved   int `json:"moved,omitempty"`   // the extractor: pages whose total differs from the previous page's
	Shifted int `json:"shifted,omitempty"` // the extractor: pages at the end that had other records when requested again
	Overlap int `json:"overlap,omitempty"` // the extractor: records that the previous page had too
	Alike   int `json:"alike,omitempty"`   // the extractor: records without a key that equal a record of the previous page or of the first page, probably not by chance
	Doubled int `json:"doubled,omitempty"` // the extractor: records that appeared twice on one page
	Uneven  int `json:"uneven,omitempty"`  // the extractor: pages before the last that had fewer records than an earlier page, unless they are requested by cursor; 1 for pages of 100, 97, 100 and 12 records
	Stale   int `json:"stale,omitempty"`   // the extractor: pages that were older than an earlier page, as from a cache

	Resumed    bool  `json:"resumed,omitempty"`    // the pipeline: an earlier process began the pass
	Keyless    bool  `json:"keyless,omitempty"`    // the pipeline: the stream has no key, so repeats cannot be counted
	Distinct   int64 `json:"distinct"`             // the destination: distinct records of the pass, including those that no table could store
	Duplicates int64 `json:"duplicates,omitempty"` // the destination: records whose key had already arrived in this pass
	Overlooked int64 `json:"overlooked,omitempty"` // the destination: rows that earlier incremental passes have missed: records that changed before the time up to which these passes have read
	Mingled    bool  `json:"-"`                    // the pipeline: Duplicates includes records of other passes
	Unstored   int64 `json:"unstored,omitempty"`   // the pipeline: records that no table could store, except those whose loss a person has accepted
	Filtered   int64 `json:"filtered,omitempty"`   // the transformer: records that the stream's filter left out
	Longest    int64 `json:"longest,omitempty"`    // the destination: records of the longest whole pass so far
	Steady     bool  `json:"steady,omitempty"`     // the pipeline: the list again has Longest records, but some of them are new

	Clashes    int64  `json:"clashes,omitempty"`    // the transformer: records that were rejected because another record has the same key
	Clash      string `json:"clash,omitempty"`      // the transformer: the key of one such record
	Differing  int64  `json:"differing,omitempty"`  // the transformer: records that arrived twice with different content, so they may have changed
	Uncompared int64  `json:"uncompared,omitempty"` // the pipeline: duplicates whose content was not compared because there were too many keys to remember

	Second  Reading     `json:"second,omitempty"`  // the pipeline: comparison with the previous reading of the same run
	Others  *Difference `json:"others,omitempty"`  // the pipeline: what differs in a second reading
	Earlier int64       `json:"earlier,omitempty"` // the pipeline: at least this many records were found by another reading of the run, but not by this reading
	Twin    *Difference `json:"twin,omitempty"`    // the pipeline: what differs from another stream that should return the same records

	Parents    int     `json:"parents,omitempty"`  // the extractor: parents that were requested
	Skipped    int     `json:"skipped,omitempty"`  // the extractor: parents that were not requested because their records have not changed
	Gone       int     `json:"gone,omitempty"`     // the extractor: parents that the source no longer has
	Parent     Verdict `json:"parent,omitempty"`   // the pipeline: the verdict on the list of parents in this run
	OnePerItem bool    `json:"one_each,omitempty"` // the catalogue: each parent has one record

	without string // the disabled rule: see Without
}

// Total is a number of records that a source states; negative if it states none.
type Total int64

// None is the Total of a source that states no total.
const None Total = -1

// IsZero reports whether t states no total. Such totals are left out of JSON.
func (t Total) IsZero() bool { return t < 0 }

// Reading is the result of comparing a pass with an earlier reading of the same list.
type Reading string

// The results of a comparison. The zero value means that there is no earlier reading, or that the two readings cannot
// be compared.
const (
	SameRecords  Reading = "same"      // both are whole and found the same records
	OtherRecords Reading = "different" // both are whole and found different records
)

// Difference counts the records that only one of two readings has.
type Difference struct {
	Of       string   `json:"of,omitempty"` // stream of the other reading, if it is not the same stream
	Here     int64    `json:"only_here"`    // at least this many records are only in this reading
	There    int64    `json:"only_there"`   // at least this many records are only in the other reading
	Examples []string `json:"examples,omitempty"`
}

// Listed returns how many records the source has shown. All filtered records count, because duplicates among them
// cannot be detected.
func (f *Facts) Listed() int64 { return f.Distinct + f.Filtered }

func (f *Facts) whole() bool { return !f.Resumed && !f.Partial }

// totalMet reports whether the pass found as many distinct records as the total says. Without a key, one
// record on two pages looks like two records, so the list must have only one page.
func (f *Facts) totalMet() bool {
	return f.LastTotal >= 0 && f.Filtered == 0 && f.FirstTotal.agrees(f.LastTotal) && int64(f.LastTotal) == f.Distinct &&
		(!f.Keyless || f.Pages <= 1)
}

func (f *Facts) settled() bool { return f.whole() && f.totalMet() }

func (t Total) agrees(o Total) bool { return t < 0 || o < 0 || t == o }

// OfParents reports whether the pass requested the records of one parent after another. Such a pass can be only as
// complete as the list of parents.
func (f *Facts) OfParents() bool { return f.Rule == "parents" }

// OfWindows reports whether the pass requested one time window after the other. Windows may share a record, and a
// record may be in no window.
func (f *Facts) OfWindows() bool { return f.Rule == "windows" }

func (f *Facts) object() bool { return f.Rule == "single" }

// Repeats returns how many records appeared on two pages. If a record appeared twice, another record may have been on
// no page. A record that appears twice on the same page displaces no other record and is not counted.
func (f *Facts) Repeats() int64 {
	if f.Pages <= 1 || f.OfParents() || f.OfWindows() || f.Mingled {
		return 0
	}
	return max(0, f.Duplicates-int64(f.Doubled))
}

// Empty reports whether the list had no records and states no total. A user without read permission may get the same
// answer.
func (f *Facts) Empty() bool {
	return f.Listed() == 0 && f.LastTotal < 0 && !f.OfParents() && !f.object()
}

// Cut reports whether the source may have cut the list: it ended at a round number of records, or it keeps its length
// while its records change. If the list was longer in an earlier pass, it was not cut at this length.
func (f *Facts) Cut() bool {
	return (f.Round || f.steady()) && f.LastTotal < 0 && f.Longest <= f.Listed()
}

// steady reports whether a list in one answer keeps its length while its records change, as if it showed a
// fixed number of records.
func (f *Facts) steady() bool { return f.Steady && f.Rule == "one_page" && !f.Keyless }

// Unwatched reports whether records could move during the reading without being noticed. This is possible if the pages
// are requested by number or offset, and the list has no total, or no key to tell its records apart.
func (f *Facts) Unwatched() bool {
	return f.whole() && f.Counted && f.Pages > 1 && !f.OfParents() && (f.LastTotal < 0 || f.Keyless)
}

// WithoutOthers returns f without the results of the run's other readings.
func (f Facts) WithoutOthers() Facts {
	f.Second, f.Others, f.Earlier = "", nil, 0
	return f
}

// Without returns f with one rule disabled: the witness, the doubt or the rule of deletion with the given name; see
// Rules. Tests use it to show that each rule is needed.
func (f Facts) Without(rule string) Facts {
	f.without = rule
	return f
}

// Rules returns the names of all witnesses, doubts and rules of deletion.
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

// Moves reports whether the list seems to change faster than it is read. Then more than two readings make sense.
func (f *Facts) Moves() bool {
	return f.Second == OtherRecords && (totalChanged(f) || totalNotMet(f) || f.Repeats() > 0 || f.Moved > 0 || f.Shifted > 0 || f.LastTotal < 0 || f.Keyless)
}
