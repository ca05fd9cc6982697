package paging

import (
	"context"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// sweep sends all paging parameters together. If the list returns the same records, it ignores all of the parameters.
// Then the first page is the whole list, and done is true.
func (p *Probe) sweep(ctx context.Context) (done bool, err error) {
	for _, extra := range p.Everything() {
		same, err := p.sweepWith(ctx, extra)
		if !same || err != nil {
			return false, err
		}
	}
	if Round(p.First.N) {
		same, err := p.sweepWith(ctx, p.pageOne())
		if p.fromZero = !same && p.reacted; !same || err != nil {
			return false, err
		}
	}
	p.Whole, p.Reread = true, true
	return true, p.refuseAtLimit()
}

// sweepWith reports whether the list returns the same keys with the same content. Equal keys are not enough, because
// several records may have the same key.
func (p *Probe) sweepWith(ctx context.Context, extra string) (same bool, err error) {
	all := Position{Extra: extra}
	for range maxReread {
		second, err := p.list.Look(ctx, all)
		if Refused(err) {
			p.noteTried("all parameters at once", err.Error())
			if _, refused := EndStatus(err); refused {
				err = p.control(ctx)
			} else {
				err = nil // an unreadable answer proves nothing
			}
			p.reacted = !p.server.refuses
			return false, err
		}
		if err != nil {
			return false, err
		}
		like := p.Compare(second)
		content := Sum(second.Content)
		p.list.Release(second)
		before := Sum(p.First.Content)
		if like == SameRecords && content == before {
			return true, nil
		}
		p.reacted, p.changedToPart = true, like == FewerRecords || like == SameRecords
		if like != MostlySame && like != SameRecords && (like != OtherRecords || len(p.s.Key) > 0) {
			return false, nil
		}
		moved, err := p.Again(ctx)
		if err != nil {
			return false, err
		}
		if like == SameRecords && !moved && p.lastContent != before {
			p.reacted = false
			return true, nil // the records change whenever they are read
		}
		if !moved {
			return false, nil
		}
	}
	p.reacted = false
	p.First.Note = "the list changed while it was read"
	return false, nil
}

// Everything returns all paging parameters. Names with brackets come in a separate query. The page size is one more
// than the number of records on the first page, so that the second page begins at another record than it would without
// a page size.
func (e *evidence) Everything() []string {
	flat, nested := make(Query), make(Query)
	add := func(name, value string) {
		if strings.HasPrefix(name, "page[") {
			nested.Add(name, value)
		} else if !e.fixed(name) {
			flat.Add(name, value)
		}
	}
	var groups [][]Candidate
	for _, g := range pagers {
		if g.Traits().Blind {
			groups = append(groups, g.Candidates(e))
		}
	}
	if c, ok := e.hinted(); ok {
		groups = append(groups, []Candidate{c})
	}
	for _, g := range groups {
		for _, c := range g {
			if c.at.Param != "" {
				add(c.at.Param, c.at.At)
			}
		}
	}
	for _, name := range e.sizeNames() {
		add(name, strconv.Itoa(e.First.N+1))
	}
	if !Round(e.First.N) {
		return []string{flat.Encode()}
	}
	return []string{flat.Encode(), nested.Encode()}
}

// pageOne returns the parameters that request page 1. They detect a list with the two pages 0 and 1. If such a list
// answers page 2 with its first page, it looks as if it ignored the parameter. The answer to page 1 shows that it uses
// the parameter.
func (e *evidence) pageOne() string {
	one := make(Query)
	for _, name := range schemas.Paging().Parameters(schemas.ParamPage) {
		if !e.fixed(name) && !strings.HasPrefix(name, "page[") {
			one.Add(name, "1")
		}
	}
	return one.Encode()
}
