package paging

import (
	"slices"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

// groups returns the candidates, the likeliest first. All candidates of a group are tried in one request.
func (e *evidence) groups() [][]Candidate {
	all := e.stated()
	if e.server.refuses {
		return append(all, e.oneByOne(cursor{}.Candidates(e))...)
	}
	all = append(all, e.counted()...)
	all = append(all, token{}.groups(e)...)
	if e.First.Rule != "" {
		return all
	}
	return append(all, moment{}.groups(e)...)
}

func (e *evidence) stated() [][]Candidate {
	s := e.First.Signals
	var all [][]Candidate
	add := func(g ...Candidate) {
		for _, c := range g {
			all = append(all, []Candidate{c})
		}
	}
	if c, ok := e.hinted(); ok {
		add(c)
	}
	switch {
	case s.Token != "" && s.ranged, s.rangeUnit != "":
		add(header{}.Candidates(e)...)
	case s.Token != "" && e.server.refuses:
	case s.Token != "":
		first := cursor{}.Candidates(e)
		add(first...)
		if jsondoc.DigitsOnly(s.Token) { // the token may be the number of a page or the index of a record
			pages, offsets := page{}.Candidates(e), offset{}.Candidates(e)
			all = append(all, e.without(pages[:min(len(pages), 10)], first), e.without(offsets[:min(len(offsets), 8)], first))
		}
		all = append(all, e.without(e.named(cursor{}, schemas.Paging().Parameters(schemas.ParamToken)), first))
	case s.Next != nil:
		add(link{}.Candidates(e)...)
	}
	return all
}

// counted() returns the candidates of the pagers with [Traits].Blind, the likeliest first.
func (e *evidence) counted() [][]Candidate {
	s := e.First.Signals
	pages, offsets, since := page{}.Candidates(e), offset{}.Candidates(e), keyset{}.Candidates(e)
	groups := [][]Candidate{pages[:1], offsets[:1], pages[1:], offsets[1:], since}
	switch {
	case e.progress.Hint.Type == offset{}.Type(), s.offset >= 0 && s.Page < 0:
		groups = [][]Candidate{offsets[:1], pages[:1], offsets[1:], pages[1:], since}
	case s.More == Yes && s.Page < 0 && len(since) > 0:
		groups = [][]Candidate{since[:1], pages[:1], offsets[:1], pages[1:], offsets[1:], since}
	case s.Page >= 0:
		groups = [][]Candidate{pages[:1], pages[1:], offsets[:1], offsets[1:], since}
	}
	return append(groups, e.others()...)
}

// others() returns the candidates of the other pagers with [Traits].Blind: all except page, offset and keyset.
func (e *evidence) others() [][]Candidate {
	var groups [][]Candidate
	for _, g := range pagers {
		switch g.(type) {
		case page, offset, keyset:
		default:
			if g.Traits().Blind {
				groups = append(groups, g.Candidates(e))
			}
		}
	}
	return groups
}

func (e *evidence) without(candidates, excluded []Candidate) []Candidate {
	return slices.DeleteFunc(candidates, func(c Candidate) bool {
		return slices.ContainsFunc(excluded, func(b Candidate) bool { return b.at == c.at })
	})
}

func (e *evidence) hinted() (Candidate, bool) {
	hint := e.progress.Hint
	if hint.Page == "" || hint.Type == "none" {
		return Candidate{}, false
	}
	c := e.named(pagerOf(hint.Type), []string{hint.Page})
	if len(c) == 0 {
		return Candidate{}, false
	}
	return c[0], true
}
