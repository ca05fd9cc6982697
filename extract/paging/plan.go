package paging

import (
	"slices"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

// groups returns the candidates, the likeliest first. All candidates of a group are tried in one request.
func (p *Probe) groups() [][]Candidate {
	all := p.stated()
	if p.refuses {
		return append(all, p.oneByOne(cursor{}.Candidates(p))...)
	}
	all = append(all, p.counted()...)
	all = append(all, token{}.groups(p)...)
	if p.First.Rule != "" {
		return all
	}
	return append(all, moment{}.groups(p)...)
}

func (p *Probe) stated() [][]Candidate {
	s := p.First.Signals
	var all [][]Candidate
	add := func(g ...Candidate) {
		for _, c := range g {
			all = append(all, []Candidate{c})
		}
	}
	if c, ok := p.hinted(); ok {
		add(c)
	}
	switch {
	case s.Token != "" && s.ranged, s.rangeUnit != "":
		add(header{}.Candidates(p)...)
	case s.Token != "" && p.refuses:
	case s.Token != "":
		first := cursor{}.Candidates(p)
		add(first...)
		if jsondoc.DigitsOnly(s.Token) { // the token may be the number of a page or the index of a record
			pages, offsets := page{}.Candidates(p), offset{}.Candidates(p)
			all = append(all, p.without(pages[:min(len(pages), 10)], first), p.without(offsets[:min(len(offsets), 8)], first))
		}
		all = append(all, p.without(p.named(cursor{}, schemas.Paging().Parameters(schemas.ParamToken)), first))
	case s.Next != nil:
		add(link{}.Candidates(p)...)
	}
	return all
}

// counted returns the candidates that need no sign in the first page.
func (p *Probe) counted() [][]Candidate {
	s := p.First.Signals
	pages, offsets, since := page{}.Candidates(p), offset{}.Candidates(p), keyset{}.Candidates(p)
	groups := [][]Candidate{pages[:1], offsets[:1], pages[1:], offsets[1:], since}
	switch {
	case p.progress.Hint.Type == offset{}.Type(), s.offset >= 0 && s.Page < 0:
		groups = [][]Candidate{offsets[:1], pages[:1], offsets[1:], pages[1:], since}
	case s.More == Yes && s.Page < 0 && len(since) > 0:
		groups = [][]Candidate{since[:1], pages[:1], offsets[:1], pages[1:], offsets[1:], since}
	case s.Page >= 0:
		groups = [][]Candidate{pages[:1], pages[1:], offsets[:1], offsets[1:], since}
	}
	return append(groups, p.others()...)
}

// others returns the candidates of the pagers that have no place in the order.
func (p *Probe) others() [][]Candidate {
	var groups [][]Candidate
	for _, g := range pagers {
		switch g.(type) {
		case page, offset, keyset:
		default:
			if g.Traits().Blind {
				groups = append(groups, g.Candidates(p))
			}
		}
	}
	return groups
}

func (p *Probe) without(candidates, excluded []Candidate) []Candidate {
	return slices.DeleteFunc(candidates, func(c Candidate) bool {
		return slices.ContainsFunc(excluded, func(b Candidate) bool { return b.at == c.at })
	})
}

func (p *Probe) hinted() (Candidate, bool) {
	hint := p.progress.Hint
	if hint.Page == "" || hint.Type == "none" {
		return Candidate{}, false
	}
	c := p.named(pagerOf(hint.Type), []string{hint.Page})
	if len(c) == 0 {
		return Candidate{}, false
	}
	return c[0], true
}

// named returns the candidates of a pager for some parameters.
func (p *Probe) named(g Pager, names []string) []Candidate {
	var out []Candidate
	for _, name := range names {
		if p.fixed(name) {
			continue
		}
		if at := g.Second(p, name); at.At != "" {
			out = append(out, Candidate{pager: g, at: at})
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
