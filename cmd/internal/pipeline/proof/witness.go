package proof

import "fmt"

// Witness is a reason to hold that a pass is complete.
type Witness struct {
	Name  string
	holds func(*Facts) bool
	says  func(*Facts) string
}

// applies reports whether the witness holds, unless f is without it.
func (w *Witness) applies(f *Facts) bool { return w.Name != f.without && w.holds(f) }

// witnesses are all there are. One is enough, where no [Doubt] applies. The
// first that holds is the one that a report names.
var witnesses = []Witness{
	{"object", oneObject, func(*Facts) string { return "the stream has one object by definition" }},
	{"parents", everyParent, func(f *Facts) string {
		text := fmt.Sprintf("every one of %d parents of a proven list was requested", f.Parents)
		if f.Gone > 0 {
			text += fmt.Sprintf("; of %d of them the source has nothing", f.Gone)
		}
		return text
	}},
	{"second reading", readTwice, func(f *Facts) string { return fmt.Sprintf("two readings found the same %d records", f.Listed()) }},
	{"total", statedTotal, func(f *Facts) string {
		return fmt.Sprintf("the source states %d records, and %d distinct records arrived", int64(f.LastTotal), f.Distinct)
	}},
	{"reread", sentTwice, func(f *Facts) string {
		return fmt.Sprintf("the list came on one page, and the same %d records came again", f.Listed())
	}},
}

// oneObject holds where the stream has never been a list.
func oneObject(f *Facts) bool { return f.object() && f.ObjectKind }

// everyParent holds where the list of parents is proven and each of them has
// given its records. Were every parent gone, the module would be, and not the
// parents. A parent that was not requested still has its record if it has one by
// definition; what a list below it holds by now is not known.
func everyParent(f *Facts) bool {
	return f.OfParents() && f.Parent == Proven && f.ShortLists == 0 &&
		(f.Gone < f.Parents || f.Parents == 0) && (f.Skipped == 0 || f.OnePerItem)
}

// readTwice holds where two whole readings found the same records.
func readTwice(f *Facts) bool { return f.Second == SameRecords && !f.OfParents() }

// statedTotal holds where the source states as many records as came.
func statedTotal(f *Facts) bool { return f.totalMet() && !f.OfParents() && !f.object() }

// sentTwice holds where the source sent its only page twice, and the same.
func sentTwice(f *Facts) bool { return f.Reread && !f.OfParents() }
