package paging

import (
	"errors"
	"fmt"

	"github.com/penstock-data/penstock/extract/jsondoc"
)

// maxEmptyPages limits consecutive empty pages if the list announces more records. // Invariant 15
const maxEmptyPages = 20

var (
	errNoNext     = errors.New("the list announces more records, but does not say how to request them")
	errEmptyPages = fmt.Errorf("the list announces more records, but %d pages in a row were empty", maxEmptyPages)
)

// Decide says what comes after a page with n records. It uses the strongest evidence, in this order: the user's
// configuration, a flag or token for more records, a next link, the number of the last page, the total. Without
// evidence, only a probe can decide.
func (p *Progress) Decide(at Position, n int, lastID string, s Signals) (Continuation, error) {
	if p.Stated { // the configured paging overrides signals of other kinds
		s = s.of(p.Hint.Type)
	}
	if err := p.account(at, n, s); err != nil {
		return Continuation{}, err
	}
	// The convention says that the list has one page. If the list now announces more, its paging is learned again.
	grown := p.Settled && p.Hint.Type == "none"
	guess := at.Kind == KindNone && (!p.Settled || grown) && !p.statesPages()
	page := p.page(at)
	last := s.LastPage
	if p.Zero && s.Total >= 0 && !p.indexed(s, n) {
		last-- // LastPage is the number of pages here, and pages are numbered from 0
	}
	switch {
	case s.More == No:
		return Continuation{Rule: RuleNoNext}, nil
	case s.Token != "" && n == 0 && s.Token == at.At && s.More == unstated:
		return Continuation{Rule: RuleEmptyPage}, nil
	case s.Token != "" && s.Token == at.At && s.More == unstated:
		return Continuation{Rule: RuleNoNext}, nil // a page whose token leads to this page itself is the last page
	case n == 0 && s.More != Yes && (at.Kind == KindLink || p.Hint.Type == "link" && at.Kind != KindNone && s.Total < 0 && p.Settled) && (s.Next == nil || p.EmptyPages > 1):
		return Continuation{Rule: RuleEmptyPage}, nil // the link leads to no records
	case s.Token != "" && jsondoc.DigitsOnly(s.Token) && n == 0 && s.More == unstated && p.EmptyPages > 1:
		return Continuation{Rule: RuleEmptyPage}, nil // some lists state the number of a next page even on their last page
	case s.Token != "" && s.ranged:
		return Continuation{Next: Position{Kind: KindRange, At: s.Token}, Open: guess && p.Cautious}, nil
	case s.Token != "":
		next, sure := p.token(at, s)
		return Continuation{Next: next, Open: guess && !sure}, nil
	case s.Next != nil:
		if next, ok := p.linked(s.Next); ok && next != at {
			return Continuation{Next: next, Open: guess && p.Cautious && next.Param != p.Hint.Page && !leads(next.Param)}, nil
		} else if ok {
			return Continuation{Rule: RuleNoNext}, nil // a page whose link leads to this page itself is the last page
		}
		return Continuation{Open: guess}, p.noNext(guess)
	case s.opaque:
		return Continuation{Open: guess}, p.noNext(guess)
	case p.Settled && s.More != Yes && pagerOf(p.Hint.Type).NeedsNext(p.Hint.Page):
		return Continuation{Rule: RuleNoNext}, nil // a list paged by tokens or links ends with an answer that has none
	case s.More == Yes, s.LastPage >= 0 && page < last && at.Kind != KindOffset && !(at.Kind == KindNone && n == 0 && s.LastPage <= 1):
		next, ok := p.Onward(at, n, lastID, s)
		if !ok && !guess {
			return Continuation{}, errNoNext
		}
		echoed := next.Kind == KindPage && s.Page >= 0 || next.Kind == KindCursor && p.Hint.Type == "since_id"
		return Continuation{Next: next, Open: guess && (p.Cautious || !echoed || grown)}, nil
	case s.LastPage >= 0 && at.Kind != KindOffset:
		return Continuation{Rule: RuleLastPage}, nil
	case s.Linked && s.Total <= p.Rows, s.Tokened && s.Total <= p.Rows, at.pager().NeedsNext(at.Param) && p.Hint.Type != "since_id":
		return Continuation{Rule: RuleNoNext}, nil // a missing next link or token means the end
	}
	return p.count(at, n, lastID, s), nil
}

func (p *Progress) noNext(guess bool) error {
	if guess {
		return nil
	}
	return errNoNext
}

func (p *Progress) account(at Position, n int, s Signals) error {
	p.Rows += int64(n)
	p.Last = max(s.LastPage, 0)
	if s.Total >= 0 || at.Kind == KindNone {
		p.Total = s.Total
	}
	if at.Kind == KindNone {
		p.Zero, p.offset0 = s.Page == 0 || p.Hint.Zero && s.Page < 0, s.offset
	}
	if p.Zero && p.Last > 0 && p.Total >= 0 && !p.indexed(s, n) {
		p.Last--
	}
	if n > 0 {
		p.Uneven = p.Uneven || p.Before > 0 && (p.EmptyPages > 0 || int64(p.Before) < p.Step || int64(n) > p.Step)
		p.EmptyPages, p.Before = 0, n
		if p.Step == 0 {
			p.Step = int64(n)
		}
		return nil
	}
	if p.EmptyPages++; p.EmptyPages >= maxEmptyPages && (s.More == Yes || s.Token != "" || s.Next != nil) {
		return errEmptyPages
	}
	return nil
}

