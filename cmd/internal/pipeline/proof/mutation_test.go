package proof

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// verdictProperty describes the purpose of a rule, independently of the rule's code.
type verdictProperty struct {
	name  string
	holds func(f *Facts, v Verdict) bool
}

func clean(f *Facts) bool { return len(Doubts(*f)) == 0 }

var verdictProperties = []verdictProperty{
	{"if the total changed, the pass is contradicted", func(f *Facts, v Verdict) bool {
		return f.FirstTotal < 0 || f.LastTotal < 0 || f.FirstTotal == f.LastTotal || v == Contradicted
	}},
	{"if the total is larger than the number of records, the pass is contradicted", func(f *Facts, v Verdict) bool {
		return f.Resumed || int64(f.LastTotal) <= f.Distinct+f.Filtered+f.Gaps || v == Contradicted
	}},
	{"if records cannot be read, the pass is in doubt", func(f *Facts, v Verdict) bool { return f.Gaps == 0 || v.Doubtful() }},
	{"if records could not be stored, the pass is in doubt", func(f *Facts, v Verdict) bool { return f.Unstored == 0 || v.Doubtful() }},
	{"if an answer is incomplete, the pass is in doubt", func(f *Facts, v Verdict) bool { return len(f.Incomplete) == 0 || v.Doubtful() }},
	{"if a signal may mean more records, the pass is in doubt unless a total is met", func(f *Facts, v Verdict) bool {
		return len(f.Unexplained) == 0 || f.LastTotal >= 0 || v.Doubtful()
	}},
	{"if a signal states a number larger than the total, the pass is in doubt", func(f *Facts, v Verdict) bool {
		return !slices.Contains(f.Unexplained, "/hits: 63") || v.Doubtful()
	}},
	{"a guessed list of a usual page size is in doubt", func(f *Facts, v Verdict) bool {
		return !f.Guessed || !f.Round || f.Rule != "one_page" || f.LastTotal >= 0 || v.Doubtful()
	}},
	{"if pages overlap, the pass is in doubt", func(f *Facts, v Verdict) bool { return f.Alike == 0 || v.Doubtful() }},
	{"a total on the first page counts, even if the last page states none", func(f *Facts, v Verdict) bool {
		return f.LastTotal >= 0 || f.FirstTotal < 0 || f.Resumed || int64(f.FirstTotal) == f.Listed()+f.Gaps || v == Contradicted
	}},
	{"if another stream with the same records has more, the pass is in doubt", func(f *Facts, v Verdict) bool { return f.Twin == nil || v.Doubtful() }},
	{"if a record is on two pages, the pass is in doubt", func(f *Facts, v Verdict) bool {
		return f.Duplicates == 0 || f.Pages < 2 || f.OfParents() || f.OfWindows() || v.Doubtful()
	}},
	{"if the list of parents is in doubt, so is the pass over the child stream", func(f *Facts, v Verdict) bool { return !f.OfParents() || f.Parent != Unproven || v.Doubtful() }},
	{"if two records have the same key, the pass is in doubt", func(f *Facts, v Verdict) bool { return f.Clashes == 0 || v.Doubtful() }},
	{"if duplicates differ in content, the pass is in doubt", func(f *Facts, v Verdict) bool { return f.Differing == 0 || v.Doubtful() }},
	{"if duplicates were not compared, the pass is in doubt", func(f *Facts, v Verdict) bool { return f.Uncompared == 0 || v.Doubtful() }},
	{"if the end of the list changed, the pass is in doubt", func(f *Facts, v Verdict) bool { return f.Shifted == 0 || v.Doubtful() }},
	{"if the total changed between pages, the pass is in doubt", func(f *Facts, v Verdict) bool { return f.Moved == 0 || v.Doubtful() }},
	{"if the list ended by an unknown rule, the pass is in doubt", func(f *Facts, v Verdict) bool { return f.Rule != "tired" || v.Doubtful() }},
	{"if two readings differ, the pass is in doubt", func(f *Facts, v Verdict) bool {
		return f.Second != OtherRecords || f.LastTotal >= 0 || f.object() || v.Doubtful()
	}},
	{"an incremental pass is not proven", func(f *Facts, v Verdict) bool { return !f.Partial || v != Proven }},
	{"a pass over time windows is not proven", func(f *Facts, v Verdict) bool { return !f.OfWindows() || v != Proven }},
	{"a resumed pass is not proven", func(f *Facts, v Verdict) bool { return !f.Resumed || v != Proven }},
	{"an empty list is not proven", func(f *Facts, v Verdict) bool {
		return f.Distinct+f.Filtered > 0 || f.LastTotal >= 0 || f.OfParents() || f.object() || v != Proven
	}},
	{"a list of a round size is not proven", func(f *Facts, v Verdict) bool { return !f.Round || f.LastTotal >= 0 || v != Proven }},
	{"a list that keeps its size is not proven", func(f *Facts, v Verdict) bool {
		return !f.Steady || f.Rule != "one_page" || f.Keyless || f.LastTotal >= 0 || v != Proven
	}},
	{"a list with uneven pages is not proven", func(f *Facts, v Verdict) bool { return f.Uneven == 0 || f.LastTotal >= 0 || v != Proven }},
	{"a list whose further pages never had records is not proven", func(f *Facts, v Verdict) bool { return !f.Unshown || f.LastTotal >= 0 || v != Proven }},
	{"if an earlier reading had other records, the list is not proven", func(f *Facts, v Verdict) bool { return f.Earlier == 0 || f.LastTotal >= 0 || v != Proven }},
	{"a list with pages from a cache is not proven", func(f *Facts, v Verdict) bool { return f.Stale == 0 || v != Proven }},
	{"a list without a key needs a second reading", func(f *Facts, v Verdict) bool {
		return !f.Keyless || f.Pages <= 1 || f.OfParents() || f.object() || f.Second == SameRecords || f.Reread || v != Proven
	}},
	{"one answer with an object does not prove that there is no list", func(f *Facts, v Verdict) bool {
		return !f.object() || f.ObjectKind || f.Second == SameRecords || v != Proven
	}},

	{"if the class of a stream says that it is one object, the pass is proven", func(f *Facts, v Verdict) bool { return !f.object() || !f.ObjectKind || !clean(f) || v == Proven }},
	{"if the list of parents is proven, so is the pass over the child stream", func(f *Facts, v Verdict) bool {
		return !f.OfParents() || f.Parent != Proven || f.ShortLists > 0 || f.Gone == f.Parents || f.Skipped > 0 || !clean(f) || v == Proven
	}},
	{"if the total is met, the pass is proven", func(f *Facts, v Verdict) bool {
		return f.Rule != "total" || f.Filtered > 0 || f.Keyless || !clean(f) || v == Proven
	}},
	{"if a second reading finds the same records, the pass is proven", func(f *Facts, v Verdict) bool {
		return f.Second != SameRecords || f.OfParents() || !clean(f) || v == Proven
	}},
	{"a list of one page that was read twice with equal answers is proven", func(f *Facts, v Verdict) bool { return !f.Reread || !clean(f) || v == Proven }},
}

