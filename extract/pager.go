package extract

import (
	"errors"
	"fmt"
	"net/url"
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
)

// turn is where a list goes on after an answer, or how it ended.
type turn struct {
	next  position
	rule  string // one of the Rule constants at the end, else ""
	probe bool   // nothing says whether there is more: next is worth a question
}

// pager decides from what an answer says how its list goes on. It remembers
// only what the next decision needs.
type pager struct {
	hint schemas.Pagination
	rows int64 // records so far

	last  int64 // page known to be the last; 0 if none is
	total int64 // records in all; -1 unknown
	step  int64 // records a page, where pages can be counted out
}

var errNoWay = errors.New("the list says there is more, but nothing to ask for it with")

// turn takes the evidence in the order of its strength: a flag or token for
// more, a next link, the number of the last page, the number of records. Where
// there is none, only a question can tell.
func (p *pager) turn(at position, n int, lastID string, s signals) (turn, error) {
	p.rows += int64(n)
	page := max(at.number(), 1)
	if at.kind != pagerPage {
		page = 1
	}
	p.last, p.total = max(s.lastPage, 0), s.total
	if n > 0 && p.step == 0 {
		p.step = int64(n)
	}
	behind := s.lastPage >= 0 && page < s.lastPage
	switch {
	case s.more == no:
		return turn{rule: RuleNoNext}, nil
	case s.token != "":
		return turn{next: p.token(s)}, nil
	case s.next != nil:
		if next, ok := p.linked(s.next); ok {
			return turn{next: next}, nil
		}
		return turn{}, errNoWay
	case s.more == yes:
		return p.goOn(at, page, n, lastID, s)
	case behind:
		return turn{next: p.page(page + 1)}, nil
	case s.lastPage >= 0:
		return turn{rule: RuleLastPage}, nil
	case s.linked || s.tokened || at.kind == pagerCursor:
		return turn{rule: RuleNoNext}, nil // a next that is not there is none, too
	}
	return p.count(at, page, n, s), nil
}

// goOn is the turn of a list that says "more" and leaves the how to the client.
func (p *pager) goOn(at position, page int64, n int, lastID string, s signals) (turn, error) {
	switch {
	case p.hint.Type == "page", at.kind == pagerPage, s.page >= 0 && p.hint.Type == "":
		return turn{next: p.page(page + 1)}, nil
	case p.hint.Type == "offset", at.kind == pagerOffset, s.offset >= 0 && p.hint.Type == "":
		return turn{next: p.offset(at, n, s)}, nil
	case lastID != "":
		return turn{next: position{pagerCursor, p.named("starting_after", "since_id", "cursor"), lastID}}, nil
	}
	return turn{}, errNoWay
}

// count is the turn of a list that at most says how many records there are.
func (p *pager) count(at position, page int64, n int, s signals) turn {
	offset := at.kind == pagerOffset || at.kind == pagerNone && (p.hint.Type == "offset" || s.offset >= 0)
	next := p.page(page + 1)
	if offset {
		next = p.offset(at, n, s)
	}
	switch {
	case s.total >= 0 && p.rows == s.total:
		return turn{rule: RuleTotal}
	case n == 0 && !p.within(next, s.total):
		return turn{rule: RuleEmptyPage}
	case at.kind == pagerNone && s.total <= p.rows:
		return turn{next: next, probe: true}
	}
	return turn{next: next}
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
	return (at.number()-1)*p.step < total
}

// following is the position after at, where it can be known without having seen
// at's answer.
func (p *pager) following(at position) (position, bool) {
	switch at.kind {
	case pagerPage:
		next := position{at.kind, at.param, strconv.FormatInt(at.number()+1, 10)}
		return next, at.number() < p.last || p.last == 0 && p.within(next, p.total)
	case pagerOffset:
		next := position{at.kind, at.param, strconv.FormatInt(at.number()+p.step, 10)}
		return next, p.step > 0 && next.number() < p.total
	}
	return position{}, false
}

// limit is the number of pages after which the list cannot be right any more.
func (p *pager) limit(most int) int64 {
	if p.last > 0 {
		return min(int64(most), p.last+2)
	}
	return int64(most)
}

func (p *pager) page(n int64) position {
	return position{pagerPage, p.named("page", "page", "none", ""), strconv.FormatInt(n, 10)}
}

func (p *pager) offset(at position, n int, s signals) position {
	from := at.number()
	if s.offset >= 0 {
		from = s.offset
	}
	by := int64(n)
	if n == 0 {
		by = max(p.step, 1)
	}
	return position{pagerOffset, p.named("offset", "offset"), strconv.FormatInt(from+by, 10)}
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

// tokenParams are the parameters that take a token, by what the body calls it.
var tokenParams = map[string]string{
	"nextcursor": "cursor", "cursor": "cursor", "next": "cursor", "after": "after", "endcursor": "after",
	"nexttoken": "next_token", "continuationtoken": "continuation_token", "nextpage": "page",
}

// token is the position a token leads to. Its parameter is the one that carries
// it in the next link, else it goes by the token's name.
func (p *pager) token(s signals) position {
	for name := range s.next {
		if s.next.Get(name) == s.token {
			return linkPosition(name, s.token)
		}
	}
	usual, ok := tokenParams[strings.ToLower(strings.ReplaceAll(s.tokenName, "_", ""))]
	if !ok { // next_page_token, nextPageToken
		usual = "page_token"
		if !strings.Contains(s.tokenName, "_") {
			usual = "pageToken"
		}
	}
	return linkPosition(p.named(usual, "cursor", "link", "page"), s.token)
}

// linkParams are the parameters of a next link that say where it goes, the more
// telling ones first. All others are the server's idea of what was asked for
// and stay behind. // Invariant 10
var linkParams = []string{
	"cursor", "page[cursor]", "page[after]", "starting_after", "after", "page_token", "pageToken", "next_token",
	"offset", "skip", "start", "page[offset]", "page[number]", "page", "p",
}

func (p *pager) linked(q url.Values) (position, bool) {
	names := linkParams
	if p.hint.Page != "" {
		names = append([]string{p.hint.Page}, linkParams...)
	}
	for _, name := range names {
		if v := q.Get(name); v != "" {
			return linkPosition(name, v), true
		}
	}
	return position{}, false
}

func linkPosition(name, v string) position {
	kind := pagerCursor
	if _, err := strconv.ParseUint(v, 10, 62); err == nil {
		switch name {
		case "page", "p", "page[number]":
			kind = pagerPage
		case "offset", "skip", "start", "page[offset]":
			kind = pagerOffset
		}
	}
	return position{kind, name, v}
}

// check refuses a position that the list cannot go to: one that does not move
// on.
func (at position) check(next position) error {
	if next == at || next.kind == at.kind && next.kind != pagerCursor && next.number() <= at.number() {
		return fmt.Errorf("the list goes from %s to %s", at, next)
	}
	return nil
}
