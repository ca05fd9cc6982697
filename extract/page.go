package extract

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/state"
)

// Page is one step of a pass: records, and the cursor after them.
type Page struct {
	// Records is a JSON array. It is often a slice of the response body. Records from boards, maps or groups are copied
	// into one array. Records is valid only until the loop asks for the next page.
	Records []byte

	Next     state.Cursor // cursor after this page; commit it together with the page's rows
	Requests int          // HTTP requests for this page, including retries
	Bytes    int64        // size of the response bodies, decompressed
	Total    int64        // total that the list states; -1 for none
	Gaps     []Gap        // records of this page that the server could not return

	Files   []File   // files of the records on this page; the caller may keep them
	Windows *Windows // progress of a pass over time windows; else nil
	Parents []Parent // fan-out: parents whose lists end on this page, in order

	End *End // on the last page of a pass, else nil

	// Older reports for each record whether it was last changed before Edge. Earlier passes have read all changes
	// before Edge, so such a record is not new. Older is nil if there is no Edge, as in a first pass.
	Older []bool
	Edge  time.Time

	Partial bool // the pass leaves out unchanged records, in an incremental run

	cuts []int // offsets in Records where parts begin: see Parts
}

// Gap is a part of a list that could not be read: adjacent records, or in a fan-out adjacent parents. The server
// fails on at least one of them.
type Gap struct {
	At      string `json:"at"`               // the page that failed; in a fan-out, the parent
	First   int64  `json:"from"`             // index of the first record or parent, from 0
	Rows    int64  `json:"rows"`             // number of records or parents
	After   string `json:"after,omitempty"`  // key of the record before the gap, as JSON
	Before  string `json:"before,omitempty"` // key of the record after the gap, as JSON
	Status  int    `json:"status"`
	Message string `json:"words,omitempty"` // the server's message
}

// String returns a text like "record 17 of the list (page 2), after key 4711, before key 4713: 500: Server Error".
func (g Gap) String() string {
	var b strings.Builder
	if g.ofParent() {
		b.WriteString(g.At)
		if g.Rows > 1 {
			fmt.Fprintf(&b, " and %d after it", g.Rows-1)
		}
	} else if g.Rows == 1 {
		fmt.Fprintf(&b, "record %d of the list (%s)", g.First+1, g.At)
	} else {
		fmt.Fprintf(&b, "records %d to %d of the list (%s)", g.First+1, g.First+g.Rows, g.At)
	}
	if g.After != "" {
		b.WriteString(", after key " + g.After)
	}
	if g.Before != "" {
		b.WriteString(", before key " + g.Before)
	}
	fmt.Fprintf(&b, ": %d", g.Status)
	if g.Message != "" {
		b.WriteString(": " + g.Message)
	}
	return b.String()
}

// parentAt is the beginning of [Gap].At if the gap consists of parents.
const parentAt = "parent "

func (g Gap) ofParent() bool { return strings.HasPrefix(g.At, parentAt) }

// Windows is the progress of a pass over time windows.
type Windows struct {
	Done, Of int // finished windows, and all windows; Of is 0 while unknown
}

// End is what a pass knows about its own completeness. The certificate contains End, and two numbers from the
// destination: distinct keys, and rows that came twice.
type End struct {
	Rule       string // how the end was reached: see the Rule constants
	Resumed    bool   // an earlier process began the pass
	Pages      int
	FirstTotal int64     // total on the first page; -1 for none
	LastTotal  int64     // total on the last page; -1 for none
	Reread     bool      // the records were read twice and were the same
	Round      bool      // the server may have cut the list: its number of records is round, or nothing shows its end
	Refused    bool      // the server refused the page after a full page: either the list ended, or the server limits the number of pages
	Counted    bool      // pages were requested by number or offset, so a deleted record shifts all records after it
	Drift      Drift     // signs that the list changed while it was read
	Gaps       []Gap     // records of the list that the server could not return
	Parents    int       // fan-out: parents that were requested
	Skipped    int       // fan-out: parents that the caller chose to skip
	Gone       int       // fan-out: parents that no longer exist
	Short      int       // parents or windows whose list does not match its total, or may have been cut
	Windows    int       // time windows that were requested
	Partial    bool      // the pass left out unchanged records, in an incremental run
	Since      time.Time // records changed before this time were left out, in an incremental run; zero: none
	Misplaced  string    // how the list breaks the order that incremental passes need, the latest change first; "" if it does not
	Note       string    // further information for people

	// ParentList is how the parents were read. It is nil if a pass over the parent stream provided them.
	ParentList *ParentList

	// Unexplained are signals that may announce more records, and that no rule explains: "header X-Next: abc",
	// "/meta/remaining: 63". With such a signal, the verdict is at most unproven.
	Unexplained []string

	// Incomplete are statements of the source that its answer lacks records: "/partial: true", "status 206".
	Incomplete []string

	// PathOnly reports that the user configured only the path of the list. So probes found out how the list is paged.
	PathOnly bool

	// OnePageOnly reports that only the first page held records. So it is not proved that further pages are requested
	// correctly.
	OnePageOnly bool
}

// ParentList describes how a parent stream was read if only its child streams needed it.
type ParentList struct {
	End      End
	Records  int64 // number of records read
	Repeats  int64 // how many records came more than once
	Repeated bool  // a second reading found the same records
}

// The rules by which a pass may end. If a pass stops for another reason, such as a limit, it returns an error.
// Invariant 14
const (
	RuleOnePage   = paging.RuleOnePage
	RuleLastPage  = paging.RuleLastPage
	RuleTotal     = paging.RuleTotal
	RuleNoNext    = paging.RuleNoNext
	RuleEmptyPage = paging.RuleEmptyPage
	RuleRepeat    = "repeat"  // the page after the end repeats an earlier page
	RuleParents   = "parents" // all parents were requested, and each list reached its own end
	RuleSingle    = "single"  // the stream is one object, not a list
	RuleWindows   = "windows" // all time windows were requested, and each list reached its own end
	RuleOlder     = "older"   // in an incremental run: all records of a page are older than the changes that the pass looks for
)

// Drift counts signs that a reading of a list may be wrong although every page was read. Records may have moved between
// pages, or the pages may not fit together. Each field counts pages or records.
type Drift struct {
	Moved   int `json:"moved,omitempty"`   // pages whose total differs from that of the page before
	Shifted int `json:"shifted,omitempty"` // last pages that differed when they were requested again
	Overlap int `json:"overlap,omitempty"` // records that were also on the page before
	Alike   int `json:"alike,omitempty"`   // records without a key that seem to be repeated: see [paging.Repetition]
	Doubled int `json:"doubled,omitempty"` // records that came twice on one page
	Uneven  int `json:"uneven,omitempty"`  // pages with fewer records than others; the last page and pages requested by cursor do not count
	Stale   int `json:"stale,omitempty"`   // pages that are older than the page before, so there is a cache
}

func someOf(have, more []string) []string {
	for _, text := range more {
		if len(have) < paging.MaxStatements && !slices.Contains(have, text) {
			have = append(have, text)
		}
	}
	return have
}
