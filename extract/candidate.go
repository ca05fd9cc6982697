package extract

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

type pagerCandidate struct {
	typ   string
	at    position
	field string

	moment bool // the value is a time; several records may have the same
}

// groups returns the candidates, the likeliest first. All candidates of a group are tried in one request.
func (p *pagerProbe) groups() [][]pagerCandidate {
	all := p.stated()
	if p.refuses {
		return append(all, p.oneByOne(p.answerTokens())...)
	}
	all = append(all, p.counted()...)
	all = append(all, p.fromRecords()...)
	if p.first.rule != "" {
		return all
	}
	return append(all, p.moments()...)
}

func (p *pagerProbe) answerTokens() []pagerCandidate {
	s := p.first.signals
	if s.token == "" || s.ranged || s.rangeUnit != "" {
		return nil
	}
	return p.tokens(p.l.pager.tokenParams(s))
}

func (p *pagerProbe) stated() [][]pagerCandidate {
	s := p.first.signals
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
	case s.token != "":
		first := p.answerTokens()
		add(first...)
		if jsondoc.DigitsOnly(s.token) { // the token may be the number of a page or the index of a record
			page, offset := p.numbered("page"), p.numbered("offset")
			all = append(all, p.without(page[:min(len(page), 10)], first), p.without(offset[:min(len(offset), 8)], first))
		}
		all = append(all, p.without(p.tokens(schemas.Paging().Parameters(schemas.ParamToken)), first))
	case s.next != nil:
		add(p.inLink()...)
	}
	return all
}

func (p *pagerProbe) counted() [][]pagerCandidate {
	s := p.first.signals
	page, offset, since := p.numbered("page"), p.numbered("offset"), p.since()
	switch {
	case p.l.pager.hint.Type == "offset", s.offset >= 0 && s.page < 0:
		return [][]pagerCandidate{offset[:1], page[:1], offset[1:], page[1:], since}
	case s.more == yes && s.page < 0 && len(since) > 0:
		return [][]pagerCandidate{since[:1], page[:1], offset[:1], page[1:], offset[1:], since}
	case s.page >= 0:
		return [][]pagerCandidate{page[:1], page[1:], offset[:1], offset[1:], since}
	}
	return [][]pagerCandidate{page[:1], offset[:1], page[1:], offset[1:], since}
}

func (p *pagerProbe) without(candidates, excluded []pagerCandidate) []pagerCandidate {
	return slices.DeleteFunc(candidates, func(c pagerCandidate) bool {
		return slices.ContainsFunc(excluded, func(b pagerCandidate) bool { return b.at == c.at })
	})
}

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

// numbered returns candidates for paging by page or offset. An offset parameter that the answer names comes first. A
// page parameter that the answer names comes second, after the most usual one.
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
	return p.named(typ, records.Unique(append(names, usual...)))
}

func (p *pagerProbe) tokens(names []string) []pagerCandidate { return p.named("cursor", names) }

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
			if p.first.signals.page == 0 || p.fromZero {
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

// fixed reports whether the stream itself sets a parameter to a value that paging must not change. Values like
// page=1, offset=0 or cursor=* only say where the list begins, so they are not fixed.
func (p *pagerProbe) fixed(name string) bool {
	words := schemas.Paging()
	return slices.ContainsFunc(p.l.params, func(b bound) bool {
		begins := (b.text() == "0" || b.text() == "1") && (words.Parameter(schemas.ParamPage, name) || words.Parameter(schemas.ParamOffset, name)) ||
			words.FirstToken(b.text()) && words.Parameter(schemas.ParamToken, name)
		return b.Name == name && !begins
	})
}

func rangeAt(unit string, from, n int64) position {
	return position{kind: pagerRange, param: unit, at: fmt.Sprintf("%s=%d-%d", unit, from, from+n-1)}
}
