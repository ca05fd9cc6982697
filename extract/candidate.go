package extract

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/penstock-data/penstock/schemas"
)

// pagerCandidate is a parameter by which a list may go on, with the value that would
// bring its second page.
type pagerCandidate struct {
	typ   string // as [schemas.Pagination] calls it
	at    position
	field string // of the last record, whose value it is; "" where it is not

	moment bool // it is a time, which several records may share
}

// groups are the candidates in the order of what speaks for them. Those of one
// group are first tried together, if they are many.
func (p *pagerProbe) groups() [][]pagerCandidate {
	s, hint := p.first.signals, p.l.pager.hint
	var all [][]pagerCandidate
	add := func(g ...pagerCandidate) {
		for _, c := range g {
			all = append(all, []pagerCandidate{c})
		}
	}
	if c, ok := p.hinted(); ok {
		add(c)
	}
	switch {
	case s.token != "" && s.ranged:
		add(pagerCandidate{typ: "range", at: position{kind: pagerRange, at: s.token}})
	case s.rangeUnit != "":
		add(pagerCandidate{typ: "range", at: rangeAt(s.rangeUnit, int64(p.first.batch.n), int64(p.first.batch.n))})
	case s.token != "" && p.refuses:
		return append(all, p.oneByOne(p.tokens(p.l.pager.tokenParams(s)))...)
	case s.token != "":
		first := p.tokens(p.l.pager.tokenParams(s))
		add(first...)
		if digitsOnly(s.token) { // the number of a page, or of a record
			page, offset := p.numbered("page"), p.numbered("offset")
			all = append(all, p.without(page[:min(len(page), 10)], first), p.without(offset[:min(len(offset), 8)], first))
		}
		all = append(all, p.without(p.tokens(schemas.Paging().Parameters(schemas.ParamToken)), first))
	case s.next != nil:
		add(p.inLink()...)
	}
	if p.refuses {
		return append(all, p.oneByOne(nil)...)
	}
	page, offset, since := p.numbered("page"), p.numbered("offset"), p.since()
	switch {
	case hint.Type == "offset", s.offset >= 0 && s.page < 0:
		all = append(all, offset[:1], page[:1], offset[1:], page[1:])
	case s.more == yes && s.page < 0 && len(since) > 0:
		all = append(all, since[:1], page[:1], offset[:1], page[1:], offset[1:])
	case s.page >= 0:
		all = append(all, page[:1], page[1:], offset[:1], offset[1:])
	default:
		all = append(all, page[:1], offset[:1], page[1:], offset[1:])
	}
	all = append(all, since)
	all = append(all, p.fromRecords()...)
	if p.first.rule != "" {
		return all
	}
	return append(all, p.moments()...)
}

// without leaves out candidates that are tried before.
func (p *pagerProbe) without(all, before []pagerCandidate) []pagerCandidate {
	return slices.DeleteFunc(all, func(c pagerCandidate) bool {
		return slices.ContainsFunc(before, func(b pagerCandidate) bool { return b.at == c.at })
	})
}

// hinted is what the stream itself says.
func (p *pagerProbe) hinted() (pagerCandidate, bool) {
	hint := p.l.pager.hint
	if hint.Page == "" || hint.Type == "none" {
		return pagerCandidate{}, false
	}
	c := p.named(hint.Type, []string{hint.Page})
	if len(c) == 0 {
		return pagerCandidate{}, false
	}
	return c[0], true
}

// numbered are the candidates of a list that counts its pages or records: the
// name under which the answer repeats the number first.
func (p *pagerProbe) numbered(typ string) []pagerCandidate {
	s, words := p.first.signals, schemas.Paging()
	echoed, family := s.pageName, schemas.ParamPage
	if typ == "offset" {
		echoed, family = s.offsetName, schemas.ParamOffset
	}
	usual, names := words.Parameters(family), []string(nil)
	if echoed.name != "" && slices.Contains(usual, echoed.name) {
		names = append(names, echoed.name)
	}
	if typ == "page" {
		names = append([]string{usual[0]}, names...)
	}
	return p.named(typ, distinctNames(append(names, usual...)))
}

// tokens are candidates that send the answer's token under these names.
func (p *pagerProbe) tokens(names []string) []pagerCandidate { return p.named("cursor", names) }

// named makes candidates of one type; none where the type has no value to go on
// with.
func (p *pagerProbe) named(typ string, names []string) []pagerCandidate {
	var out []pagerCandidate
	for _, name := range names {
		if p.fixed(name) {
			continue
		}
		c := pagerCandidate{typ: typ, at: position{param: name}}
		switch typ {
		case "page":
			c.at.kind, c.at.at = pagerPage, strconv.FormatInt(max(p.first.signals.page, 1)+1, 10)
			if p.first.signals.page == 0 {
				c.at.at = "1"
			}
		case "offset":
			c.at.kind, c.at.at = pagerOffset, strconv.Itoa(p.first.batch.n)
		case "since_id":
			c.at.kind, c.at.at = pagerCursor, p.l.lastID
		case "link":
			if v := p.first.signals.next.Get(name); v != "" {
				c.at = linkPosition(name, v)
			}
		default:
			c.at = linkPosition(name, p.first.signals.token)
		}
		if c.at.at != "" {
			out = append(out, c)
		}
	}
	return out
}

// fixed reports whether the stream itself gives a parameter its value, one that
// paging must leave alone: ?page=1 only says where the list begins.
func (p *pagerProbe) fixed(name string) bool {
	words := schemas.Paging()
	return slices.ContainsFunc(p.l.params, func(b bound) bool {
		begins := (b.text() == "0" || b.text() == "1") && (words.Parameter(schemas.ParamPage, name) || words.Parameter(schemas.ParamOffset, name))
		return b.Name == name && !begins
	})
}

// rangeAt is the range of n records from one on.
func rangeAt(unit string, from, n int64) position {
	return position{kind: pagerRange, param: unit, at: fmt.Sprintf("%s=%d-%d", unit, from, from+n-1)}
}

func distinctNames(names []string) []string {
	var out []string
	for _, name := range names {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