type decisionProperty struct {
	name  string
	holds func(t *Table, v Verdict, d Decision) bool
}

func (t *Table) twice() bool {
	return t.Second == SameRecords || t.SureBefore && t.MissedBefore == t.Missed
}

var decisionProperties = []decisionProperty{
	{"a pass in doubt is held or read again", func(_ *Table, v Verdict, d Decision) bool {
		return !v.Doubtful() || d.Held != "" || d.Action == Repeat || d.Action == RequestMissing
	}},
	{"if the missing rows are unknown, none is deleted", func(t *Table, _ Verdict, d Decision) bool { return t.Swept || d.Action == Keep || d.Action == Repeat }},
	{"if the missing rows are unknown, the stream is read again", func(t *Table, _ Verdict, d Decision) bool { return t.Swept || t.Last || d.Action == Repeat }},
	{"if the missing rows are unknown after the last pass, the stream is held", func(t *Table, _ Verdict, d Decision) bool { return t.Swept || !t.Last || d.Held != "" }},
	{"only a proven pass deletes without confirmation", func(t *Table, v Verdict, d Decision) bool {
		return d.Action != Remove || v == Proven || t.Confirm && (t.Empty() && t.Second == SameRecords || t.ofOneLength())
	}},
	{"missing rows are held, deleted, or requested", func(t *Table, _ Verdict, d Decision) bool {
		return t.Missing == 0 || d.Action != Keep || d.Held != ""
	}},
	{"if no row is missing, none is deleted", func(t *Table, _ Verdict, d Decision) bool { return t.Missing > 0 || !d.deletes() }},
	{"rows that are missing from several pages are deleted only after a second reading", func(t *Table, _ Verdict, d Decision) bool {
		return d.Action != Remove || t.Pages <= 1 || t.OfParents() || t.twice()
	}},
	{"missing child rows are deleted only after a second reading", func(t *Table, _ Verdict, d Decision) bool {
		return d.Action != Remove || !t.OfParents() || t.twice() || t.accounted()
	}},
	{"if another object replaces the only object, rows are deleted only after a second reading", func(t *Table, _ Verdict, d Decision) bool { return d.Action != Remove || !t.object() || t.twice() }},
	{"if a table shrinks too much, a person must confirm", func(t *Table, _ Verdict, d Decision) bool {
		return t.Missing < 20 || t.Keyless || d.Action != Remove || t.Confirm
	}},
	{"if a list is empty, a person must confirm", func(t *Table, _ Verdict, d Decision) bool {
		return t.Distinct > 0 || t.Skipped > 0 || d.Action != Remove || t.Confirm
	}},
	{"if two readings find an empty list, a person can confirm", func(t *Table, v Verdict, d Decision) bool {
		return v != Consistent || !t.Empty() || t.Second != SameRecords || t.Missing == 0 || !t.Swept || t.Skipped > 0 || d.Action == Repeat || d.Confirm || t.Confirm
	}},
	{"rows are not deleted if they may belong to rejected records", func(t *Table, _ Verdict, d Decision) bool { return t.Rejected == 0 || t.Sorted || d.Action != Remove }},
	{"missing rows that may belong to other parents are not deleted", func(t *Table, _ Verdict, d Decision) bool { return t.Elsewhere == 0 || d.Action != Remove }},
	{"after a resumed pass, the whole list is read again", func(t *Table, _ Verdict, d Decision) bool {
		return !t.Resumed || t.Last || t.OfParents() || t.OfWindows() || t.Partial || d.Action == Repeat
	}},
	{"if child streams need a proof that a second reading can give, the list is read again", func(t *Table, v Verdict, d Decision) bool {
		return !t.Wanted || t.Last || v == Proven || !Repeatable(t.Facts) || d.Action == Repeat
	}},
	{"the rows missing from a pass in doubt are requested", func(t *Table, v Verdict, d Decision) bool {
		return !v.Doubtful() || !t.Last || !t.Swept || t.Missing != 1 || !t.Requestable || t.Requested || t.braked() || d.Action == RequestMissing
	}},
	{"a proven pass without a witness is read again", func(t *Table, v Verdict, d Decision) bool {
		return v != Proven || t.Missing == 0 || t.Last || t.Pages <= 1 || t.Rejected > 0 || t.Skipped > 0 || t.twice() || t.accounted() || d.Action == Repeat
	}},
	{"a pass in doubt deletes nothing that the source has not confirmed", func(t *Table, v Verdict, d Decision) bool {
		return !v.Doubtful() || d.Action != Remove && (d.Action != RemoveConfirmed || t.NotFound > 0)
	}},
}

