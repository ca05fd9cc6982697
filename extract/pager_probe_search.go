package extract

import (
	"context"
	"net/http"
	"strings"
)

// maxSingles bounds how many parameters of one group are tried by themselves where
// the server refuses to be asked by several at once.
const maxSingles = 24

// group tries the candidates of one kind; of a POST in its body first, then in its
// query.
func (p *pagerProbe) group(ctx context.Context, g []pagerCandidate, silent bool) (done bool, err error) {
	before := p.l.s.Pagination.Query
	places := []bool{before}
	if p.l.s.Method == http.MethodPost && p.l.s.Stated["pagination"] == "" {
		places = []bool{false, true}
	}
	for _, place := range places {
		if place && p.inBody {
			continue
		}
		p.l.s.Pagination.Query = place
		for _, part := range apart(g) {
			if done, err := p.search(ctx, part, silent, false); done || err != nil {
				return done, err
			}
		}
	}
	p.l.s.Pagination.Query = before
	return false, nil
}

// apart separates page and its like from page[number] and its like: no request has
// both.
func apart(g []pagerCandidate) [][]pagerCandidate {
	var flat, nested []pagerCandidate
	for _, c := range g {
		if strings.HasPrefix(c.at.param, "page[") {
			nested = append(nested, c)
		} else {
			flat = append(flat, c)
		}
	}
	return [][]pagerCandidate{flat, nested}
}

// search tries all candidates at once, if they are many, then each half of those
// that made a difference. reacts says that one of them is known to make one.
func (p *pagerProbe) search(ctx context.Context, g []pagerCandidate, silent, reacts bool) (done bool, err error) {
	if len(g) > 2 && !p.refuses {
		if !reacts {
			like, refused, err := p.bulk(ctx, g)
			switch {
			case err != nil:
				return false, err
			case refused:
				p.refuses = true
				return p.search(ctx, g, silent, false)
			case like == sameRecords || like == mostlySame:
				return false, nil
			}
		}
		half := len(g) / 2
		like, refused, err := p.bulk(ctx, g[:half])
		if err != nil {
			return false, err
		}
		if p.refuses = refused; refused {
			return p.search(ctx, g, silent, false)
		}
		if like == sameRecords || like == mostlySame {
			return p.search(ctx, g[half:], silent, true)
		}
		if done, err := p.search(ctx, g[:half], silent, true); done || err != nil {
			return done, err
		}
		return p.search(ctx, g[half:], silent, false)
	}
	if p.refuses {
		g = g[:min(len(g), maxSingles)]
	}
	for _, c := range g {
		if p.l.requests > maxSearch {
			return false, nil
		}
		if done, err := p.try(ctx, c, silent); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// bulk sends all candidates in one request; refused says that the server did not
// take it.
func (p *pagerProbe) bulk(ctx context.Context, g []pagerCandidate) (like likeness, refused bool, err error) {
	extra := make(query)
	for _, c := range g {
		extra.add(c.at.param, c.at.at)
	}
	st, err := p.l.look(ctx, position{extra: extra.encode(), placed: true})
	if _, ok := refusal(err); ok {
		if !p.controlled {
			if err := p.control(ctx); err != nil {
				return 0, false, err
			}
		}
		if p.lenient {
			return otherRecords, false, nil // it refuses the value of one that it knows
		}
		return 0, true, nil // each by itself, then
	}
	if minded(err) {
		return otherRecords, false, nil // something in it makes the server stumble
	}
	if err != nil {
		return 0, false, err
	}
	p.l.c.release(st.a)
	like = p.compare(st)
	if like == sameRecords || like == mostlySame {
		p.say(extra.names(), "ignored")
	}
	if like == noRecords && !p.controlled {
		if err := p.control(ctx); err != nil || p.refuses {
			return like, p.refuses, err
		}
	}
	return like, false, nil
}

// noParameter is a parameter that no server knows.
const noParameter = "no_such_parameter"

// control asks with a parameter that no server knows. One that refuses it, or has no
// records then since it takes what it does not know for a filter, cannot be asked by
// several at once.
func (p *pagerProbe) control(ctx context.Context) error {
	p.controlled = true
	st, like, err := p.ask(ctx, position{extra: noParameter + "=1", placed: true})
	if err != nil {
		return err
	}
	if st == nil {
		p.refuses = true
		return nil
	}
	p.l.c.release(st.a)
	p.refuses = like == noRecords
	p.lenient = like == sameRecords
	return nil
}
