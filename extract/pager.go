package extract

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

type pagerKind string

const (
	pagerNone   pagerKind = "" // the first request
	pagerPage   pagerKind = "page"
	pagerOffset pagerKind = "offset"
	pagerCursor pagerKind = "cursor"
	pagerLink   pagerKind = "link"  // all parameters of a next link, as a query string
	pagerRange  pagerKind = "range" // value of a Range header
)

type continuation struct {
	next position
	rule string // one of the Rule constants at the end, otherwise ""

	// open reports that only a probe shows how the list continues. Then next is the likeliest position, and rule
	// applies if next is wrong.
	open bool
}

type pager struct {
	hint      schemas.Pagination
	settled   bool
	stated    bool // the user configured the paging, so nothing else is tried
	announces bool // other lists of this endpoint announce further pages, so this one may have them without saying so
	cautious  bool // likely positions are probed even if a wrong one would be noticed later
	rows      int64

	zero       bool  // pages are numbered from 0
	last       int64 // number of the last page; 0 if unknown
	total      int64 // records in the whole list; -1 if unknown
	step       int64 // records on the first page with records; 0 before that page
	emptyPages int
	offset0    int64 // offset that the first page states; -1 for none
	before     int
	uneven     bool // records came after a page that was not full
}

// maxEmptyPages limits consecutive empty pages if the list announces more records. // Invariant 15
const maxEmptyPages = 20

var (
	errNoNext     = errors.New("the list announces more records, but not how to request them")
	errEmptyPages = fmt.Errorf("the list announces more records, but %d pages in a row were empty", maxEmptyPages)
)

// decide uses the strongest evidence in the answer. That is, in this order: the user's configuration, a flag or token
// for more, a next link, the number of the last page, the total. Without evidence, only a probe can decide.
func (p *pager) decide(at position, n int, lastID string, s signals) (continuation, error) {
	if p.stated { // the configured paging overrides signals of other kinds
		s = s.of(p.hint.Type)
	}
	if err := p.account(at, n, s); err != nil {
		return continuation{}, err
	}
	// A convention says that the list has one page, but now the list announces more. So its paging is learned again.
	grown := p.settled && p.hint.Type == "none"
	guess := at.kind == pagerNone && (!p.settled || grown) && !p.statesPages()
	page := p.page(at)
	last := s.lastPage
	if p.zero && s.total >= 0 && !p.indexed(s, n) {
		last-- // lastPage is the number of pages; without a total, it may be the index of the last page
	}
	switch {
	case s.more == no:
		return continuation{rule: RuleNoNext}, nil
	case s.token != "" && n == 0 && s.token == at.at && s.more == unstated:
		return continuation{rule: RuleEmptyPage}, nil
	case s.token != "" && s.token == at.at && s.more == unstated:
		return continuation{rule: RuleNoNext}, nil // a token that leads to its own page means the end
	case n == 0 && s.more != yes && (at.kind == pagerLink || p.hint.Type == "link" && at.kind != pagerNone && s.total < 0 && p.settled) && (s.next == nil || p.emptyPages > 1):
		return continuation{rule: RuleEmptyPage}, nil // the link leads to no records
	case s.token != "" && jsondoc.DigitsOnly(s.token) && n == 0 && s.more == unstated && p.emptyPages > 1:
		return continuation{rule: RuleEmptyPage}, nil // the list states the number of a next page even at its end
	case s.token != "" && s.ranged:
		return continuation{next: position{kind: pagerRange, at: s.token}, open: guess && p.cautious}, nil
	case s.token != "":
		next, sure := p.token(at, s)
		return continuation{next: next, open: guess && !sure}, nil
	case s.next != nil:
		if next, ok := p.linked(s.next); ok && next != at {
			return continuation{next: next, open: guess && p.cautious && next.param != p.hint.Page && !leads(next.param)}, nil
		} else if ok {
			return continuation{rule: RuleNoNext}, nil // a link to its own page means the end
		}
		return continuation{open: guess}, p.noNext(guess)
	case s.opaque:
		return continuation{open: guess}, p.noNext(guess)
	case p.settled && s.more != yes && (p.hint.Type == "cursor" || p.hint.Type == "link" || p.hint.Type == "range" && p.hint.Page == ""):
		return continuation{rule: RuleNoNext}, nil // a list paged by tokens or links ends when there is none
	case s.more == yes, s.lastPage >= 0 && page < last && at.kind != pagerOffset && !(at.kind == pagerNone && n == 0 && s.lastPage <= 1):
		next, ok := p.onward(at, n, lastID, s)
		if !ok && !guess {
			return continuation{}, errNoNext
		}
		echoed := next.kind == pagerPage && s.page >= 0 || next.kind == pagerCursor && p.hint.Type == "since_id"
		return continuation{next: next, open: guess && (p.cautious || !echoed || grown)}, nil
	case s.lastPage >= 0 && at.kind != pagerOffset:
		return continuation{rule: RuleLastPage}, nil
	case s.linked && s.total <= p.rows, s.tokened && s.total <= p.rows, (at.kind == pagerCursor || at.kind == pagerLink || at.kind == pagerRange && at.param == "") && p.hint.Type != "since_id":
		return continuation{rule: RuleNoNext}, nil // a missing next link or token means the end
	}
	return p.count(at, n, lastID, s), nil
}

