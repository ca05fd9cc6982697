package paging

// The rules by which a list may end.
const (
	RuleOnePage   = "one_page"   // the list ignores paging parameters, so its first page is all of it
	RuleLastPage  = "last_page"  // the last page was reached, by the page number that the list states
	RuleTotal     = "total"      // the total that the list states was reached
	RuleNoNext    = "no_next"    // the answer has no next link or cursor, or says that there is no more
	RuleEmptyPage = "empty_page" // the page after the end is empty, or the server refuses it
)
