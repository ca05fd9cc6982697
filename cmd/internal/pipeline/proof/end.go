package proof

// Known says how the end of a list is known.
type Known string

// How an end is known. Certificates store it.
const (
	Stated     Known = "stated"      // by a total that equals the distinct records, a last page that was reached, or a flag for more
	WalkedPast Known = "walked past" // a page beyond the end is empty, or repeats the last one
	Whole      Known = "whole"       // the list has one page and ignores every parameter for others
	Object     Known = "one object"  // the answer is no list
	Parts      Known = "parts"       // each parent or window was requested, and reached an end of its own
	Recently   Known = "recent"      // incremental: what follows is older than what is known
)

// end is what a rule of the extractor means.
type end struct {
	known Known
	words string
}

// ends are the rules by which a pass may end, by the extractor's names.
var ends = map[string]end{
	"one_page":   {Whole, "ended with its only page"},
	"last_page":  {Stated, "ended with the last page it names"},
	"total":      {Stated, "ended at its total"},
	"no_next":    {Stated, "ended where it names no next page"},
	"empty_page": {WalkedPast, "ended by an empty page"},
	"repeat":     {WalkedPast, "ended where its last page came again"},
	"single":     {Object, "one object"},
	"parents":    {Parts, "every parent was requested"},
	"windows":    {Parts, "every window was requested"},
	"older":      {Recently, "ended at a page of records older than the edge"},
}

// End says how the end of the list is known; "" for a rule that nothing is known
// of.
func (f *Facts) End() Known {
	if f.settled() && !f.OfParents() && !f.OfWindows() && !f.object() {
		return Stated
	}
	return ends[f.Rule].known
}