// withDoubts visits all combinations of observations: first as they are, then with each doubt added. It stops when the
// function visit returns false.
func withDoubts(visit func(*Table) bool) {
	done := false
	enumerate(func(t Table) {
		if done || !visit(&t) {
			done = true
			return
		}
		for _, worse := range worsen {
			x := t
			if worse(&x); !visit(&x) {
				done = true
				return
			}
		}
	})
}

// broken returns the name of a property that does not hold with these witnesses, doubts and rules; "" if all hold.
func broken(witnesses []Witness, doubts []Doubt, rules []rule) (name string) {
	verdicts := verdictProperties
	if rules != nil {
		verdicts = nil
	}
	withDoubts(func(t *Table) bool {
		v := judge(&t.Facts, witnesses, doubts)
		for _, p := range verdicts {
			if !p.holds(&t.Facts, v) {
				name = p.name
				return false
			}
		}
		if rules == nil {
			return true
		}
		d := decide(t, rules)
		for _, p := range decisionProperties {
			if !p.holds(t, v, d) {
				name = p.name
				return false
			}
		}
		return true
	})
	return name
}

// Invariant 12
func TestProperties(t *testing.T) {
	require.Empty(t, broken(witnesses, doubts, nil))
	require.Empty(t, broken(witnesses, doubts, rules))
}

func TestEveryRuleIsNeeded(t *testing.T) {
	for i, w := range witnesses {
		require.NotEmpty(t, broken(slices.Delete(slices.Clone(witnesses), i, i+1), doubts, nil), "witness %q", w.Name)
	}
	for i, d := range doubts {
		require.NotEmpty(t, broken(witnesses, slices.Delete(slices.Clone(doubts), i, i+1), nil), "doubt %q", d.Name)
	}
	for i, r := range rules {
		require.NotEmpty(t, broken(witnesses, doubts, slices.Delete(slices.Clone(rules), i, i+1)), "rule %q", r.name)
	}
}
