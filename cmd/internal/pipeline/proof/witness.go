package proof

import "fmt"

// Witness is a reason to believe that a pass is complete.
type Witness struct {
	Name   string
	holds  func(*Facts) bool
	reason func(*Facts) string
}

func (w *Witness) applies(f *Facts) bool { return w.Name != f.without && w.holds(f) }

// witnesses are the reasons for the verdict proven. One witness that holds is enough if no [Doubt] applies. Reports
// name the first witness that holds.
var witnesses = []Witness{
	{"object", oneObject, func(*Facts) string { return "the stream is one object, not a list" }},
	{"parents", everyParent, func(f *Facts) string {
		text := fmt.Sprintf("each of the %d parents of a proven list was requested", f.Parents)
		if f.Gone > 0 {
			text += fmt.Sprintf("; %d of them are gone from the source", f.Gone)
		}
		return text
	}},
	{"second reading", readTwice, func(f *Facts) string { return fmt.Sprintf("two readings found the same %d records", f.Listed()) }},
	{"total", statedTotal, func(f *Facts) string {
		return fmt.Sprintf("the source states %d records, and %d distinct records arrived", int64(f.LastTotal), f.Distinct)
	}},
	{"reread", sentTwice, func(f *Facts) string {
		return fmt.Sprintf("the list has one page, and a second request returned the same %d records", f.Listed())
	}},
}

func oneObject(f *Facts) bool { return f.object() && f.ObjectKind }

// everyParent reports whether the list of parents is proven and each parent returned its records. If every parent is
// gone, probably the whole module is gone, and that proves nothing. If a parent can have several records, no parent
// may be skipped, because its records may have changed.
func everyParent(f *Facts) bool {
	return f.OfParents() && f.Parent == Proven && f.ShortLists == 0 &&
		(f.Gone < f.Parents || f.Parents == 0) && (f.Skipped == 0 || f.OnePerItem)
}

func readTwice(f *Facts) bool { return f.Second == SameRecords && !f.OfParents() }

func statedTotal(f *Facts) bool { return f.totalMet() && !f.OfParents() && !f.object() }

func sentTwice(f *Facts) bool { return f.Reread && !f.OfParents() }
