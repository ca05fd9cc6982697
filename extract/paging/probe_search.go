package paging

import (
	"context"
	"net/http"
	"strings"
)

func (p *Probe) group(ctx context.Context, g []Candidate, silent bool) (done bool, err error) {
	before := p.s.Pagination.Query
	places := []bool{before}
	if p.s.Method == http.MethodPost && p.s.Stated["pagination"] == "" {
		places = []bool{false, true}
	}
	for _, place := range places {
		if place && p.inBody {
			continue
		}
		p.s.Pagination.Query = place
		for _, part := range splitNested(g) {
			refuses := p.server.refuses
			if done, err := p.search(ctx, part, silent, false); done || err != nil {
				return done, err
			}
			if p.server.refuses != refuses { // parameters are now tried one by one, in another order
				p.s.Pagination.Query = before
				return false, nil
			}
		}
	}
	p.s.Pagination.Query = before
	return false, nil
}

// splitNested separates nested names, such as page[number], from the others. No request may send page and
// page[number].
func splitNested(g []Candidate) [][]Candidate {
	var flat, nested []Candidate
	for _, c := range g {
		if strings.HasPrefix(c.at.Param, "page[") {
			nested = append(nested, c)
		} else {
			flat = append(flat, c)
		}
	}
	return [][]Candidate{flat, nested}
}

// search looks for the candidate that changes the list. It sends several candidates in one request, and then each
// half of them. reacts says that one of them is known to change the list.
func (p *Probe) search(ctx context.Context, g []Candidate, silent, reacts bool) (done bool, err error) {
	if len(g) > 2 && !p.server.refuses {
		if !reacts {
			like, refused, err := p.tryTogether(ctx, g)
			switch {
			case err != nil:
				return false, err
			case refused:
				p.server.refuses = true
				return false, nil
			case like == SameRecords || like == MostlySame:
				return false, nil
			}
		}
		half := len(g) / 2
		like, refused, err := p.tryTogether(ctx, g[:half])
		if err != nil {
			return false, err
		}
		if p.server.refuses = refused; refused {
			return false, nil
		}
		if like == SameRecords || like == MostlySame {
			return p.search(ctx, g[half:], silent, true)
		}
		if done, err := p.search(ctx, g[:half], silent, true); done || err != nil {
			return done, err
		}
		return p.search(ctx, g[half:], silent, false)
	}
	for _, c := range g {
		if p.list.Requests() > p.most(silent) {
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
func (p *Probe) tryOne(ctx context.Context, c Candidate, silent bool) (done bool, err error) {
	second := c.at.Kind == KindPage && c.at.At == "2" && p.First.Signals.Page < 0
	if !p.server.refuses || !second || p.triedAlone[p.place(c.at)] {
		return p.try(ctx, c, silent)
	}
	one := c
	one.at.At = "1"
	p.known = false
	if done, err := p.try(ctx, one, silent); done || err != nil || !p.known {
		return done, err
	}
	return p.try(ctx, c, silent)
}

func (p *Probe) tryTogether(ctx context.Context, g []Candidate) (like Likeness, refused bool, err error) {
	extra := make(Query)
	for _, c := range g {
		extra.Add(c.at.Param, c.at.At)
	}
	st, err := p.list.Look(ctx, Position{Extra: extra.Encode(), Placed: true})
	if _, ok := EndStatus(err); ok {
		if !p.server.controlled {
			if err := p.control(ctx); err != nil {
				return 0, false, err
			}
		}
		if p.server.lenient {
			return OtherRecords, false, nil // the server knows a parameter and refuses its value
		}
		return 0, true, nil
	}
	if Refused(err) {
		return OtherRecords, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	p.list.Release(st)
	like = p.Compare(st)
	if like == SameRecords || like == MostlySame {
		p.noteTried(extra.Names(), "ignored")
	}
	if like == NoRecords && !p.server.controlled {
		if err := p.control(ctx); err != nil || p.server.refuses {
			return like, p.server.refuses, err
		}
	}
	return like, false, nil
}

const noParameter = "no_such_parameter"

// control sends a parameter that no server knows. If the server refuses it, or treats it as a filter, the next
// requests try one candidate each.
func (p *Probe) control(ctx context.Context) error {
	p.server.controlled = true
	st, like, err := p.request(ctx, Position{Extra: noParameter + "=1", Placed: true})
	if err != nil {
		return err
	}
	if st == nil {
		p.server.refuses, p.server.strange = true, wordsWithout(strings.Join(p.words, " "), noParameter)
		return nil
	}
	p.list.Release(st)
	p.server.answers = true
	p.server.refuses = like == NoRecords
	p.server.lenient = like == SameRecords
	return nil
}

// filters reports whether the server treats unknown parameters as filters: it returns no records for noParameter.
func (p *Probe) filters(ctx context.Context) (bool, error) {
	if !p.server.controlled {
		if err := p.control(ctx); err != nil {
			return false, err
		}
	}
	return p.server.answers && p.server.refuses, nil
}
