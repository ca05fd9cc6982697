package extract

import (
	"time"

	"github.com/penstock-data/penstock/state"
)

// Page is one step of a pass: some records and the position after them.
type Page struct {
	// Records is one JSON array of records, a slice of the response's body
	// where it can be, assembled where records are spread over boards, maps or
	// groups. It is valid until the next page is asked for.
	Records []byte

	Next     state.Cursor // position after this page; durable only with its rows
	Requests int          // HTTP requests it took, retries included
	Bytes    int64        // of bodies, decompressed
	Total    int64        // records the list says it has in all; -1 where it does not say
	Gaps     []Gap        // places of the list, on this page, whose records the server could not give

	Files   []File   // that records on this page are about; they are the reader's
	Windows *Windows // how far a pass is that goes window by window; else nil
	Parents []Parent // fan-out: those whose last records are on this page, in their order

	End *End // on the last page of a pass, else nil

	// Older says of each record whether it was changed before Edge, where the
	// passes that have ended came to, less the lookback: then nothing about it
	// can be new. It is nil where there is no such edge, as in a first pass.
	Older []bool
	Edge  time.Time

	Partial bool // incremental: the pass leaves out what has not changed

	cuts []int // offsets in Records, see Parts
}

// Windows says how far a pass is that asks for one window of time after the
// other.
type Windows struct {
	Done, Of int // Of is 0 where nobody knows yet how many there are
}

// End is what a pass can say about its own completeness: the source's half of
// the certificate. The destination knows the other half (distinct keys, rows
// seen twice).
type End struct {
	Rule       string // how the end was reached: see the Rule constants
	Resumed    bool   // the pass began in an earlier process
	Pages      int
	FirstTotal int64     // total on the first page, -1 for none
	LastTotal  int64     // total on the last page, -1 for none
	Reread     bool      // the records were read a second time and were the same
	Round      bool      // a round number of records, all pages full, as a hidden cap would leave it
	Refused    bool      // the page behind a full one is refused: the end, or as deep as the source goes
	Counted    bool      // pages were asked for by number or offset: a record that goes moves all behind it
	Drift      Drift     // signs that the list moved while it was read
	Gaps       []Gap     // what of the list the server could not give
	Parents    int       // fan-out: parents asked
	Skipped    int       // fan-out: parents that were not, as the reader wanted it
	Gone       int       // fan-out: parents that were gone by then
	Short      int       // fan-out and windows: those whose list was not as long as it said, or may have been cut
	Windows    int       // windows of time that were asked for
	Partial    bool      // incremental: what has not changed was left out
	Since      time.Time // incremental: what was changed earlier was left out; zero where nothing was
	Misplaced  string    // how the list contradicts the order, the latest change first, that incremental passes rely on; "" where it does not
	Note       string    // anything a person should know

	// ParentList is how the list of parents was read, of a fan-out for which it
	// was read alone. It is nil where a pass over the parent gave the parents.
	ParentList *ParentList

	// Unexplained are the signals that may speak of more records and that no rule
	// explains, each as "header X-Next: abc" or "/meta/remaining: 63". One is
	// enough to forbid that the pass is proven or consistent.
	Unexplained []string

	// Incomplete are the statements of the source that its answer lacks records:
	// "/partial: true", "/errors: [...]", "status 206".
	Incomplete []string

	// Guessed reports that the user gives the list by its path alone: nothing but
	// probes says how it goes on.
	Guessed bool

	// Unshown reports that no page but the first ever held a record: that the
	// pages of this list are asked for as they should be has not been shown.
	Unshown bool
}

// ParentList is a reading of a stream that was made for its children alone.
type ParentList struct {
	End     End
	Records int64 // that came
	Repeats int64 // of these, those that had come before
	Again   bool  // a second reading found the same records
}

// The rules by which a pass may end. Anything else (an error, a guard, a
// budget) is an error of the pass, never an end. // Invariant 14
const (
	RuleOnePage   = "one_page"   // the list ignores page numbers and came whole
	RuleLastPage  = "last_page"  // the page's own last_page or total_pages was reached
	RuleTotal     = "total"      // as many records as the list's total were read
	RuleNoNext    = "no_next"    // next link or cursor empty, has_more false
	RuleEmptyPage = "empty_page" // the page beyond the end was empty
	RuleRepeat    = "repeat"     // pages beyond the end, a short one, are that one again
	RuleParents   = "parents"    // every parent was asked, and each answer reached its own end
	RuleSingle    = "single"     // there is one object by definition
	RuleWindows   = "windows"    // every window of time was asked for, and each answer reached its own end
	RuleOlder     = "older"      // incremental: all records of a page were changed before the edge
)
