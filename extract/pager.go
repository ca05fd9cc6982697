package extract

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// pagerKind is what a list counts its pages with.
type pagerKind string

const (
	pagerNone   pagerKind = "" // the first request, before anything is known
	pagerPage   pagerKind = "page"
	pagerOffset pagerKind = "offset"
	pagerCursor pagerKind = "cursor"
	pagerLink   pagerKind = "link"  // all parameters of a next link, as a query
	pagerRange  pagerKind = "range" // value of a Range header
)

// turn is where a list goes on after an answer, or how it ended.
type turn struct {
	next position
	rule string // one of the Rule constants at the end, else ""

	// open says that the answers do not show how, or whether, the list goes on:
	// next is the likeliest guess, and rule what holds if it is wrong.
	open bool
}

// pager decides from what an answer says how its list goes on. It remembers
// only what the next decision needs.
type pager struct {
	hint    schemas.Pagination
	settled bool  // the hint has been tried out
	stated  bool  // by the user: nothing else is tried
	loud    bool  // by lists that told their pages: one that does not is another matter
	wary    bool  // guesses are tried out even where a wrong one would show by itself
	rows    int64 // records so far

	zero    bool  // pages are counted from 0
	last    int64 // page known to be the last; 0 if none is
	total   int64 // records in all; -1 unknown
	step    int64 // records a page, where pages can be counted out
	barren  int   // empty pages in a row
	offset0 int64 // what the first page says of its place; -1 for nothing
	before  int   // records of the last page that held some
	uneven  bool  // records came after a page that was not full
}

// maxBarren is how many empty pages in a row are taken from a list that says
// there is more. // Invariant 15
const maxBarren = 20

var (
	errNoWay  = errors.New("the list says there is more, but nothing to ask for it with")
	errBarren = fmt.Errorf("the list says there is more, but %d pages in a row were empty", maxBarren)
)

// turn takes the evidence in the order of its strength: what the user states, a
// flag or token for more, a next link, the number of the last page, the number of
// records. Where there is none, only a question can tell.
func (p *pager) turn(at position, n int, lastID string, s signals) (turn, error) {
	if p.stated { // what is stated wins over the signals of another way
		s = s.of(p.hint.Type)
	}
	if err := p.account(at, n, s); err != nil {
		return turn{}, err
	}
	// A list that was whole when it was learned, and has more now, is to be learned anew.
	grown := p.settled && p.hint.Type == "none"
	guess := at.kind == pagerNone && (!p.settled || grown) && !p.statesPages()
	page := p.page(at)
	last := s.lastPage
	if p.zero && s.total >= 0 && !p.indexed(s, n) {
		last-- // the number of pages; without a total it may as well be that of the last
	}
	switch {
	case s.more == no:
		return turn{rule: RuleNoNext}, nil
	case s.token != "" && n == 0 && s.token == at.at && s.more == unsaid:
		return turn{rule: RuleEmptyPage}, nil
	case s.token != "" && s.token == at.at && s.more == unsaid:
		return turn{rule: RuleNoNext}, nil // a token that leads to its own page is the end
	case n == 0 && s.more != yes && (at.kind == pagerLink || p.hint.Type == "link" && at.kind != pagerNone && s.total < 0 && p.settled) && (s.next == nil || p.barren > 1):
		return turn{rule: RuleEmptyPage}, nil // the link that is stated leads to nothing
	case s.token != "" && digitsOnly(s.token) && n == 0 && s.more == unsaid && p.barren > 1:
		return turn{rule: RuleEmptyPage}, nil // the number of the next page is always there
	case s.token != "" && s.ranged:
		return turn{next: position{kind: pagerRange, at: s.token}, open: guess && p.wary}, nil
	case s.token != "":
		next, sure := p.token(at, s)
		return turn{next: next, open: guess && !sure}, nil
	case s.next != nil:
		if next, ok := p.linked(s.next); ok && next != at {
			return turn{next: next, open: guess && p.wary && next.param != p.hint.Page && !leads(next.param)}, nil
		} else if ok {
			return turn{rule: RuleNoNext}, nil // a link to its own page is the end
		}
		return turn{open: guess}, p.noWay(guess)
	case s.opaque:
		return turn{open: guess}, p.noWay(guess)
	case p.settled && s.more != yes && (p.hint.Type == "cursor" || p.hint.Type == "link" || p.hint.Type == "range" && p.hint.Page == ""):
		return turn{rule: RuleNoNext}, nil // a list that goes on by tokens or links ends where there is none
	case s.more == yes, s.lastPage >= 0 && page < last && at.kind != pagerOffset && !(at.kind == pagerNone && n == 0 && s.lastPage <= 1):
		next, ok := p.onward(at, n, lastID, s)
		if !ok && !guess {
			return turn{}, errNoWay
		}
		echoed := next.kind == pagerPage && s.page >= 0 || next.kind == pagerCursor && p.hint.Type == "since_id"
		return turn{next: next, open: guess && (p.wary || !echoed || grown)}, nil
	case s.lastPage >= 0 && at.kind != pagerOffset:
		return turn{rule: RuleLastPage}, nil
	case s.linked && s.total <= p.rows, s.tokened && s.total <= p.rows, (at.kind == pagerCursor || at.kind == pagerLink || at.kind == pagerRange && at.param == "") && p.hint.Type != "since_id":
		return turn{rule: RuleNoNext}, nil // a next that is not there is none, too
	}
	return p.count(at, n, lastID, s), nil
}

