package paging

import (
	"context"
	"fmt"
)

// decideUnpaged decides whether the first page is the whole list. The list states nothing about pages, and no parameter
// returned a second page. If the list reacted to a parameter, the first page may be only a part of the list. Then
// decideUnpaged tries larger page sizes.
func (p *Probe) decideUnpaged(ctx context.Context) error {
	if p.reacted {
		if done, err := p.findLargerSize(ctx); done || err != nil {
			return err
		}
	} else if p.First.Note == "" {
		moved, err := p.Again(ctx)
		if err != nil {
			return err
		}
		p.Reread = !moved
	}
	p.Whole = true
	p.Unproved = p.server.refuses || p.reacted && !p.changedToPart
	return p.refuseAtLimit()
}

// refuseAtLimit returns an error if a list without pages has exactly as many records as requested. The server may have
// cut such a list.
func (p *Probe) refuseAtLimit() error {
	if hint := p.s.Pagination; (hint.Type == "" || hint.Type == "none") && hint.Size != "" && hint.Limit >= LargestPage && p.First.N == hint.Limit {
		return p.Unexplained(fmt.Sprintf("the list has as many records as requested, %d, and may have more", hint.Limit))
	}
	return nil
}

// lowerSize lowers the requested page size to the number of records that the server returned. This number is the real
// size of the server's pages.
func (p *Probe) lowerSize(ctx context.Context) error {
	hint := &p.s.Pagination
	if n := p.First.N; hint.Size != "" && n > 0 && n < hint.Limit {
		hint.Limit, p.Paging.Limit = n, n
		_, err := p.Again(ctx)
		return err
	}
	return nil
}

func (p *Probe) findLargerSize(ctx context.Context) (done bool, err error) {
	n := p.First.N
	flat, nested := make(Query), make(Query)
	for _, name := range p.sizeNames() {
		if _, _, bracket := CutBracket(name); bracket {
			nested.Add(name, fmt.Sprint(LargestPage))
		} else {
			flat.Add(name, fmt.Sprint(LargestPage))
		}
	}
	for _, q := range []Query{flat, nested} {
		if done, err := p.findLargerSizeBy(ctx, q, n); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

const maxTogether = 24

func (p *Probe) findLargerSizeBy(ctx context.Context, q Query, n int) (done bool, err error) {
	if len(q) == 0 {
		return false, nil
	}
	at := Position{Extra: q.Encode()}
	for name := range q {
		if len(q) == 1 {
			at.Param = name
		}
	}
	st, like, err := p.request(ctx, at)
	if err != nil {
		return false, err
	}
	if st != nil {
		p.list.Release(st)
	}
	switch {
	case st == nil && len(q) > maxTogether, st != nil && (st.N <= n || like == NoRecords):
		return false, nil
	case len(q) == 1 && st == nil:
		return false, nil
	case len(q) == 1:
		return true, p.enlarge(ctx, at.Param)
	}
	for _, half := range p.halves(q) {
		if done, err := p.findLargerSizeBy(ctx, half, n); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

func (p *Probe) halves(q Query) [2]Query {
	halves, i := [2]Query{{}, {}}, 0
	for _, name := range p.sizeNames() {
		if value, ok := q[name]; ok {
			half := 0
			if i >= len(q)/2 {
				half = 1
			}
			halves[half][name] = value
			i++
		}
	}
	return halves
}

func (p *Probe) enlarge(ctx context.Context, name string) error {
	p.s.Pagination.Size, p.s.Pagination.Limit = name, LargestPage
	p.Paging.Type, p.Paging.Size, p.Paging.Limit = "none", name, LargestPage
	if _, err := p.Again(ctx); err != nil {
		return err
	}
	p.Whole, p.Reread = true, false
	if n := p.First.N; Round(n) && n < LargestPage {
		return p.Unexplained(fmt.Sprintf("the request with %s=%d returned %d records, a round number, so the server may have cut the list there", name, LargestPage, n))
	}
	return p.refuseAtLimit()
}
