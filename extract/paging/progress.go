package paging

import (
	"fmt"
	"strconv"

	"github.com/penstock-data/penstock/schemas"
)

// Continuation says what comes after a page: another position, or the end.
type Continuation struct {
	Next Position
	Rule string // one of the Rule constants at the end, otherwise ""

	// Open reports that only a probe can show how the list continues. Then Next is the likeliest position, and Rule
	// applies if Next is wrong.
	Open bool
}

// Progress is what is known about the paging of a list, and how far the list was read.
type Progress struct {
	Hint      schemas.Pagination
	Settled   bool // an earlier run has read the list with Hint
	Stated    bool // the user configured the paging, so nothing else is tried
	Announces bool // other lists of this endpoint announce further pages, so this list may have more pages even if it announces none
	Cautious  bool // likely positions are probed even if a wrong one would be noticed later
	Rows      int64

	Zero       bool  // pages are numbered from 0
	Last       int64 // number of the last page; 0 if unknown
	Total      int64 // records in the whole list; -1 if unknown
	Step       int64 // number of records on the first page that was not empty; 0 before that page
	EmptyPages int   // consecutive empty pages so far
	offset0    int64 // offset that the first page states; -1 for none
	Before     int   // number of records on the latest page that was not empty
	Uneven     bool  // records came after a page that was not full
}

// within reports whether the position is before the end of the list. It assumes that all pages are as large as the
// first page.
func (p *Progress) within(at Position, total int64) bool {
	if p.Step == 0 || total <= 0 || !at.Counts() {
		return false
	}
	if at.Kind == KindOffset {
		return at.Number() < total
	}
	return (at.Number()-p.page(Position{}))*p.Step < total
}

// Limit returns how many pages a pass reads at most.
func (p *Progress) Limit(most int) int64 {
	if p.Last > 0 && p.Hint.Type != "offset" {
		return min(int64(most), p.Last+2)
	}
	return int64(most)
}

// Named returns the known parameter of one of the types of paging. If none is known, it returns the argument `usual`.
func (p *Progress) Named(usual string, types ...string) string {
	for _, t := range types {
		if p.Hint.Type == t && p.Hint.Page != "" {
			return p.Hint.Page
		}
	}
	return usual
}

// Place returns the index of the first record of a page that is requested by number or offset.
func (p *Progress) Place(at Position) int64 {
	switch {
	case at.Kind == KindOffset:
		return at.Number()
	case p.Zero:
		return at.Number() * p.Step
	}
	return (at.Number() - 1) * p.Step
}

// Describe returns a text like "page by page_number, from 0".
func Describe(p schemas.Pagination) string {
	switch {
	case p.Type == "":
		return ""
	case p.Type == "none":
		return "one page"
	case p.Zero:
		return fmt.Sprintf("%s by %s, from 0", p.Type, p.Page)
	case p.One:
		return fmt.Sprintf("%s by %s, from 1", p.Type, p.Page)
	case p.Type == "link" && p.Page == "":
		return "link"
	case p.Type == "range":
		return "range headers"
	case p.Field != "":
		return fmt.Sprintf("%s by %s, the %s of the last record", p.Type, p.Page, p.Field)
	}
	return fmt.Sprintf("%s by %s", p.Type, p.Page)
}

func (p *Progress) page(at Position) int64 {
	switch {
	case at.Kind == KindPage:
		return at.Number()
	case p.Zero:
		return 0
	}
	return 1
}

// PageAt returns the position of a page number.
func (p *Progress) PageAt(at Position, n int64) Position {
	return Position{Kind: KindPage, Param: at.or(KindPage, p.Named("page", "page", "none", "")), At: strconv.FormatInt(n, 10)}
}
