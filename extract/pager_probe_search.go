package extract

import (
	"context"
	"net/http"
	"strings"
)

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
		for _, part := range splitNested(g) {
			refuses := p.refuses
			if done, err := p.search(ctx, part, silent, false); done || err != nil {
				return done, err
			}
			if p.refuses != refuses { // parameters are now tried one by one, in another order
				p.l.s.Pagination.Query = before
				return false, nil
			}
		}
	}
	p.l.s.Pagination.Query = before
	return false, nil
}

// splitNested separates nested names, such as page[number], from the others. No request may send page and
// page[number].
func splitNested(g []pagerCandidate) [][]pagerCandidate {
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

// search looks for the candidate that changes the list. It sends several candidates in one request, and then each
// half of them. reacts says that one of them is known to change the list.
func (p *pagerProbe) search(ctx context.Context, g []pagerCandidate, silent, reacts bool) (done bool, err error) {
	if len(g) > 2 && !p.refuses {
		if !reacts {
			like, refused, err := p.tryTogether(ctx, g)
			switch {
			case err != nil:
				return false, err
			case refused:
				p.refuses = true
				return false, nil
			case like == sameRecords || like == mostlySame:
				return false, nil
			}
		}
		half := len(g) / 2
		like, refused, err := p.tryTogether(ctx, g[:half])
		if err != nil {
			return false, err
		}
		if p.refuses = refused; refused {
			return false, nil
		}
		if like == sameRecords || like == mostlySame {
			return p.search(ctx, g[half:], silent, true)
		}
		if done, err := p.search(ctx, g[:half], silent, true); done || err != nil {
			return done, err
		}
		return p.search(ctx, g[half:], silent, false)
	}
	for _, c := range g {
		if p.l.requests > p.most(silent) {
			return false, nil
		}
		if done, err := p.tryOne(ctx, c, silent); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// tryOne tries one candidate. If the server refuses several parameters in one request, it requests page 1 before page
// 2. The answer shows whether the server knows the parameter, and whether pages are numbered from 0.
func (p *pagerProbe) tryOne(ctx context.Context, c pagerCandidate, silent bool) (done bool, err error) {
	second := c.at.kind == pagerPage && c.at.at == "2" && p.first.signals.page < 0
	if !p.refuses || !second || p.triedAlone[p.place(c.at)] {
		return p.try(ctx, c, silent)
	}
	one := c
	one.at.at = "1"
	p.known = false
	if done, err := p.try(ctx, one, silent); done || err != nil || !p.known {
		return done, err
	}
	return p.try(ctx, c, silent)
}

func (p *pagerProbe) tryTogether(ctx context.Context, g []pagerCandidate) (like likeness, refused bool, err error) {
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
			return otherRecords, false, nil // the server knows a parameter and refuses its value
		}
		return 0, true, nil
	}
	if probeRefused(err) {
		return otherRecords, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	p.l.c.release(st.a)
	like = p.compare(st)
	if like == sameRecords || like == mostlySame {
		p.noteTried(extra.names(), "ignored")
	}
	if like == noRecords && !p.controlled {
		if err := p.control(ctx); err != nil || p.refuses {
			return like, p.refuses, err
		}
	}
	return like, false, nil
}

const noParameter = "no_such_parameter"

// control sends a parameter that no server knows. If the server refuses it, or treats it as a filter, the next
// requests try one candidate each.
func (p *pagerProbe) control(ctx context.Context) error {
	p.controlled = true
	st, like, err := p.request(ctx, position{extra: noParameter + "=1", placed: true})
	if err != nil {
		return err
	}
	if st == nil {
		p.refuses, p.strange = true, wordsWithout(strings.Join(p.words, " "), noParameter)
		return nil
	}
	p.l.c.release(st.a)
	p.answers = true
	p.refuses = like == noRecords
	p.lenient = like == sameRecords
	return nil
}