func (p *pager) noNext(guess bool) error {
	if guess {
		return nil
	}
	return errNoNext
}

func (p *pager) account(at position, n int, s signals) error {
	p.rows += int64(n)
	p.last = max(s.lastPage, 0)
	if s.total >= 0 || at.kind == pagerNone {
		p.total = s.total
	}
	if at.kind == pagerNone {
		p.zero, p.offset0 = s.page == 0 || p.hint.Zero && s.page < 0, s.offset
	}
	if p.zero && p.last > 0 && p.total >= 0 && !p.indexed(s, n) {
		p.last--
	}
	if n > 0 {
		p.uneven = p.uneven || p.before > 0 && (p.emptyPages > 0 || int64(p.before) < p.step || int64(n) > p.step)
		p.emptyPages, p.before = 0, n
		if p.step == 0 {
			p.step = int64(n)
		}
		return nil
	}
	if p.emptyPages++; p.emptyPages >= maxEmptyPages && (s.more == yes || s.token != "" || s.next != nil) {
		return errEmptyPages
	}
	return nil
}

// indexed reports whether s.lastPage is the index of the last page, counted from 0, and not the number of pages. If
// it were the number of pages, they could not hold all records.
func (p *pager) indexed(s signals, n int) bool {
	step := max(p.step, int64(n))
	return p.zero && step > 0 && s.lastPage*step < s.total
}

func (p *pager) page(at position) int64 {
	switch {
	case at.kind == pagerPage:
		return at.number()
	case p.zero:
		return 0
	}
	return 1
}

func (p *pager) onward(at position, n int, lastID string, s signals) (next position, ok bool) {
	hint := p.hint.Type
	if hint == "none" || hint == "cursor" || hint == "link" {
		hint = ""
	}
	switch {
	case hint == "page", at.kind == pagerPage, hint == "" && at.kind == pagerNone && s.page >= 0:
		return p.pageAt(at, p.page(at)+1), true
	case hint == "range" && p.hint.Page != "", at.kind == pagerRange && at.param != "":
		return p.ranged(at, n), true
	case hint == "offset", at.kind == pagerOffset, hint == "" && at.kind == pagerNone && s.offset >= 0:
		return p.offset(at, n, s), true
	case lastID != "" && (hint == "since_id" || s.more == yes):
		return position{kind: pagerCursor, param: at.or(pagerCursor, p.named("starting_after", "since_id", "cursor")), at: lastID}, true
	}
	return p.pageAt(at, p.page(at)+1), s.more != yes
}

// count decides if the answer states only a total, or nothing. If the total equals the number of records on the first
// page, it may count only that page.
func (p *pager) count(at position, n int, lastID string, s signals) continuation {
	next, ok := p.onward(at, n, lastID, s)
	full := s.total >= 0 && p.rows == s.total
	switch {
	case at.kind == pagerNone && p.unsure() && (n > 0 || s.total < 0) && !(p.statesPages() && s.total > p.rows):
		switch {
		case full:
			return continuation{next: next, rule: RuleTotal, open: true}
		case s.total > p.rows:
			return continuation{next: next, open: true}
		}
		return continuation{next: next, rule: RuleEmptyPage, open: true}
	case full && (at.kind == pagerPage || at.kind == pagerOffset) && n > 0 && int64(n) == p.step && ok:
		return continuation{next: next} // the total may be too low; the page after a full one shows whether it is
	case full && (at.kind != pagerNone || n == 0):
		return continuation{rule: RuleTotal}
	case n == 0 && p.ended(at) && (!p.within(next, p.total) || p.emptyPages >= maxEmptyPages), !ok:
		return continuation{rule: RuleEmptyPage}
	}
	return continuation{next: next}
}

// maxUneven is how many consecutive empty pages end a list if a page before was not full. Some servers cut the list
// into pages first, and then remove the records that the user may not see.
const maxUneven = 5

