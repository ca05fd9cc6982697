package proof

import (
	"testing"

	"github.com/stretchr/testify/require"
)

type values []func(*Table)

func none(*Table) {}

// observations are the facts that enumerate combines in all ways. In each list, the best value comes first.
var observations = []values{
	{
		none,
		func(t *Table) { t.Rule, t.FirstTotal, t.LastTotal = "total", 10, 10 },
		func(t *Table) { t.Pages, t.Reread, t.Rule = 1, true, "one_page" },
		func(t *Table) { t.Rule, t.Pages, t.Distinct = "single", 1, 1 },
		func(t *Table) { t.Rule, t.Pages, t.Distinct, t.ObjectKind = "single", 1, 1, true },
		func(t *Table) { t.Rule, t.Parents, t.Parent, t.OnePerItem = "parents", 3, Proven, true },
		func(t *Table) { t.Rule, t.Parents, t.Parent, t.Skipped = "parents", 3, Proven, 2 },
		func(t *Table) { t.Rule, t.Windows = "windows", 3 },
		func(t *Table) { t.Distinct = 0 },
	},
	{none, func(t *Table) { t.Second = SameRecords }, func(t *Table) { t.Second = OtherRecords }},
	{none, func(t *Table) { t.Pages = 1 }},
	{none, func(t *Table) { t.Keyless = true }},
	{none, func(t *Table) { t.Counted, t.Inserted = true, 1 }},
	{func(t *Table) { t.Missing, t.Missed, t.Alive = 1, 1, 40 }, none, func(t *Table) { t.Missing, t.Missed, t.Alive = 30, 30, 40 }},
	{none, func(t *Table) { t.SureBefore, t.MissedBefore = true, t.Missed }},
	{none, func(t *Table) { t.Requestable = true }, func(t *Table) { t.Requestable, t.Requested, t.Answered, t.NotFound = true, true, 1, 1 },
		func(t *Table) { t.Requestable, t.Requested, t.Answered, t.NotFound = true, true, 1, 0 }},
	{none, func(t *Table) { t.Last = true }},
	{none, func(t *Table) { t.Confirm = true }},
	{none, func(t *Table) { t.Wanted = true }},
}

// worsen maps names to changes of a Table. Each change makes a doubt apply, or removes a reason to trust the pass.
var worsen = map[string]func(*Table){
	"total changed":                    func(t *Table) { t.FirstTotal = t.LastTotal + 7 },
	"total is larger":                  func(t *Table) { t.FirstTotal, t.LastTotal = 17, 17 },
	"records cannot be read":           func(t *Table) { t.Gaps = 1 },
	"records cannot be stored":         func(t *Table) { t.Unstored = 1 },
	"answer is incomplete":             func(t *Table) { t.Incomplete = []string{"status 206"} },
	"signal is unexplained":            func(t *Table) { t.Unexplained = []string{"/links: [...]"} },
	"signal states a larger number":    func(t *Table) { t.Unexplained = []string{"/hits: 63"} },
	"twin has more":                    func(t *Table) { t.Twin = &Difference{There: 1} },
	"records came twice":               func(t *Table) { t.Pages, t.Duplicates = max(2, t.Pages), 1 },
	"two records have one key":         func(t *Table) { t.Clashes, t.Clash = 1, "7" },
	"duplicates differ":                func(t *Table) { t.Differing = 1 },
	"duplicates are not compared":      func(t *Table) { t.Uncompared = 1 },
	"end changed":                      func(t *Table) { t.Shifted = 1 },
	"total moved":                      func(t *Table) { t.Moved = 1 },
	"second reading has other records": func(t *Table) { t.Second = OtherRecords },
	"end rule is unknown":              func(t *Table) { t.Rule = "tired" },
	"pass is incremental":              func(t *Table) { t.Partial = true },
	"another process began the pass":   func(t *Table) { t.Resumed = true },
	"size is round":                    func(t *Table) { t.Round = true },
	"size stays the same":              func(t *Table) { t.Longest, t.Steady = t.Listed(), true },
	"size is a usual page size":        func(t *Table) { t.Round, t.Guessed = true, true },
	"pages overlap":                    func(t *Table) { t.Alike = 3 },
	"total is on the first page":       func(t *Table) { t.FirstTotal, t.LastTotal = 17, -1 },
	"pages are uneven":                 func(t *Table) { t.Uneven = 1 },
	"further pages are not shown":      func(t *Table) { t.Unshown = true },
	"earlier reading has more":         func(t *Table) { t.Earlier = 1 },
	"pages came from a cache":          func(t *Table) { t.Stale = 1 },
	"parents are only consistent":      func(t *Table) { t.Parent = Consistent },
	"parents are in doubt":             func(t *Table) { t.Parent = Unproven },
	"parents are unknown":              func(t *Table) { t.Parent = "" },
	"list of a parent was cut":         func(t *Table) { t.ShortLists = 1 },
	"parents are all gone":             func(t *Table) { t.Gone = t.Parents },
	"object may be a list":             func(t *Table) { t.ObjectKind = false },
	"filter left records out":          func(t *Table) { t.Filtered, t.Distinct = min(3, t.Distinct), t.Distinct-min(3, t.Distinct) },
	"second reading is missing":        func(t *Table) { t.unread() },
	"earlier reading missed more":      func(t *Table) { t.MissedBefore = t.Missed + 1; t.unread() },
	"no key tells records apart":       func(t *Table) { t.Keyless = true },
	"records were rejected":            func(t *Table) { t.Rejected = min(1, t.Distinct) },
	"rows may have other parents":      func(t *Table) { t.spareOne() },
	"source has the record":            func(t *Table) { t.NotFound = 0 },
	"rows are unknown":                 func(t *Table) { t.Swept = false },
	"not confirmed":                    func(t *Table) { t.Confirm = false },
}

func (t *Table) unread() {
	if t.Second == SameRecords {
		t.Second = ""
	}
	if t.SureBefore = false; t.MissedBefore == t.Missed {
		t.MissedBefore++
	}
}

func (t *Table) spareOne() {
	if t.OfParents() {
		t.Skipped, t.Elsewhere = max(1, t.Skipped), 1
	}
}

func enumerate(visit func(Table)) (n int) {
	every := 1
	if testing.Short() {
		every = 17
	}
	var walk func(t Table, rest []values)
	walk = func(t Table, rest []values) {
		if len(rest) == 0 {
			if n++; n%every == 0 {
				visit(t)
			}
			return
		}
		for _, set := range rest[0] {
			next := t
			set(&next)
			walk(next, rest[1:])
		}
	}
	walk(Table{Facts: pass(10), Swept: true}, observations)
	return n
}

func (d Decision) deletes() bool { return d.Action == Remove || d.Action == RemoveConfirmed }

// An additional doubt never improves a verdict, and never causes a deletion. // Invariant 12
func TestDoubtsOnlyTakeAway(t *testing.T) {
	wrong := map[string]int{}
	n := enumerate(func(x Table) {
		before, decided := Judge(x.Facts), Decide(x)
		for name, worse := range worsen {
			y := x
			worse(&y)
			if before.Worse(Judge(y.Facts)) {
				wrong["raises the verdict: "+name]++
			}
			if d := Decide(y); d.deletes() && !decided.deletes() && (decided.Held != "" || decided.Action == Keep) {
				wrong["deletes: "+name]++
			}
		}
	})
	require.Greater(t, n, 10_000)
	require.Empty(t, wrong)
}