// indexed reports whether s.LastPage is the index of the last page, counted from 0, and not the number of pages. For
// example, with 10 records per page, a total of 25 and the last page 2, it is an index: two pages hold only 20 records.
func (p *Progress) indexed(s Signals, n int) bool {
	step := max(p.Step, int64(n))
	return p.Zero && step > 0 && s.LastPage*step < s.Total
}

// Onward returns the position after a page whose answer does not state the next position.
func (p *Progress) Onward(at Position, n int, lastID string, s Signals) (next Position, ok bool) {
	hint := pagerOf(p.Hint.Type)
	known := p.Computes()
	l := Last{N: n, ID: lastID, Signals: s}
	for _, g := range pagers {
		if g == at.pager() || known && g == hint {
			if next, ok := g.Next(at, l, p); ok {
				return next, true
			}
		}
	}
	switch start := at.Kind == KindNone && !known; {
	case start && s.Page >= 0:
		return page{}.Next(at, l, p)
	case start && s.offset >= 0:
		return offset{}.Next(at, l, p)
	case lastID != "" && s.More == Yes:
		return keyset{}.Next(at, l, p)
	}
	return p.PageAt(at, p.page(at)+1), s.More != Yes
}

// count() decides for an answer that states only a total, or nothing about pages. If the total equals the number of
// records on the first page, the total may count only this page, and the list may have more pages.
func (p *Progress) count(at Position, n int, lastID string, s Signals) Continuation {
	next, ok := p.Onward(at, n, lastID, s)
	full := s.Total >= 0 && p.Rows == s.Total
	switch {
	case at.Kind == KindNone && p.unsure() && (n > 0 || s.Total < 0) && !(p.statesPages() && s.Total > p.Rows):
		switch {
		case full:
			return Continuation{Next: next, Rule: RuleTotal, Open: true}
		case s.Total > p.Rows:
			return Continuation{Next: next, Open: true}
		}
		return Continuation{Next: next, Rule: RuleEmptyPage, Open: true}
	case full && (at.Kind == KindPage || at.Kind == KindOffset || at.Kind == KindCursor && p.Hint.Type == "since_id") && n > 0 && int64(max(n, s.records)) >= p.Step && ok:
		return Continuation{Next: next} // the total may be too low; the next page shows whether there are more records
	case full && (at.Kind != KindNone || n == 0):
		return Continuation{Rule: RuleTotal}
	case n == 0 && p.ended(at) && (!p.within(next, p.Total) || p.EmptyPages >= maxEmptyPages), !ok:
		return Continuation{Rule: RuleEmptyPage}
	}
	return Continuation{Next: next}
}

// maxUneven is how many consecutive empty pages end a list if an earlier page was not full. Some servers cut the list
// into pages first, and then remove the records that the user has no right to see.
const maxUneven = 5

// ended reports whether an empty page is the end of the list. An empty first page is always the end. So is an empty
// page that was requested by cursor. Any other empty page is the end only if the page before it was empty too.
func (p *Progress) ended(at Position) bool {
	switch {
	case at.Kind == KindCursor || at.Kind == KindNone:
		return true
	case p.Uneven:
		return p.EmptyPages >= maxUneven
	}
	return p.EmptyPages > 1
}

func (p *Progress) statesPages() bool {
	return !p.Cautious && pagerOf(p.Hint.Type).Traits().Counts && p.Hint.Page != ""
}

// unsure reports whether other paging parameters may return further pages.
func (p *Progress) unsure() bool {
	if pagerOf(p.Hint.Type).Traits().Blind {
		return !p.Settled || p.Announces
	}
	return true // the list may have a cursor with another name
}

// Following returns the position after the given position. It returns false if only the answer for the given position
// can show the next position.
func (p *Progress) Following(at Position) (Position, bool) {
	return at.pager().Following(at, p)
}

// Computes reports whether the next position can be computed without signals in the answers.
func (p *Progress) Computes() bool { return pagerOf(p.Hint.Type).Traits().Computes }

// of() returns only the signals that belong to the configured type of paging.
func (s Signals) of(typ string) Signals {
	switch {
	case pagerOf(typ).Traits().Computes:
		if s.Token != "" || s.Next != nil || s.opaque {
			if s.More == unstated {
				s.More = Yes
			}
		} else if s.More == unstated && (s.Linked || s.Tokened) {
			s.More = No
		}
		s.Token, s.Next, s.opaque, s.Linked, s.Tokened = "", nil, false, false, false
	case typ == "none":
		total := s.Total
		s = NoSignals
		s.Total, s.More = total, No
	}
	return s
}

func (p *Progress) token(at Position, s Signals) (next Position, sure bool) {
	if at.Param != "" && at.Kind != KindNone {
		return linkPosition(at.Param, s.Token), true
	}
	for name := range s.Next {
		if s.Next.Get(name) == s.Token {
			return linkPosition(name, s.Token), true
		}
	}
	if g := pagerOf(p.Hint.Type); g != Pager(parameter{}) && g != Pager(header{}) && p.Hint.Page != "" {
		return linkPosition(p.Hint.Page, s.Token), false
	}
	return linkPosition(p.tokenParams(s)[0], s.Token), false
}