func (p *pager) noWay(guess bool) error {
	if guess {
		return nil
	}
	return errNoWay
}

// account takes note of an answer.
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
		p.uneven = p.uneven || p.before > 0 && (p.barren > 0 || int64(p.before) < p.step || int64(n) > p.step)
		p.barren, p.before = 0, n
		if p.step == 0 {
			p.step = int64(n)
		}
		return nil
	}
	if p.barren++; p.barren >= maxBarren && (s.more == yes || s.token != "" || s.next != nil) {
		return errBarren
	}
	return nil
}

// indexed reports whether the number of the last page is its index from 0, and not
// the number of pages: so many pages would not hold all records.
func (p *pager) indexed(s signals, n int) bool {
	step := max(p.step, int64(n))
	return p.zero && step > 0 && s.lastPage*step < s.total
}

// page is the number of the page at a position.
func (p *pager) page(at position) int64 {
	switch {
	case at.kind == pagerPage:
		return at.number()
	case p.zero:
		return 0
	}
	return 1
}

// onward is the next page of a list that leaves the how to the client; ok is
// false where nothing hints at one.
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

// count is the turn of a list that at most says how many records there are. A
// total as large as the first page may be the number of records on it.
func (p *pager) count(at position, n int, lastID string, s signals) turn {
	next, ok := p.onward(at, n, lastID, s)
	full := s.total >= 0 && p.rows == s.total
	switch {
	case at.kind == pagerNone && p.unsure() && (n > 0 || s.total < 0) && !(p.statesPages() && s.total > p.rows):
		switch {
		case full:
			return turn{next: next, rule: RuleTotal, open: true}
		case s.total > p.rows:
			return turn{next: next, open: true}
		}
		return turn{next: next, rule: RuleEmptyPage, open: true}
	case full && (at.kind == pagerPage || at.kind == pagerOffset) && n > 0 && int64(n) == p.step && ok:
		return turn{next: next} // a total may be too low: the page behind a full one tells
	case full && (at.kind != pagerNone || n == 0):
		return turn{rule: RuleTotal}
	case n == 0 && p.ended(at) && (!p.within(next, p.total) || p.barren >= maxBarren), !ok:
		return turn{rule: RuleEmptyPage}
	}
	return turn{next: next}
}

// maxUneven is how many empty pages in a row end a list whose pages were not full
// on the way: some servers leave out what one may not see after they have cut a
// list into pages.
const maxUneven = 5

// ended reports whether an empty page is the end of a list: always of one that goes on by
// cursors, else after other empty pages.
func (p *pager) ended(at position) bool {
	switch {
	case at.kind == pagerCursor || at.kind == pagerNone:
		return true
	case p.uneven:
		return p.barren >= maxUneven
	}
	return p.barren > 1
}

// statesPages reports whether the stream itself says all about its pages.
func (p *pager) statesPages() bool {
	return !p.wary && (p.hint.Type == "page" || p.hint.Type == "offset") && p.hint.Page != ""
}

// unsure reports whether the list may go on by parameters that nobody has tried
// yet, or that it did not know when they were.
func (p *pager) unsure() bool {
	switch p.hint.Type {
	case "page", "offset", "since_id":
		return !p.settled || p.loud
	}
	return true // a cursor that is not there may be one under another name
}

// or is the parameter that has led to a page of this kind, else the usual one.
func (at position) or(kind pagerKind, usual string) string {
	if at.kind == kind {
		return at.param
	}
	return usual
}

// within reports whether a page can still hold some of the total by what the
// first page held.
func (p *pager) within(at position, total int64) bool {
	if p.step == 0 || total <= 0 {
		return false
	}
	if at.kind == pagerOffset {
		return at.number() < total
	}
	return (at.number()-p.page(position{}))*p.step < total
}

// following is the position after at, where it can be known without having seen
// at's answer.
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

// limit is the number of pages after which the list cannot be right any more.
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
		from = s.offset // the server took an earlier place than it was asked for
	}
	by := int64(n)
	if n == 0 {
		by = max(p.step, 1)
	}
	return position{kind: pagerOffset, param: at.or(pagerOffset, p.named("offset", "offset")), at: strconv.FormatInt(from+by, 10)}
}

// named is the parameter's name of the hint, if the hint is about one of these
// types, else the usual one.
func (p *pager) named(usual string, types ...string) string {
	for _, t := range types {
		if p.hint.Type == t && p.hint.Page != "" {
			return p.hint.Page
		}
	}
	return usual
}

// check refuses a position that the list cannot go to: one that does not move
// on.
func (at position) check(next position) error {
	counted := next.kind == pagerPage || next.kind == pagerOffset
	if next == at || next.kind == at.kind && counted && next.number() <= at.number() {
		return fmt.Errorf("the list goes from %s to %s", at, next)
	}
	return nil
}

// ranged is the range behind the one at a position.
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

// token is the position a token leads to. Its parameter is the one that carries
// it in the next link, which is sure, or that has proven itself, else the first of
// those that may take it.
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

// of leaves out what speaks of another way of paging than the one that is stated:
// the token of a list that is read by page numbers, say.
func (s signals) of(typ string) signals {
	switch typ {
	case "page", "offset", "since_id":
		if s.token != "" || s.next != nil || s.opaque {
			if s.more == unsaid {
				s.more = yes
			}
		} else if s.more == unsaid && (s.linked || s.tokened) {
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
