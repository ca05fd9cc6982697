package proof

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
		{"nothing missing", rows(10, 0, 10, silent), Keep, false},
		{"nothing missing, children need proof", rows(10, 0, 10, silent, wanted), Repeat, false},
		{"nothing missing, children need proof, last pass", rows(10, 0, 10, silent, wanted, last), Keep, false},
		{"missing, with a total", rows(10, 1, 11), Remove, false},
		{"missing from pages, read once", rows(10, 1, 11, pages), Repeat, false},
		{"missing from pages, read twice alike", rows(10, 1, 11, pages, last, same), Remove, false},
		{"missing from pages, as many as before", rows(10, 1, 11, pages, last, before(1)), Remove, false},
		{"missing from pages, more than before", rows(10, 1, 11, pages, last, before(2)), Keep, true},
		{"missing from pages, as many as in a doubtful reading", rows(10, 1, 11, pages, last, before(1), doubtful), Keep, true},
		{"missing without a total", rows(10, 1, 11, silent), Repeat, false},
		{"missing without a total, read twice alike", rows(10, 1, 11, silent, same, last), Remove, false},
		{"missing from pages after which all are refused, read twice alike", rows(10, 1, 11, silent, pages, same, last, refused), Keep, true},
		{"missing from pages after which all are refused, confirmed", rows(10, 1, 11, silent, pages, same, last, refused, confirm), Remove, false},
		{"nothing missing from pages after which all are refused", rows(10, 0, 10, silent, pages, same, last, refused), Keep, false},
		{"missing from a round page: another reading proves nothing", rows(10, 1, 11, silent, round), Keep, true},
		{"missing from a list that shows a part", rows(10, 1, 11, subset), Keep, false},
		{"nothing left of a list that shows a part", rows(0, 3, 3, subset), Keep, false},
		{"rest of a list that shows a part", rows(10, 3, 13, silent, unknown, resumed, subset, last), Keep, false},
		{"a list that moved and shows a part", rows(10, 0, 10, drifted, subset), Repeat, false},
		{"missing without a total in the last reading", rows(10, 1, 11, silent, last), Keep, true},
		{"one object where a list was", rows(1, 60, 61, object(false)), Repeat, false},
		{"one object where a list was, last pass", rows(1, 60, 61, object(false), last), Keep, true},
		{"one object where a list was, twice", rows(1, 60, 61, object(false), last, same), Keep, true},
		{"another object, once", rows(1, 1, 2, object(true)), Repeat, false},
		{"another object, twice", rows(1, 1, 2, object(true), same, last), Remove, false},
		{"missing below parents that are not proven", rows(10, 1, 11, below(Consistent)), Keep, true},
		{"missing below proven parents, read once", rows(10, 1, 11, below(Proven)), Repeat, false},
		{"missing below proven parents, as many as before", rows(10, 1, 11, below(Proven), before(1), last), Remove, false},
		{"missing below proven parents, others than before", rows(10, 1, 11, below(Proven), before(3), last), Keep, true},
		{"missing below proven parents, each with its one record", rows(3, 1, 4, below(Proven), each), Remove, false},
		{"missing below proven parents, one of them without a record", rows(2, 1, 3, below(Proven), each), Repeat, false},
		{"missing below proven parents, one of them not found", rows(2, 1, 3, below(Proven), each, func(t *Table) { t.Gone = 1 }), Remove, false},
		{"missing below a parent that was not requested", rows(10, 1, 11, below(Proven), skipped(1)), Repeat, false},
		{"missing below a parent that was not requested, last pass", rows(10, 1, 11, below(Proven), skipped(1), last), Keep, true},
		{"missing and rejected", rows(10, 1, 11, rejected), Keep, true},
		{"missing, and others are rejected", rows(10, 1, 11, rejected, sorted), Remove, false},
		{"rejected only", rows(10, 0, 10, rejected), Keep, false},
		{"a list that moved", rows(10, 0, 10, drifted), Repeat, false},
		{"a list that moved twice", rows(10, 0, 10, drifted, last), Keep, true},
		{"an unexplained signal: another reading would not help", rows(10, 0, 10, silent, unexplained), Keep, true},
		{"an unexplained signal, rows missing", rows(10, 3, 13, silent, unexplained), Keep, true},
		{"an incomplete answer", rows(10, 3, 13, incomplete), Repeat, false},
		{"an incomplete answer, twice", rows(10, 3, 13, incomplete, last, same), Keep, true},
		{"contradicted", rows(10, 0, 10, stated(11)), Repeat, false},
		{"contradicted twice", rows(10, 5, 10, stated(11), last), Keep, true},
		{"resumed, rows unknown", rows(10, 3, 13, resumed, unknown), Repeat, false},
		{"resumed below parents, rows unknown", rows(10, 3, 13, resumed, unknown, below(Proven)), Repeat, false},
		{"new rows of counted pages, some of them short", rows(10, 0, 10, silent, pages, counted, uneven, fresh), Repeat, false},
		{"new rows of counted pages, some of them short, read twice alike", rows(10, 0, 10, silent, pages, counted, uneven, fresh, same), Keep, false},
		{"no new rows of counted pages, some of them short", rows(10, 0, 10, silent, pages, counted, uneven), Keep, false},
		{"missing from a list that keeps its length", rows(10, 1, 11, silent, once, steady), Keep, true},
		{"missing from a list that keeps its length, confirmed", rows(10, 1, 11, silent, once, steady, confirm), Remove, false},
		{"missing from a list that keeps a round length, confirmed", rows(10, 1, 11, silent, once, steady, round, confirm), Keep, true},
		{"resumed, and nothing missing", rows(4, 0, 10, silent, resumed), Repeat, false},
		{"resumed, and the total met", rows(4, 0, 10, resumed, stated(10)), Repeat, false},
		{"resumed, and the total not met", rows(4, 0, 10, resumed, stated(11)), Repeat, false},
		{"resumed below parents", rows(4, 0, 10, resumed, below(Proven)), Keep, false},
		{"keyless pages with new rows: only a second reading shows that they moved", rows(10, 0, 10, keyless(3), pages, counted), Repeat, false},
		{"keyless pages without new rows", rows(10, 0, 10, keyless(0), pages, counted), Keep, false},
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
		{"all gone, confirmed but not proven", rows(0, 3, 3, silent, confirm, last), Keep, true},
		{"empty twice without a total", rows(0, 3, 3, silent, same, last), Keep, true},
		{"empty twice without a total, confirmed", rows(0, 3, 3, silent, same, last, confirm), Remove, false},
		{"an empty list over an empty table", rows(0, 0, 0), Keep, false},
		{"500 rows without a key, all changed", rows(500, 500, 1000, keyless(500)), Remove, false},
		{"500 rows without a key, 200 left", rows(200, 500, 700, keyless(200)), Keep, true},
		{"not proven, and records can be requested", rows(10, 1, 11, silent, last, requestable), RequestMissing, false},
		{"half of the table, and records can be requested", rows(5, 5, 10, silent, last, requestable), Keep, true},
		{"not proven, and the source says that all are gone", rows(10, 2, 12, silent, last, requested(2, 2)), RemoveConfirmed, false},
		{"not proven, and the source has one of them", rows(10, 2, 12, silent, last, requested(2, 1)), RemoveConfirmed, true},
		{"not proven, and the source has both", rows(10, 2, 12, silent, last, requested(2, 0)), Keep, true},
		{"not proven, and the source does not answer", rows(10, 2, 12, silent, last, requested(0, 0)), Keep, true},
		{"contradicted, and the source says that all are gone", rows(10, 2, 12, stated(11), last, requested(2, 2)), RemoveConfirmed, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Decide(tt.t)
			require.Equal(t, tt.action, d.Action, "action by %q", d.Rule)
			require.Equal(t, tt.held, d.Held != "", "held: %q", d.Held)
		})
	}
}
