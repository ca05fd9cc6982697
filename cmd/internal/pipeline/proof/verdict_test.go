package proof

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// pass returns the facts of a pass that has found n records on two pages, without a total.
func pass(n int64, change ...func(*Facts)) Facts {
	f := Facts{Rule: "no_next", Pages: 2, FirstTotal: None, LastTotal: None, Distinct: n}
	for _, c := range change {
		c(&f)
	}
	return f
}

func total(first, last Total) func(*Facts) {
	return func(f *Facts) { f.FirstTotal, f.LastTotal = first, last }
}

func duplicates(n int64) func(*Facts) {
	return func(f *Facts) { f.Duplicates, f.Distinct = n, f.Distinct-n }
}

func under(v Verdict, requested, gone int) func(*Facts) {
	return func(f *Facts) { f.Rule, f.Parents, f.Gone, f.Parent = "parents", requested, gone, v }
}

func TestJudge(t *testing.T) {
	resumed := func(f *Facts) { f.Resumed = true }
	reread := func(f *Facts) { f.Reread = true }
	round := func(f *Facts) { f.Round = true }
	doubled := func(f *Facts) { f.Doubled = 1 }
	moved := func(f *Facts) { f.Moved = 2 }
	stale := func(f *Facts) { f.Stale = 1 }
	uneven := func(f *Facts) { f.Uneven = 1 }
	gap := func(f *Facts) { f.Gaps = 1 }
	page := func(f *Facts) { f.Pages = 1 }
	keyless := func(f *Facts) { f.Keyless = true }
	same := func(f *Facts) { f.Second = SameRecords }
	other := func(f *Facts) { f.Second, f.Others = OtherRecords, &Difference{Here: 1} }
	longest := func(n int64) func(*Facts) { return func(f *Facts) { f.Longest = n } }
	twin := func(here, there int64) func(*Facts) {
		return func(f *Facts) { f.Twin = &Difference{Of: "x.twin", Here: here, There: there} }
	}
	object := func(known bool) func(*Facts) {
		return func(f *Facts) { f.Rule, f.Pages, f.ObjectKind = "single", 1, known }
	}
	unexplained := func(signal string) func(*Facts) { return func(f *Facts) { f.Unexplained = []string{signal} } }
	incomplete := func(f *Facts) { f.Incomplete = []string{"/partial: true"} }
	unshown := func(f *Facts) { f.Unshown, f.Counted = true, true }
	tests := []struct {
		name string
		f    Facts
		want Verdict
	}{
		{"no witness", pass(10), Consistent},
		{"total met", pass(10, total(10, 10)), Proven},
		{"total on the last page only", pass(10, total(None, 10)), Proven},
		{"total not met", pass(10, total(11, 11)), Contradicted},
		{"as many records as the total, but one of them arrived twice", pass(10, total(10, 10), duplicates(1)), Contradicted},
		{"total changed", pass(10, total(9, 10)), Contradicted},
		{"total of zero records", pass(0, total(0, 0)), Proven},
		{"total met, but resumed", pass(10, total(10, 10), resumed), Consistent},
		{"total not met by the rest of a resumed pass", pass(4, total(10, 10), resumed), Consistent},
		{"total changed in a resumed pass", pass(10, total(9, 10), resumed), Contradicted},
		{"total met without a key, on two pages", pass(10, total(10, 10), keyless), Consistent},
		{"total met without a key, on one page", pass(10, total(10, 10), keyless, page), Proven},
		{"total met without a key, and a second pass finds the same records", pass(10, total(10, 10), keyless, same), Proven},
		{"total met without a key, and a second pass finds other records", pass(10, total(10, 10), keyless, other), Unproven},
		{"record on two pages", pass(11, duplicates(1)), Unproven},
		{"record twice on the only page", pass(11, duplicates(1), page), Consistent},
		{"read twice by the extractor", pass(10, reread), Proven},
		{"page of a round size, read twice", pass(10, reread, round), Consistent},
		{"page of a round size, and a second pass finds the same records", pass(10, reread, round, same), Consistent},
		{"page of a round size, but an earlier pass was longer", pass(10, reread, round, longest(11)), Proven},
		{"page of a round size, and no earlier pass was longer", pass(10, reread, round, longest(10)), Consistent},
		{"page of a round size, and the total is met", pass(10, round, total(10, 10)), Proven},
		{"one object, as the class of the stream says", pass(1, object(true)), Proven},
		{"one object that may be a list", pass(1, object(false)), Consistent},
		{"one object that may be a list, in two readings", pass(1, object(false), same), Proven},
		{"second pass finds the same records", pass(10, same), Proven},
		{"second pass finds the same duplicates: a list without an order", pass(10, duplicates(1), same), Unproven},
		{"second pass finds the same record twice on one page", pass(10, duplicates(1), doubled, same), Proven},
		{"second pass finds the same records, but the total changed meanwhile", pass(10, total(10, 10), moved, same), Unproven},
		{"total met, and pages from a cache", pass(10, total(10, 10), stale), Consistent},
		{"second pass finds the same records in a cache", pass(10, stale, same), Consistent},
		{"second pass finds the same records, on uneven pages", pass(10, uneven, same), Consistent},
		{"total met on uneven pages", pass(10, total(10, 10), uneven), Proven},
		{"a gap", pass(9, gap), Unproven},
		{"a gap of one record, and the total counts that record", pass(9, gap, total(10, 10)), Unproven},
		{"a gap of one record, and the total counts one record more", pass(9, gap, total(11, 11)), Contradicted},
		{"the same gap in two readings", pass(9, gap, same), Unproven},
		{"another stream with the same records has one more", pass(10, total(10, 10), twin(0, 1)), Unproven},
		{"another stream with the same records has one less", pass(10, total(10, 10), twin(1, 0)), Proven},
		{"second pass finds other records", pass(10, other), Unproven},
		{"second pass finds other records, and the total is met", pass(10, other, total(10, 10)), Proven},
		{"second pass finds the same records, and the total contradicts", pass(10, total(11, 11), same), Contradicted},
		{"children of a proven list", pass(10, under(Proven, 3, 0)), Proven},
		{"children of a proven list, and one parent is gone", pass(10, under(Proven, 3, 1)), Proven},
		{"children of a proven list, and all parents are gone", pass(0, under(Proven, 3, 3)), Consistent},
		{"children of a proven list, but the list of one parent may have been cut", pass(10, under(Proven, 3, 0), func(f *Facts) { f.ShortLists = 1 }), Consistent},
		{"children of an empty proven list", pass(0, under(Proven, 0, 0)), Proven},
		{"children of a consistent list", pass(10, under(Consistent, 3, 0)), Consistent},
		{"children shared by two parents", pass(12, under(Proven, 3, 0), duplicates(2)), Proven},
		{"an unexplained signal", pass(10, unexplained("/meta/links: [1]")), Unproven},
		{"the same unexplained signal in two readings", pass(10, unexplained("/meta/links: [1]"), same), Unproven},
		{"an unexplained signal beside a total that is met", pass(10, unexplained("/meta/links: [1]"), total(10, 10)), Proven},
		{"a number smaller than the total that is met", pass(10, unexplained("/meta/size: 9"), total(10, 10)), Proven},
		{"a number larger than the total that is met", pass(10, unexplained("/meta/hits: 63"), total(10, 10)), Unproven},
		{"an answer that says it is incomplete", pass(10, incomplete, total(10, 10), same), Unproven},
		{"further pages that never held a record, read twice", pass(10, unshown, same), Consistent},
		{"further pages that never held a record, and the total is met", pass(10, unshown, total(10, 10)), Proven},
		{"a list that ended by an unknown rule", pass(10, same, func(f *Facts) { f.Rule = "tired" }), Unproven},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, Judge(tt.f))
			require.NotEmpty(t, Reasons(tt.f))
		})
	}
}

func TestEnd(t *testing.T) {
	for rule, want := range map[string]Known{
		"total": Stated, "last_page": Stated, "no_next": Stated, "empty_page": WalkedPast, "repeat": WalkedPast,
		"one_page": Whole, "single": Object, "parents": Parts, "windows": Parts, "older": Recently, "tired": "",
	} {
		f := pass(10, func(f *Facts) { f.Rule = rule })
		require.Equal(t, want, f.End(), rule)
	}
	f := pass(10, total(10, 10), func(f *Facts) { f.Rule = "empty_page" })
	require.Equal(t, Stated, f.End(), "the total is stronger evidence than the empty page")
}
