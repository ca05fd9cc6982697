package extract

import (
	"time"

	"github.com/penstock-data/penstock/state"
)

// Page is one step of a pass: records and the position after them.
type Page struct {
	// Records is a JSON array of records. If possible, it is a slice of the response body. Records
	// from boards, maps or groups are copied into one array. Records is valid until the loop
	// continues.
	Records []byte

	Next     state.Cursor // position after this page; store it only together with its rows
	Requests int          // HTTP requests for this page, including retries
	Bytes    int64        // size of the response bodies, decompressed
	Total    int64        // number of records in the list, as the list states it; -1 if it states none
	Gaps     []Gap        // records of this page that the server could not return

	Files   []File   // files that the records on this page describe; the caller may keep them
	Windows *Windows // progress of a pass over time windows; else nil
	Parents []Parent // fan-out: parents whose last records are on this page, in order

	End *End // on the last page of a pass, else nil

	// Older reports for each record whether it was last changed before Edge. Earlier passes have
	// read all changes up to Edge, so such a record cannot be new. Older is nil if there is no
	// edge, as in a first pass.
	Older []bool
	Edge  time.Time

	Partial bool // in an incremental run: the pass leaves out unchanged records

	cuts []int // offsets in Records at which parts begin; see Parts
}

// Windows is the progress of a pass over time windows.
type Windows struct {
	Done, Of int // windows that were read, and their number; Of is 0 if it is not known yet
}

// End is what a pass knows about its own completeness. The certificate contains End, and two facts
// from the destination: the number of distinct keys, and the number of rows that came twice.
type End struct {
	Rule       string // how the end was reached: see the Rule constants
	Resumed    bool   // an earlier process began the pass
	Pages      int
	FirstTotal int64     // total on the first page; -1 for none
	LastTotal  int64     // total on the last page; -1 for none
	Reread     bool      // the records were read twice and were the same
	Round      bool      // the list may have been cut by a hidden limit, because its number of records is round or its end was not shown
	Refused    bool      // the server refused the page after a full one: the list ended, or the source returns no more pages
	Counted    bool      // pages were requested by number or offset, so a deleted record shifts all records after it
	Drift      Drift     // signs that the list changed while it was read
	Gaps       []Gap     // records of the list that the server could not return
	Parents    int       // fan-out: parents that were requested
	Skipped    int       // fan-out: parents that the caller chose to skip
	Gone       int       // fan-out: parents that no longer exist
	Short      int       // parents or windows whose list has another number of records than its total, or may have been cut
	Windows    int       // time windows that were requested
	Partial    bool      // in an incremental run: unchanged records were left out
	Since      time.Time // in an incremental run: records changed before it were left out; zero if none were
	Misplaced  string    // how the list breaks the order by latest change, on which incremental passes rely; "" if it does not
	Note       string    // further information for people

	// ParentList is how the list of parents was read, if it was read only for this fan-out. It is
	// nil if a pass over the parent stream provided the parents.
	ParentList *ParentList

	// Unexplained are signals that may announce more records and that no rule explains, for example
	// "header X-Next: abc" or "/meta/remaining: 63". While there is one, the verdict is not better
	// than unproven.
	Unexplained []string

	// Incomplete are statements of the source that its answer lacks records, for example "/partial:
	// true" or "status 206".
	Incomplete []string

	// PathOnly reports that the user configured only the path of the list. So only probes show how
	// the list is paged.
	PathOnly bool

	// OnePageOnly reports that only the first page held records, so nothing shows that further pages
	// are requested correctly.
	OnePageOnly bool
}

// ParentList is a reading of a parent stream that was made only for its child streams.
type ParentList struct {
	End      End
	Records  int64 // number of records read
	Repeats  int64 // number of these that had come before
	Repeated bool  // a second reading found the same records
}

// The rules by which a pass may end. A pass that stops for any other reason, such as an exhausted
// limit, ends with an error. // Invariant 14
const (
	RuleOnePage   = "one_page"   // the list ignores paging parameters, so its first page is all of it
	RuleLastPage  = "last_page"  // the page was reached whose number the list states as the last
	RuleTotal     = "total"      // as many records were read as the list states
	RuleNoNext    = "no_next"    // the answer has no further next link or cursor, or says that there is no more
	RuleEmptyPage = "empty_page" // the page after the end is empty, or the server refuses it
	RuleRepeat    = "repeat"     // the page after the end repeats an earlier page
	RuleParents   = "parents"    // all parents were requested, and each list reached its own end
	RuleSingle    = "single"     // the stream is one object, not a list
	RuleWindows   = "windows"    // all time windows were requested, and each list reached its own end
	RuleOlder     = "older"      // in an incremental run: all records of a page were changed before the edge
)
