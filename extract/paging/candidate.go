package paging

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

type candidate struct {
	typ   string
	at    Position
	field string

	moment bool // the value is a time; several records may have the same
}

// groups returns the candidates, the likeliest first. All candidates of a group are tried in one request.
func (p *Probe) groups() [][]candidate {
	all := p.stated()
	if p.refuses {
		return append(all, p.oneByOne(p.answerTokens())...)
	}
	all = append(all, p.counted()...)
	all = append(all, p.fromRecords()...)
	if p.First.Rule != "" {
		return all
	}
	return append(all, p.moments()...)
}

func (p *Probe) answerTokens() []candidate {
	s := p.First.Signals
	if s.Token == "" || s.ranged || s.rangeUnit != "" {
		return nil
	}
	return p.tokens(p.progress.tokenParams(s))
}

func (p *Probe) stated() [][]candidate {
	s := p.First.Signals
	var all [][]candidate
	add := func(g ...candidate) {
		for _, c := range g {
			all = append(all, []candidate{c})
		}
	}
	if c, ok := p.hinted(); ok {
		add(c)
	}
	switch {
	case s.Token != "" && s.ranged:
		add(candidate{typ: "range", at: Position{Kind: KindRange, At: s.Token}})
	case s.rangeUnit != "":
		add(candidate{typ: "range", at: rangeAt(s.rangeUnit, int64(p.First.N), int64(p.First.N))})
	case s.Token != "" && p.refuses:
	case s.Token != "":
		first := p.answerTokens()
		add(first...)
		if jsondoc.DigitsOnly(s.Token) { // the token may be the number of a page or the index of a record
			page, offset := p.numbered("page"), p.numbered("offset")
			all = append(all, p.without(page[:min(len(page), 10)], first), p.without(offset[:min(len(offset), 8)], first))
		}
		all = append(all, p.without(p.tokens(schemas.Paging().Parameters(schemas.ParamToken)), first))
	case s.Next != nil:
		add(p.inLink()...)
	}
	return all
}

func (p *Probe) counted() [][]candidate {
	s := p.First.Signals
	page, offset, since := p.numbered("page"), p.numbered("offset"), p.since()
	switch {
	case p.progress.Hint.Type == "offset", s.offset >= 0 && s.Page < 0:
		return [][]candidate{offset[:1], page[:1], offset[1:], page[1:], since}
	case s.More == Yes && s.Page < 0 && len(since) > 0:
		return [][]candidate{since[:1], page[:1], offset[:1], page[1:], offset[1:], since}
	case s.Page >= 0:
		return [][]candidate{page[:1], page[1:], offset[:1], offset[1:], since}
	}
	return [][]candidate{page[:1], offset[:1], page[1:], offset[1:], since}
}

func (p *Probe) without(candidates, excluded []candidate) []candidate {
	return slices.DeleteFunc(candidates, func(c candidate) bool {
		return slices.ContainsFunc(excluded, func(b candidate) bool { return b.at == c.at })
	})
}

func (p *Probe) hinted() (candidate, bool) {
	hint := p.progress.Hint
	if hint.Page == "" || hint.Type == "none" {
		return candidate{}, false
	}
	c := p.named(hint.Type, []string{hint.Page})
	if len(c) == 0 {
		return candidate{}, false
	}
	return c[0], true
}

// numbered returns candidates for paging by page or offset. An offset parameter that the answer names comes first. A
// page parameter that the answer names comes second, after the most usual one.
func (p *Probe) numbered(typ string) []candidate {
	s, words := p.First.Signals, schemas.Paging()
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

func (p *Probe) tokens(names []string) []candidate { return p.named("cursor", names) }

func (p *Probe) named(typ string, names []string) []candidate {
	var out []candidate
	for _, name := range names {
		if p.fixed(name) {
			continue
		}
		c := candidate{typ: typ, at: Position{Param: name}}
		switch typ {
		case "page":
			c.at.Kind, c.at.At = KindPage, strconv.FormatInt(max(p.First.Signals.Page, 1)+1, 10)
			if p.First.Signals.Page == 0 || p.fromZero {
				c.at.At = "1"
			}
		case "offset":
			c.at.Kind, c.at.At = KindOffset, strconv.Itoa(p.First.N)
		case "since_id":
			c.at.Kind, c.at.At = KindCursor, p.lastID
		case "link":
			if v := p.First.Signals.Next.Get(name); v != "" {
				c.at = linkPosition(name, v)
			}
		default:
			c.at = linkPosition(name, p.First.Signals.Token)
		}
		if c.at.At != "" {
			out = append(out, c)
		}
	}
	return out
}

// fixed reports whether the stream itself sets a parameter to a value that paging must not change. Values like
// page=1, offset=0 or cursor=* only say where the list begins, so they are not fixed.
func (p *Probe) fixed(name string) bool {
	words := schemas.Paging()
	return slices.ContainsFunc(p.list.Values(name), func(v string) bool {
		begins := (v == "0" || v == "1") && (words.Parameter(schemas.ParamPage, name) || words.Parameter(schemas.ParamOffset, name)) ||
			words.FirstToken(v) && words.Parameter(schemas.ParamToken, name)
		return !begins
	})
}

func rangeAt(unit string, from, n int64) Position {
	return Position{Kind: KindRange, Param: unit, At: fmt.Sprintf("%s=%d-%d", unit, from, from+n-1)}
}