// ended reports whether an empty page is the end of the list. The first page, and a page requested by cursor, always
// is. Any other page is the end only after other empty pages.
func (p *pager) ended(at position) bool {
	switch {
	case at.kind == pagerCursor || at.kind == pagerNone:
		return true
	case p.uneven:
		return p.emptyPages >= maxUneven
	}
	return p.emptyPages > 1
}

func (p *pager) statesPages() bool {
	return !p.cautious && (p.hint.Type == "page" || p.hint.Type == "offset") && p.hint.Page != ""
}

// unsure reports whether other paging parameters may return further pages.
func (p *pager) unsure() bool {
	switch p.hint.Type {
	case "page", "offset", "since_id":
		return !p.settled || p.announces
	}
	return true // the list may have a cursor of another name
}

func (at position) or(kind pagerKind, usual string) string {
	if at.kind == kind {
		return at.param
	}
	return usual
}

// within reports whether the position is before the end of the list. It assumes that all pages are as large as the
// first.
func (p *pager) within(at position, total int64) bool {
	if p.step == 0 || total <= 0 {
		return false
	}
	if at.kind == pagerOffset {
		return at.number() < total
	}
	return (at.number()-p.page(position{}))*p.step < total
}

// following returns the position after at. It returns false if only the answer for at shows that position.
func (p *pager) following(at position) (position, bool) {
	switch at.kind {
	case pagerPage:
		next := position{kind: at.kind, param: at.param, at: strconv.FormatInt(at.number()+1, 10)}
		return next, at.number() < p.last || p.last == 0 && p.within(next, p.total)
	case pagerOffset:
		next := position{kind: at.kind, param: at.param, at: strconv.FormatInt(at.number()+p.step, 10)}
		return next, p.step > 0 && next.number() < p.total
	}
	return position{}, false
}

func (p *pager) limit(most int) int64 {
	if p.last > 0 && p.hint.Type != "offset" {
		return min(int64(most), p.last+2)
	}
	return int64(most)
}

func (p *pager) pageAt(at position, n int64) position {
	return position{kind: pagerPage, param: at.or(pagerPage, p.named("page", "page", "none", "")), at: strconv.FormatInt(n, 10)}
}

func (p *pager) offset(at position, n int, s signals) position {
	from := at.number()
	if at.kind == pagerNone && p.hint.One {
		from = 1
	}
	if s.offset >= 0 && s.offset < from-1 && s.offset != p.offset0 {
		from = s.offset // the server used an earlier offset than requested
	}
	by := int64(n)
	if n == 0 {
		by = max(p.step, 1)
	}
	return position{kind: pagerOffset, param: at.or(pagerOffset, p.named("offset", "offset")), at: strconv.FormatInt(from+by, 10)}
}

func (p *pager) named(usual string, types ...string) string {
	for _, t := range types {
		if p.hint.Type == t && p.hint.Page != "" {
			return p.hint.Page
		}
	}
	return usual
}

func (at position) check(next position) error {
	counted := next.kind == pagerPage || next.kind == pagerOffset
	if next == at || next.kind == at.kind && counted && next.number() <= at.number() {
		return fmt.Errorf("the position after %s is %s, which does not lead forward", at, next)
	}
	return nil
}

func (p *pager) ranged(at position, n int) position {
	from := int64(0)
	if _, rest, ok := strings.Cut(at.at, "="); ok {
		first, _, _ := strings.Cut(rest, "-")
		from, _ = strconv.ParseInt(first, 10, 64)
	}
	unit := at.param
	if unit == "" {
		unit = p.hint.Page
	}
	size := max(p.step, 1)
	return rangeAt(unit, from+max(int64(n), 1), size)
}

func (p *pager) token(at position, s signals) (next position, sure bool) {
	if at.param != "" && at.kind != pagerNone {
		return linkPosition(at.param, s.token), true
	}
	for name := range s.next {
		if s.next.Get(name) == s.token {
			return linkPosition(name, s.token), true
		}
	}
	for _, t := range []string{"cursor", "link", "page", "offset", "since_id"} {
		if p.hint.Type == t && p.hint.Page != "" {
			return linkPosition(p.hint.Page, s.token), false
		}
	}
	return linkPosition(p.tokenParams(s)[0], s.token), false
}

// of removes the signals of other kinds of paging than typ, the configured one.
func (s signals) of(typ string) signals {
	switch typ {
	case "page", "offset", "since_id":
		if s.token != "" || s.next != nil || s.opaque {
			if s.more == unstated {
				s.more = yes
			}
		} else if s.more == unstated && (s.linked || s.tokened) {
			s.more = no
		}
		s.token, s.next, s.opaque, s.linked, s.tokened = "", nil, false, false, false
	case "none":
		total := s.total
		s = noSignals
		s.total, s.more = total, no
	}
	return s
}
