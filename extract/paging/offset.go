package paging

import (
	"context"
	"slices"
	"strconv"

	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

// offset is the pager that requests pages by the index of their first record: offset=20.
type offset struct{ parameter }

// Type implements [Pager].
func (offset) Type() string { return string(KindOffset) }

// Traits implements [Pager].
func (offset) Traits() Traits { return Traits{Computes: true, Blind: true, Counts: true} }

// Candidates returns requests with the usual parameters. The parameter that the answer names comes first.
func (g offset) Candidates(e *evidence) []Candidate {
	usual := schemas.Paging().Parameters(schemas.ParamOffset)
	return e.named(g, records.Unique(slices.Concat(echoed(e.First.Signals.offsetName, usual), usual)))
}

// Second implements [Pager].
func (offset) Second(e *evidence, param string) Position {
	return Position{Kind: KindOffset, Param: param, At: strconv.Itoa(e.First.N)}
}

// Next implements [Pager].
func (offset) Next(at Position, l Last, p *Progress) (Position, bool) {
	return p.offset(at, l.N, l.Signals), true
}

// Following implements [Pager].
func (offset) Following(at Position, p *Progress) (Position, bool) {
	next := Position{Kind: at.Kind, Param: at.Param, At: strconv.FormatInt(at.Number()+p.Step, 10)}
	return next, p.Step > 0 && next.Number() < p.Total
}

// Valid implements [Pager].
func (offset) Valid(at Position) bool { return validNumber(at) }

// Judge also considers that the parameter may count pages, although it is named like an offset.
func (g offset) Judge(ctx context.Context, p *Probe, t Trial) (Verdict, error) {
	if t.Like != NoRecords || t.Silent || t.Candidate.at.Number() <= 2 || p.First.Signals.offset != 1 {
		return g.parameter.Judge(ctx, p, t)
	}
	accepted, err := g.countsPages(ctx, p, t.Candidate)
	if accepted {
		return Done, err
	}
	return Rejected, err
}

// Confirm finds out whether offsets are counted from 0 or from 1.
func (g offset) Confirm(ctx context.Context, p *Probe, t Trial) (accepted bool, err error) {
	switch {
	case t.Like == NoRecords:
		return g.acceptsEmpty(ctx, p, t.Candidate)
	case t.Candidate.pager == Pager(g):
		return true, g.findOrigin(ctx, p, t.Candidate)
	}
	return true, nil
}

func (p *Progress) offset(at Position, n int, s Signals) Position {
	from := at.Number()
	if at.Kind == KindNone && p.Hint.One {
		from = 1
	}
	if s.offset >= 0 && s.offset < from-1 && s.offset != p.offset0 {
		from = s.offset // the server used an earlier offset than requested
	}
	by := int64(n)
	if n == 0 {
		by = max(p.Step, 1)
	}
	return Position{Kind: KindOffset, Param: at.or(KindOffset, p.Named("offset", "offset")), At: strconv.FormatInt(from+by, 10)}
}

// findOrigin finds out whether offsets are counted from 1. If they are, offset 1 returns the first page. But if they
// are counted from 0 and a record is inserted at the beginning of the list, offset 1 returns the same records. So
// findOrigin also reads the first page again, and requires that it is unchanged. If offset 1 returns no record of the
// first page, the parameter counts pages from 0.
func (g offset) findOrigin(ctx context.Context, p *Probe, c Candidate) error {
	for range maxReread {
		st, like, err := p.request(ctx, Position{Kind: KindPage, Param: c.at.Param, At: "1"})
		if err != nil {
			return err
		}
		if st != nil && like == OtherRecords && p.sharesNone(st) {
			p.takePage(st, true)
			return nil
		}
		if st != nil {
			p.list.Release(st)
		}
		if st == nil && p.First.Signals.offset != 1 || st != nil && !slices.Equal(st.Keys, p.First.Keys) {
			return nil // offset 1 does not return the records of the first page in the same order
		}
		moved, err := p.Again(ctx)
		if err != nil {
			return err
		}
		if !moved {
			return g.countFromOne(ctx, p, c)
		}
	}
	return p.Unexplained("the list changes too fast to see whether " + c.at.Param + " counts from 0 or from 1")
}

// countFromOne reads the second page again with an offset that is counted from 1. If offset 2 returns no record of
// the first page, the parameter counts pages from 1.
func (offset) countFromOne(ctx context.Context, p *Probe, c Candidate) error {
	st, like, err := p.request(ctx, Position{Kind: KindPage, Param: c.at.Param, At: "2"})
	if err != nil {
		return err
	}
	if st != nil && like == OtherRecords && p.sharesNone(st) {
		p.takePage(st, false)
		return nil
	}
	if st != nil {
		p.list.Release(st)
	}
	p.Paging.One = true
	if p.Second == nil {
		return nil
	}
	at := c.at
	at.At = strconv.FormatInt(at.Number()+1, 10)
	fresh, err := p.list.Look(ctx, at)
	if err != nil {
		return err
	}
	p.list.Release(p.Second)
	p.Second = fresh
	return nil
}

// acceptsEmpty tests an offset parameter if the second page was empty. For offset 1, the server must return the first
// page without its first record. If it returns only other records, the parameter counts pages from 0.
func (offset) acceptsEmpty(ctx context.Context, p *Probe, c Candidate) (accepted bool, err error) {
	one := Position{Kind: KindPage, Param: c.at.Param, At: "1"}
	st, like, err := p.request(ctx, one)
	if err != nil || st == nil {
		return false, err
	}
	if like == OtherRecords && p.First.N > 2 {
		p.Second, p.Paging.Type, p.Paging.Zero = st, "page", true
		return true, nil
	}
	defer p.list.Release(st)
	return p.lacksFirstRecord(ctx, st)
}

// countsPages tests whether a parameter that is named like an offset counts pages. The parameter returned no records,
// but the list announces more. So countsPages tries the value 2.
func (offset) countsPages(ctx context.Context, p *Probe, c Candidate) (accepted bool, err error) {
	c.pager, c.at = page{}, Position{Kind: KindPage, Param: c.at.Param, At: "2"}
	st, like, err := p.request(ctx, c.at)
	if err != nil || st == nil {
		return false, err
	}
	if like != OtherRecords || !p.sharesNone(st) {
		p.list.Release(st)
		return false, nil
	}
	before := p.Paging
	p.Second = st
	p.accept(c)
	err = page{}.findBase(ctx, p, c)
	if err != nil {
		p.Paging = before
	}
	return err == nil, err
}

// sharesNone reports whether st has no record of the first page. If the first page has only one record, sharesNone
// returns false. The result shows what a parameter counts: the answers for the offsets 0 and 1 share records, but the
// pages 0 and 1 share none.
func (p *Probe) sharesNone(st *Page) bool {
	return p.First.N > 1 && !slices.ContainsFunc(st.Keys, func(k uint64) bool { return slices.Contains(p.First.Keys, k) })
}

func (p *Probe) takePage(st *Page, zero bool) {
	if p.Second != nil {
		p.list.Release(p.Second)
	}
	p.Second, p.Paging.Type, p.Paging.Zero = st, "page", zero
}
