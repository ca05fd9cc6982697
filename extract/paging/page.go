package paging

import (
	"context"
	"slices"
	"strconv"

	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

// page is the pager that requests pages by number: page=2.
type page struct{ parameter }

// Type implements [Pager].
func (page) Type() string { return string(KindPage) }

// Traits implements [Pager].
func (page) Traits() Traits { return Traits{Computes: true, Blind: true, Counts: true} }

// Candidates returns requests with the usual parameters. The most usual parameter comes first, and then the parameter
// that the answer names.
func (g page) Candidates(e *evidence) []Candidate {
	usual := schemas.Paging().Parameters(schemas.ParamPage)
	return e.named(g, records.Unique(slices.Concat(usual[:1], echoed(e.First.Signals.pageName, usual), usual)))
}

// Second implements [Pager].
func (page) Second(e *evidence, param string) Position {
	number := max(e.First.Signals.Page, 1) + 1
	if e.First.Signals.Page == 0 || e.fromZero {
		number = 1
	}
	return Position{Kind: KindPage, Param: param, At: strconv.FormatInt(number, 10)}
}

// Next implements [Pager].
func (page) Next(at Position, _ Last, p *Progress) (Position, bool) {
	return p.PageAt(at, p.page(at)+1), true
}

// Following implements [Pager].
func (page) Following(at Position, p *Progress) (Position, bool) {
	next := Position{Kind: at.Kind, Param: at.Param, At: strconv.FormatInt(at.Number()+1, 10)}
	return next, at.Number() < p.Last || p.Last == 0 && p.within(next, p.Total)
}

// Valid implements [Pager].
func (page) Valid(at Position) bool { return validNumber(at) }

// Confirm finds out whether pages are numbered from 0 or from 1, unless each answer states the number of its page.
func (g page) Confirm(ctx context.Context, p *Probe, t Trial) (accepted bool, err error) {
	switch {
	case t.Like == NoRecords && t.Silent && !t.Echoed:
		return g.readsNumber(ctx, p, t.Candidate)
	case p.First.Signals.Page < 0:
		err := g.findBase(ctx, p, t.Candidate)
		return !t.mayBeTwoPages(p) || err == nil && p.Second != nil, err
	}
	p.Paging.Zero = p.First.Signals.Page == 0
	return true, nil
}

// readsNumber is called if page 2 was empty. It finds out whether the server uses the page number at all. If it does,
// the number 1 or 0 returns the first page again, or the number 1 returns a second page. A server that treats unknown
// parameters as filters returns no records for any number.
func (page) readsNumber(ctx context.Context, p *Probe, c Candidate) (bool, error) {
	for _, number := range []string{"1", "0"} {
		if number == c.at.At {
			continue
		}
		st, like, err := p.request(ctx, Position{Kind: KindPage, Param: c.at.Param, At: number})
		if err != nil {
			return false, err
		}
		if st == nil {
			continue
		}
		if like == OtherRecords && number == "1" {
			p.Second, p.Paging.Zero = st, true
			return true, nil
		}
		p.list.Release(st)
		if like == SameRecords || like == MostlySame {
			p.Paging.Zero = number == "0"
			return true, nil
		}
		if like == NoRecords && !p.server.controlled {
			if err := p.control(ctx); err != nil || p.server.refuses {
				return false, err
			}
		}
	}
	return false, nil
}

// findBase finds out whether pages are numbered from 0. If they are, page 1 is the second page; otherwise page 1 is the
// first page. If page 1 is not one of these two pages, findBase returns an error.
func (page) findBase(ctx context.Context, p *Probe, c Candidate) error {
	one := Position{Kind: KindPage, Param: c.at.Param, At: "1"}
	st, like, err := p.request(ctx, one)
	switch {
	case err != nil:
		return err
	case st != nil && like == OtherRecords:
		if p.Second != nil {
			p.list.Release(p.Second)
		}
		p.Second, p.Paging.Zero = st, true
		return nil
	case st != nil:
		p.list.Release(st)
	}
	if p.Second != nil && (st == nil || like != SameRecords && like != MostlySame) {
		return p.Unexplained("page 1 by " + c.at.Param + " has neither the records of the first page nor other records, so it is unknown whether pages count from 0 or from 1")
	}
	if st != nil && like == NoRecords && !p.server.controlled {
		return p.control(ctx)
	}
	return nil
}
