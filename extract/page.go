package extract

import (
	"time"

	"github.com/penstock-data/penstock/state"
)

// Page is one step of a pass: records and the position after them.
type Page struct {
	// Records is a JSON array of records. It is a slice of the response body if possible; records
	// from boards, maps or groups are assembled. It is valid until the loop continues.
	Records []byte

	Next     state.Cursor // position after this page; store it only together with its rows
	Requests int          // HTTP requests for this page, with retries
	Bytes    int64        // of bodies, decompressed
	Total    int64        // number of records by the list's own account; -1 if it states none
	Gaps     []Gap        // records of this page that the server could not return

	Files   []File   // files that the records on this page describe; the caller may keep them
	Windows *Windows // progress of a pass over time windows; else nil
	Parents []Parent // fan-out: parents whose last records are on this page, in order

	End *End // on the last page of a pass, else nil

	// Older reports for each record whether it was changed before Edge. Earlier passes have read
	// all changes up to that time, so such a record cannot be new. Older is nil if there is no
	// edge, as in a first pass.
	Older []bool
	Edge  time.Time

	Partial bool // incremental: the pass leaves out unchanged records

	cuts []int // offsets in Records, see Parts
}

// Windows is the progress of a pass over time windows.
type Windows struct {
	Done, Of int // Of is 0 if the number is not known yet
}

// End is what a pass knows about its own completeness. The certificate contains it, and what the
// destination knows: the number of distinct keys and of rows seen twice.
type End struct {
	Rule       string // how the end was reached: see the Rule constants
	Resumed    bool   // an earlier process began the pass
	Pages      int
	FirstTotal int64     // total on the first page; -1 for none
	LastTotal  int64     // total on the last page; -1 for none
	Reread     bool      // the records were read twice and were the same
	Round      bool      // all pages are full and the number of records is round, as if cut by a hidden limit
	Refused    bool      // the page after a full one is refused: either the end or the source's depth limit
	Counted    bool      // pages were requested by number or offset: a deleted record shifts all records after it
	Drift      Drift     // signs that the list changed while it was read
	Gaps       []Gap     // records of the list that the server could not return
	Parents    int       // fan-out: parents that were requested
	Skipped    int       // fan-out: parents that the caller chose to skip
	Gone       int       // fan-out: parents that no longer exist
	Short      int       // parents or windows whose list differs from its total or may have been cut
	Windows    int       // time windows that were requested
	Partial    bool      // incremental: unchanged records were left out
	Since      time.Time // incremental: records changed earlier were left out; zero for none
	Misplaced  string    // how the list contradicts the order (the latest change first) that incremental passes rely on; "" if it does not
	Note       string    // further information for people

	// ParentList is how the list of parents was read if it was read only for this fan-out. It is
	// nil if a pass over the parent provided the parents.
	ParentList *ParentList

	// Unexplained are signals that may announce more records and that no rule explains, for example
	// "header X-Next: abc" or "/meta/remaining: 63". With one of them, the verdict cannot be proven
	// or consistent.
	Unexplained []string

	// Incomplete are statements of the source that its answer lacks records: "/partial: true",
	// "/errors: [...]", "status 206".
	Incomplete []string

	// PathOnly reports that the user configured only the list's path, so how it is paged is known
	// only from probes.
	PathOnly bool

	// OnePageOnly reports that only the first page held records, so nothing shows that further pages
	// are requested correctly.
	OnePageOnly bool
}

// ParentList is a reading of a stream that was made only for its children.
type ParentList struct {
	End      End
	Records  int64 // number of records read
	Repeats  int64 // of these, records that came twice
	Repeated bool  // a second reading found the same records
}

// The rules by which a pass may end. A pass that stops for any other reason, such as an exhausted
// limit, ends with an error. // Invariant 14
const (
	RuleOnePage   = "one_page"   // the list ignores page numbers and has one page
	RuleLastPage  = "last_page"  // the page with the number that the list states as its last one was reached
	RuleTotal     = "total"      // as many records as the list's total were read
	RuleNoNext    = "no_next"    // the next link or cursor is empty, or has_more is false
	RuleEmptyPage = "empty_page" // the page after the end is empty
	RuleRepeat    = "repeat"     // the page after the end repeats an earlier page
	RuleParents   = "parents"    // all parents were requested, and each list reached its own end
	RuleSingle    = "single"     // the stream is one object by definition
	RuleWindows   = "windows"    // all time windows were requested, and each list reached its own end
	RuleOlder     = "older"      // incremental: all records of a page were changed before the edge
)
