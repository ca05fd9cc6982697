package extract

import (
	"context"
	"fmt"
)

// decideUnpaged decides about a list that states nothing about pages and that no parameter continues. If the list
// reacted to a parameter, the first page may be a part of it, so decideUnpaged tries larger page sizes.
func (p *pagerProbe) decideUnpaged(ctx context.Context) error {
	if p.reacted {
		if done, err := p.findLargerSize(ctx); done || err != nil {
			return err
		}
	} else if p.first.note == "" {
		moved, err := p.again(ctx)
		if err != nil {
			return err
		}
		p.reread = !moved
	}
	p.whole = true
	p.l.unproved = p.refuses || p.reacted && !p.changedToPart
	return p.refuseAtLimit()
}

// refuseAtLimit returns an error if a list without pages has exactly as many records as requested: the server may
// have cut it.
func (p *pagerProbe) refuseAtLimit() error {
	if hint := p.l.s.Pagination; (hint.Type == "" || hint.Type == "none") && hint.Size != "" && hint.Limit >= largestPage && p.first.batch.n == hint.Limit {
		return p.unexplained(fmt.Sprintf("the list has as many records as requested, %d, and may have more", hint.Limit))
	}
	return nil
}

// lowerSize lowers the requested page size to the number of records that the server returned. The server counts pages
// by that number.
func (p *pagerProbe) lowerSize(ctx context.Context) error {
	hint := &p.l.s.Pagination
	if n := p.first.batch.n; hint.Size != "" && n > 0 && n < hint.Limit {
		hint.Limit, p.paging.Limit = n, n
		_, err := p.again(ctx)
		return err
	}
	return nil
}

func (p *pagerProbe) findLargerSize(ctx context.Context) (done bool, err error) {
	n := p.first.batch.n
	flat, nested := make(query), make(query)
	for _, name := range p.sizeNames() {
		if _, _, bracket := cutBracket(name); bracket {
			nested.add(name, fmt.Sprint(largestPage))
		} else {
			flat.add(name, fmt.Sprint(largestPage))
		}
	}
	for _, q := range []query{flat, nested} {
		if done, err := p.findLargerSizeBy(ctx, q, n); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

const maxTogether = 24

func (p *pagerProbe) findLargerSizeBy(ctx context.Context, q query, n int) (done bool, err error) {
	if len(q) == 0 {
		return false, nil
	}
	at := position{extra: q.encode()}
	for name := range q {
		if len(q) == 1 {
			at.param = name
		}
	}
	st, like, err := p.request(ctx, at)
	if err != nil {
		return false, err
	}
	if st != nil {
		p.l.c.release(st.a)
	}
	switch {
	case st == nil && len(q) > maxTogether, st != nil && (st.batch.n <= n || like == noRecords):
		return false, nil
	case len(q) == 1 && st == nil:
		return false, nil
	case len(q) == 1:
		return true, p.enlarge(ctx, at.param)
	}
	for _, half := range p.halves(q) {
		if done, err := p.findLargerSizeBy(ctx, half, n); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

func (p *pagerProbe) halves(q query) [2]query {
	halves, i := [2]query{{}, {}}, 0
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

func (p *pagerProbe) enlarge(ctx context.Context, name string) error {
	p.l.s.Pagination.Size, p.l.s.Pagination.Limit = name, largestPage
	p.paging.Type, p.paging.Size, p.paging.Limit = "none", name, largestPage
	if _, err := p.again(ctx); err != nil {
		return err
	}
	p.whole, p.reread = true, false
	if n := p.first.batch.n; round(n) && n < largestPage {
		return p.unexplained(fmt.Sprintf("requested with %s=%d, the list has %d records, a round number, and may be cut there", name, largestPage, n))
	}
	return p.refuseAtLimit()
}
