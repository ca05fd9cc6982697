package proof

// Known is the kind of evidence that a list has ended.
type Known string

// The kinds of evidence for an end. Certificates store them.
const (
	Stated     Known = "stated"      // the source shows the end: its total equals the number of distinct records, it names the last page, or it names no next page
	WalkedPast Known = "walked past" // a page beyond the end is empty or repeats the last page
	Whole      Known = "whole"       // the list has one page and ignores every paging parameter
	Object     Known = "one object"  // the answer is not a list
	Parts      Known = "parts"       // every parent or window was requested and reached its own end
	Recently   Known = "recent"      // the rest of the list has only records that earlier passes have read and that have not changed since
)

type end struct {
	known Known
	words string
}

var ends = map[string]end{
	"one_page":   {Whole, "ended with its only page"},
	"last_page":  {Stated, "ended with the page that it names as the last"},
	"total":      {Stated, "ended at its total"},
	"no_next":    {Stated, "ended with a page that names no next one"},
	"empty_page": {WalkedPast, "ended with an empty page"},
	"repeat":     {WalkedPast, "ended when its last page came again"},
	"single":     {Object, "one object"},
	"parents":    {Parts, "every parent was requested"},
	"windows":    {Parts, "every window was requested"},
	"older":      {Recently, "ended at a page without new changes"},
}

// End returns how the end of the list is known; "" for an unknown rule.
func (f *Facts) End() Known {
	if f.settled() && !f.OfParents() && !f.OfWindows() && !f.object() {
		return Stated
	}
	return ends[f.Rule].known
}
