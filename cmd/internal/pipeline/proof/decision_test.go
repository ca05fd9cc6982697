package proof

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// rows returns a table after a pass over a list of one page with n records. The source states n as the total. The
// parameter missing is the number of rows that the pass did not contain; alive is the number of live rows of the table.
func rows(n, missing, alive int64, change ...func(*Table)) Table {
	t := Table{Facts: pass(n, total(Total(n), Total(n)), func(f *Facts) { f.Pages = 1 }), Swept: true, Missing: missing, Missed: missing, Alive: alive}
	for _, c := range change {
		c(&t)
	}
	return t
}

func TestDecide(t *testing.T) {
	last := func(t *Table) { t.Last = true }
	silent := func(t *Table) { t.FirstTotal, t.LastTotal = None, None }
	pages := func(t *Table) { t.Pages = 2 }
	before := func(missed int64) func(*Table) {
		return func(t *Table) { t.SureBefore, t.MissedBefore = true, missed }
	}
	same := func(t *Table) { t.Second = SameRecords }
	drifted := func(t *Table) { t.Shifted = 1 }
	doubtful := func(t *Table) { t.SureBefore = false }
	confirm := func(t *Table) { t.Confirm = true }
	wanted := func(t *Table) { t.Wanted = true }
	rejected := func(t *Table) { t.Rejected = 1 }
	sorted := func(t *Table) { t.Sorted = true }
	below := func(v Verdict) func(*Table) {
		return func(t *Table) { t.FirstTotal, t.LastTotal, t.Rule, t.Parents, t.Parent = None, None, "parents", 3, v }
	}
	each := func(t *Table) { t.OnePerItem = true }
	unknown := func(t *Table) { t.Swept = false }
	resumed := func(t *Table) { t.Resumed = true }
	stated := func(n Total) func(*Table) { return func(t *Table) { t.FirstTotal, t.LastTotal = n, n } }
	round := func(t *Table) { t.Round = true }
	uneven := func(t *Table) { t.Uneven = 1 }
	fresh := func(t *Table) { t.Inserted = 3 }
	once := func(t *Table) { t.Rule, t.Reread = "one_page", true }
	steady := func(t *Table) { t.Longest, t.Steady = t.Listed(), true }
	refused := func(t *Table) { t.Refused, t.Counted = true, true }
	subset := func(t *Table) { t.Subset = true }
	keyless := func(inserted int64) func(*Table) {
		return func(t *Table) { t.Keyless, t.Inserted = true, inserted }
	}
	requestable := func(t *Table) { t.Requestable = true }
	requested := func(answered, gone int64) func(*Table) {
		return func(t *Table) { t.Requestable, t.Requested, t.Answered, t.NotFound = true, true, answered, gone }
	}
	skipped := func(elsewhere int64) func(*Table) {
		return func(t *Table) { t.Skipped, t.OnePerItem, t.Elsewhere = 7, true, elsewhere }
	}
	unexplained := func(t *Table) { t.Unexplained = []string{"header X-Next: abc"} }
	incomplete := func(t *Table) { t.Incomplete = []string{"/partial: true"} }
	object := func(known bool) func(*Table) {
		return func(t *Table) { t.FirstTotal, t.LastTotal, t.Rule, t.ObjectKind = None, None, "single", known }
	}
	counted := func(t *Table) { t.Counted = true }

	tests := []struct {
		name   string
		t      Table
		action Action
		held   bool
	}{
		{"no row is missing", rows(10, 0, 10, silent), Keep, false},
		{"no row is missing, and child streams need a proof", rows(10, 0, 10, silent, wanted), Repeat, false},
		{"no row is missing, and child streams need a proof, in the last pass", rows(10, 0, 10, silent, wanted, last), Keep, false},
		{"a row is missing, and the total is met", rows(10, 1, 11), Remove, false},
		{"the first reading of several pages lacks a row", rows(10, 1, 11, pages), Repeat, false},
		{"two equal readings of several pages lack a row", rows(10, 1, 11, pages, last, same), Remove, false},
		{"a reading of several pages lacks one row, and so did the previous reading", rows(10, 1, 11, pages, last, before(1)), Remove, false},
		{"a reading of several pages lacks one row, and the previous reading lacked two", rows(10, 1, 11, pages, last, before(2)), Keep, true},
		{"a reading of several pages lacks one row, and so did the previous reading, which is in doubt", rows(10, 1, 11, pages, last, before(1), doubtful), Keep, true},
		{"a row is missing, and there is no total", rows(10, 1, 11, silent), Repeat, false},
		{"two equal readings lack a row, and there is no total", rows(10, 1, 11, silent, same, last), Remove, false},
		{"two equal readings lack a row, and further pages are refused", rows(10, 1, 11, silent, pages, same, last, refused), Keep, true},
		{"a row is missing, and further pages are refused, but a person confirms", rows(10, 1, 11, silent, pages, same, last, refused, confirm), Remove, false},
		{"no row is missing, and further pages are refused", rows(10, 0, 10, silent, pages, same, last, refused), Keep, false},
		{"a row is missing from a page of a round size, so another reading proves nothing", rows(10, 1, 11, silent, round), Keep, true},
		{"a row is missing from a list that shows only a part", rows(10, 1, 11, subset), Keep, false},
		{"a list that shows only a part is empty", rows(0, 3, 3, subset), Keep, false},
		{"the rest of a list that shows only a part", rows(10, 3, 13, silent, unknown, resumed, subset, last), Keep, false},
		{"a list that shows only a part changed while it was read", rows(10, 0, 10, drifted, subset), Repeat, false},
		{"the last reading lacks a row, and there is no total", rows(10, 1, 11, silent, last), Keep, true},
		{"one object in place of a list", rows(1, 60, 61, object(false)), Repeat, false},
		{"one object in place of a list, in the last pass", rows(1, 60, 61, object(false), last), Keep, true},
		{"one object in place of a list, in two readings", rows(1, 60, 61, object(false), last, same), Keep, true},
		{"a stream of one object returns another object, in one reading", rows(1, 1, 2, object(true)), Repeat, false},
		{"a stream of one object returns another object, in two readings", rows(1, 1, 2, object(true), same, last), Remove, false},
		{"a child row is missing, and the list of parents is not proven", rows(10, 1, 11, below(Consistent)), Keep, true},
		{"a child row is missing below proven parents, in the first reading", rows(10, 1, 11, below(Proven)), Repeat, false},
		{"one child row is missing below proven parents, and one was missing in the previous reading", rows(10, 1, 11, below(Proven), before(1), last), Remove, false},
		{"one child row is missing below proven parents, and three were missing in the previous reading", rows(10, 1, 11, below(Proven), before(3), last), Keep, true},
		{"a child row is missing, and each proven parent returned its only record", rows(3, 1, 4, below(Proven), each), Remove, false},
		{"a child row is missing, and one proven parent returned no record", rows(2, 1, 3, below(Proven), each), Repeat, false},
		{"a child row is missing, and one proven parent was not found", rows(2, 1, 3, below(Proven), each, func(t *Table) { t.Gone = 1 }), Remove, false},
		{"a row is missing that may belong to a parent that was not requested", rows(10, 1, 11, below(Proven), skipped(1)), Repeat, false},
		{"a row is missing that may belong to a parent that was not requested, in the last pass", rows(10, 1, 11, below(Proven), skipped(1), last), Keep, true},
		{"a row is missing, and a rejected record may belong to it", rows(10, 1, 11, rejected), Keep, true},
		{"a row is missing, and the rejected record belongs to another row", rows(10, 1, 11, rejected, sorted), Remove, false},
		{"a record was rejected, and no row is missing", rows(10, 0, 10, rejected), Keep, false},
		{"a list changed while it was read", rows(10, 0, 10, drifted), Repeat, false},
		{"a list changed while it was read, in the last pass too", rows(10, 0, 10, drifted, last), Keep, true},
		{"an unexplained signal: another reading would not help", rows(10, 0, 10, silent, unexplained), Keep, true},
		{"an unexplained signal, and rows are missing", rows(10, 3, 13, silent, unexplained), Keep, true},
		{"an incomplete answer", rows(10, 3, 13, incomplete), Repeat, false},
		{"an incomplete answer, in two readings", rows(10, 3, 13, incomplete, last, same), Keep, true},
		{"the total contradicts the pass", rows(10, 0, 10, stated(11)), Repeat, false},
		{"the total contradicts the last pass too", rows(10, 5, 10, stated(11), last), Keep, true},
		{"a resumed pass does not know which rows are missing", rows(10, 3, 13, resumed, unknown), Repeat, false},
		{"a resumed pass over a child stream does not know which rows are missing", rows(10, 3, 13, resumed, unknown, below(Proven)), Repeat, false},
		{"numbered pages with new rows, and one page is short", rows(10, 0, 10, silent, pages, counted, uneven, fresh), Repeat, false},
		{"numbered pages with new rows, and one page is short, in two equal readings", rows(10, 0, 10, silent, pages, counted, uneven, fresh, same), Keep, false},
		{"numbered pages without new rows, and one page is short", rows(10, 0, 10, silent, pages, counted, uneven), Keep, false},
		{"a row is missing from a list that keeps its length", rows(10, 1, 11, silent, once, steady), Keep, true},
		{"a row is missing from a list that keeps its length, but a person confirms", rows(10, 1, 11, silent, once, steady, confirm), Remove, false},
		{"a row is missing from a list that keeps a round length, and a person confirms", rows(10, 1, 11, silent, once, steady, round, confirm), Keep, true},
		{"a resumed pass, and no row is missing", rows(4, 0, 10, silent, resumed), Repeat, false},
		{"a resumed pass, and the total is met", rows(4, 0, 10, resumed, stated(10)), Repeat, false},
		{"a resumed pass, and the total is not met", rows(4, 0, 10, resumed, stated(11)), Repeat, false},
		{"a resumed pass over a child stream", rows(4, 0, 10, resumed, below(Proven)), Keep, false},
		{"new rows without a key: only a second reading shows whether records moved between pages", rows(10, 0, 10, keyless(3), pages, counted), Repeat, false},
		{"several pages without a key, and no new rows", rows(10, 0, 10, keyless(0), pages, counted), Keep, false},
		{"4 of 9 gone", rows(5, 4, 9), Remove, false},
		{"5 of 9 gone", rows(4, 5, 9), Remove, false},
		{"4 of 10 gone", rows(6, 4, 10), Remove, false},
		{"5 of 10 gone", rows(5, 5, 10), Keep, true},
		{"5 of 10 gone, confirmed", rows(5, 5, 10, confirm), Remove, false},
		{"100 of 201 gone", rows(101, 100, 201), Remove, false},
		{"101 of 1010 gone", rows(909, 101, 1010), Remove, false},
		{"101 of 1009 gone", rows(908, 101, 1009), Keep, true},
		{"101 of 1009 gone, confirmed", rows(908, 101, 1009, confirm), Remove, false},
		{"all of 3 gone", rows(0, 3, 3), Keep, true},
		{"all of 3 gone, confirmed", rows(0, 3, 3, confirm), Remove, false},
		{"all rows are missing from a pass that is not proven, and a person confirms", rows(0, 3, 3, silent, confirm, last), Keep, true},
		{"the list is empty in two readings, without a total", rows(0, 3, 3, silent, same, last), Keep, true},
		{"the list is empty in two readings, without a total, and a person confirms", rows(0, 3, 3, silent, same, last, confirm), Remove, false},
		{"an empty list and an empty table", rows(0, 0, 0), Keep, false},
		{"500 rows without a key, and all of them have changed", rows(500, 500, 1000, keyless(500)), Remove, false},
		{"500 rows without a key, and only 200 new ones", rows(200, 500, 700, keyless(200)), Keep, true},
		{"not proven, and the missing records can be requested", rows(10, 1, 11, silent, last, requestable), RequestMissing, false},
		{"half of the table is missing, and its records can be requested", rows(5, 5, 10, silent, last, requestable), Keep, true},
		{"not proven, and the source reports all missing records as gone", rows(10, 2, 12, silent, last, requested(2, 2)), RemoveConfirmed, false},
		{"not proven, and the source has one of the two missing records", rows(10, 2, 12, silent, last, requested(2, 1)), RemoveConfirmed, true},
		{"not proven, and the source has both missing records", rows(10, 2, 12, silent, last, requested(2, 0)), Keep, true},
		{"not proven, and the source does not answer", rows(10, 2, 12, silent, last, requested(0, 0)), Keep, true},
		{"the total contradicts the pass, and the source reports all missing records as gone", rows(10, 2, 12, stated(11), last, requested(2, 2)), RemoveConfirmed, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Decide(tt.t)
			require.Equal(t, tt.action, d.Action, "action by %q", d.Rule)
			require.Equal(t, tt.held, d.Held != "", "held: %q", d.Held)
		})
	}
}
