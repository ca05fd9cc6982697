package extract

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// sweep sends all paging parameters at once. If the list returns the same records, it ignores all of them. Then the
// first page is the whole list, and done is true.
func (p *pagerProbe) sweep(ctx context.Context) (done bool, err error) {
	for _, extra := range p.everything() {
		same, err := p.sweepWith(ctx, extra)
		if !same || err != nil {
			return false, err
		}
	}
	if round(p.first.batch.n) {
		same, err := p.sweepWith(ctx, p.pageOne())
		if p.fromZero = !same && p.reacted; !same || err != nil {
			return false, err
		}
	}
	p.whole, p.reread = true, true
	return true, p.refuseAtLimit()
}

// sweepWith reports whether the list returns the same keys with the same content. Equal keys are not enough, because
// several records may have the same key.
func (p *pagerProbe) sweepWith(ctx context.Context, extra string) (same bool, err error) {
	all := position{extra: extra}
	for range maxReread {
		second, err := p.l.look(ctx, all)
		if probeRefused(err) {
			p.noteTried("all parameters at once", err.Error())
			if _, refused := refusal(err); refused {
				err = p.control(ctx)
			} else {
				err = nil // an unreadable answer proves nothing
			}
			p.reacted = !p.refuses
			return false, err
		}
		if err != nil {
			return false, err
		}
		like := p.compare(second)
		content := sum(second.batch.content)
		p.l.c.release(second.a)
		before := sum(p.first.batch.content)
		if like == sameRecords && content == before {
			return true, nil
		}
		p.reacted, p.changedToPart = true, like == fewerRecords || like == sameRecords
		if like != mostlySame && like != sameRecords && (like != otherRecords || len(p.l.s.Key) > 0) {
			return false, nil
		}
		moved, err := p.again(ctx)
		if err != nil {
			return false, err
		}
		if like == sameRecords && !moved && p.lastContent != before {
			p.reacted = false
			return true, nil // the records change whenever they are read
		}
		if !moved {
			return false, nil
		}
	}
	p.reacted = false
	p.first.note = "the list changed while it was read"
	return false, nil
}

// everything returns all paging parameters. Names with brackets come separately. The page size is the number of
// records on the first page plus one. With that size, the second page begins at another record.
func (p *pagerProbe) everything() []string {
	flat, nested := make(query), make(query)
	add := func(name, value string) {
		if strings.HasPrefix(name, "page[") {
			nested.add(name, value)
		} else if !p.fixed(name) {
			flat.add(name, value)
		}
	}
	groups := [][]pagerCandidate{p.numbered("page"), p.numbered("offset"), p.since()}
	if c, ok := p.hinted(); ok {
		groups = append(groups, []pagerCandidate{c})
	}
	for _, g := range groups {
		for _, c := range g {
			if c.at.param != "" {
				add(c.at.param, c.at.at)
			}
		}
	}
	for _, name := range p.sizeNames() {
		add(name, strconv.Itoa(p.first.batch.n+1))
	}
	if !round(p.first.batch.n) {
		return []string{flat.encode()}
	}
	return []string{flat.encode(), nested.encode()}
}

// pageOne returns the parameters that request page 1. They detect a list of two pages that are numbered from 0. If
// that list repeats its first page after its end, page 2 looks like an ignored parameter.
func (p *pagerProbe) pageOne() string {
	one := make(query)
	for _, name := range schemas.Paging().Parameters(schemas.ParamPage) {
		if !p.fixed(name) && !strings.HasPrefix(name, "page[") {
			one.add(name, "1")
		}
	}
	return one.encode()
}

type query map[string]string

func (q query) add(name, value string) {
	if _, ok := q[name]; !ok && value != "" {
		q[name] = value
	}
}

func (q query) encode() string {
	v := make(url.Values, len(q))
	for name, value := range q {
		v.Set(name, value)
	}
	return v.Encode()
}

func (q query) names() string { return strings.Join(slices.Sorted(maps.Keys(q)), ", ") }
