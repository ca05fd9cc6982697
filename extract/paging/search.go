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
			if p.server.refuses != refuses { // now parameters are tried one by one, in another order
				p.s.Pagination.Query = before
				return false, nil
			}
		}
	}
	p.s.Pagination.Query = before
	return false, nil
}

// splitNested separates nested names, such as page[number], from plain names. No request may send page and
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

// search looks for the candidate that changes the list. It sends several candidates in one request. If the list
// changes, search tries each half of these candidates. If reacts is true, one of the candidates is known to change the
// list.
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

// tryOne tries one candidate. If the server refuses several parameters in one request, tryOne requests page 1 before
// page 2. The answer to page 1 shows whether the server knows the parameter, and whether pages are numbered from 0.
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

// Limits for the requests that search for the paging parameter. maxSearch is for a list that announces more records.
// maxSingleSearch is for a server that needs a separate request for each parameter. maxSilentSearch is for a list that
// announces nothing. Its first page is probably the whole list.
const (
	maxSearch       = 34
	maxSingleSearch = 44
	maxSilentSearch = 22
)

func (p *Probe) most(silent bool) int {
	switch {
	case silent:
		return maxSilentSearch
	case p.server.refuses:
		return maxSingleSearch
	}
	return maxSearch
}

// Run looks for the second page. If the list does not announce more records, Run first sends all parameters in one
// request. If the list changes, Run looks for the parameter that changed it.
func (p *Probe) Run(ctx context.Context) error {
	silent := p.First.Rule != "" && len(p.First.Signals.Doubts(int64(p.First.N))) == 0
	if silent {
		done, err := p.sweep(ctx)
		if done && err == nil && Round(p.First.N) {
			return p.tryShrink(ctx)
		}
		if done || err != nil {
			return err
		}
		if err := p.lowerSize(ctx); err != nil {
			return err
		}
		if hint := p.progress.Hint; hint.Type == "none" && p.progress.Settled && p.server.refuses && !Round(p.First.N) {
			p.reacted = false
			return p.decideUnpaged(ctx) // all parameters were tried when the convention was learned
		}
	}
	if done, err := p.tryGroups(ctx, silent); done || err != nil {
		return err
	}
	if (p.Broken != Position{}) {
		return nil // the pass may isolate the broken record
	}
	if !silent {
		return p.Unexplained("the list announces more than its first page (" + p.First.Signals.describe() + ")")
	}
	if err := p.decideUnpaged(ctx); err != nil || !p.Whole || !p.Unproved {
		return err
	}
	return p.tryShrink(ctx)
}

func (p *Probe) tryShrink(ctx context.Context) error {
	found, err := p.shrink(ctx)
	if found {
		p.Whole, p.Unproved, p.Shrank = false, false, true
	}
	return err
}

// tryGroups tries the groups of candidates. When the server begins to refuse requests with several parameters, the
// groups change, and tryGroups starts again.
func (p *Probe) tryGroups(ctx context.Context, silent bool) (done bool, err error) {
	for {
		refuses := p.server.refuses
		for _, g := range p.groups() {
			if p.list.Requests() > p.most(silent) {
				p.noteTried("the other parameters", "not tried, limit of probes reached")
				return false, nil
			}
			if done, err := p.group(ctx, g, silent); done || err != nil {
				return done, err
			}
			if p.server.refuses != refuses {
				break
			}
		}
		if p.server.refuses == refuses {
			return false, nil
		}
	}
}

func (p *Probe) try(ctx context.Context, c Candidate, silent bool) (done bool, err error) {
	at := p.place(c.at)
	if p.triedAlone[at] {
		return false, nil
	}
	p.triedAlone[at] = true
	refused := p.refused
	st, like, err := p.request(ctx, c.at)
	if err != nil {
		return false, err
	}
	if p.s.Method == http.MethodPost {
		p.noteBodyParameters(c.at.Param, st == nil, like)
	}
	if st == nil {
		return p.refusal(ctx, c, silent, p.refused > refused)
	}
	p.known = like == SameRecords || like == MostlySame
	echoed := c.at.Kind == KindPage && st.Signals.Page == c.at.Number() && p.First.Signals.Page != st.Signals.Page
	accepted, err := p.judge(ctx, Trial{Candidate: c, Page: st, Like: like, Silent: silent, Echoed: echoed})
	if p.Second != st {
		p.list.Release(st)
	}
	return accepted, err
}

// refusal judges a parameter whose value the server refuses. If the server knows the parameter, the list may have only
// one page, or only the pages 0 and 1.
func (p *Probe) refusal(ctx context.Context, c Candidate, silent, refused bool) (accepted bool, err error) {
	numbered := c.at.Kind == KindPage && refused && (silent || p.First.Signals.Page < 0)
	if !p.server.controlled && (numbered || p.refused > 1) {
		if err := p.control(ctx); err != nil {
			return false, err
		}
	}
	if !refused || !p.knowsParameter() {
		return false, nil
	}
	p.takes = append(p.takes, c.at.Param)
	if !numbered || c.at.At == "1" {
		return false, nil
	}
	before := p.Paging
	p.accept(c)
	if silent {
		accepted, err = page{}.readsNumber(ctx, p, c)
	} else {
		err = page{}.findBase(ctx, p, c)
		accepted = p.Second != nil
	}
	if !accepted {
		p.Paging = before
	}
	return accepted, err
}

// noteBodyParameters detects a server that reads parameters only in the body. Such a server refuses a parameter in the
// body, and ignores the same parameter in the query.
func (p *Probe) noteBodyParameters(param string, refused bool, like Likeness) {
	switch {
	case !p.s.Pagination.Query:
		p.refusedInBody = ""
		if refused {
			p.refusedInBody = param
		}
	case p.refusedInBody == param && !refused && like == SameRecords:
		p.inBody = true
	}
}

// judge accepts a parameter that returns other records. If the list may end there, it also accepts a parameter that
// returns no records. Most pagers confirm the parameter by another probe.
func (p *Probe) judge(ctx context.Context, t Trial) (accepted bool, err error) {
	c := t.Candidate
	verdict, err := c.pager.Judge(ctx, p, t)
	switch {
	case err != nil || verdict == Rejected:
		return false, err
	case verdict == Done:
		return true, nil
	case verdict == Second:
		p.Second = t.Page
	}
	before := p.Paging
	p.accept(c)
	accepted, err = c.at.pager().Confirm(ctx, p, t)
	if !accepted {
		p.Paging = before
	}
	return accepted, err
}
