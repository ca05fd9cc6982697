package paging

import (
	"context"
	"slices"
	"strconv"
)

// readsPageNumber finds out whether a list with an empty second page uses the page number. If it does, the first
// page's number returns the first page again, or page 1 returns a second page. A server that treats unknown
// parameters as filters returns no records for any number.
func (p *Probe) readsPageNumber(ctx context.Context, c candidate) (bool, error) {
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
		if like == NoRecords && !p.controlled {
			if err := p.control(ctx); err != nil || p.refuses {
				return false, err
			}
		}
	}
	return false, nil
}

// findPageBase finds out whether pages are numbered from 0. Then page 1 is the second page, otherwise the first. If
// page 1 is neither, it returns an error.
func (p *Probe) findPageBase(ctx context.Context, c candidate) error {
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
		return p.Unexplained("page 1 by " + c.at.Param + " is neither the first page nor another one, so it is unknown whether pages count from 0 or from 1")
	}
	if st != nil && like == NoRecords && !p.controlled {
		return p.control(ctx)
	}
	return nil
}

// findOffsetOrigin finds out whether offsets are counted from 1. Then offset 1 returns the first page. A record that
// is inserted meanwhile has the same effect, so the first page must be unchanged. If offset 1 returns no record of
// the first page, the parameter counts pages from 0.
func (p *Probe) findOffsetOrigin(ctx context.Context, c candidate) error {
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
			return nil // the order must be the same too
		}
		moved, err := p.Again(ctx)
		if err != nil {
			return err
		}
		if !moved {
			return p.countFromOne(ctx, c)
		}
	}
	return p.Unexplained("the list changes too fast to see whether " + c.at.Param + " counts from 0 or from 1")
}

// sharesNone reports whether st has no record of the first page. The first page must have several records. If st is
// the answer for the next number, then the numbers count pages, not records.
func (p *Probe) sharesNone(st *Page) bool {
	return p.First.N > 1 && !slices.ContainsFunc(st.Keys, func(k uint64) bool { return slices.Contains(p.First.Keys, k) })
}

func (p *Probe) takePage(st *Page, zero bool) {
	if p.Second != nil {
		p.list.Release(p.Second)
	}
	p.Second, p.Paging.Type, p.Paging.Zero = st, "page", zero
}

// countFromOne reads the second page again with an offset that is counted from 1. If offset 2 returns no record of
// the first page, the parameter counts pages from 1.
func (p *Probe) countFromOne(ctx context.Context, c candidate) error {
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

// testsOffset tests an offset parameter if the second page was empty. For offset 1, the server must return the first
// page without its first record. If it returns only other records, the parameter counts pages from 0.
func (p *Probe) testsOffset(ctx context.Context, c candidate) (accepted bool, err error) {
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
func (p *Probe) countsPages(ctx context.Context, c candidate) (accepted bool, err error) {
	c.typ, c.at = "page", Position{Kind: KindPage, Param: c.at.Param, At: "2"}
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
	if err = p.findPageBase(ctx, c); err != nil {
		p.Paging = before
	}
	return err == nil, err
}

// testsCursor tests a cursor parameter that returned no records after the last record. After the first record, it
// must return the first page without that record.
func (p *Probe) testsCursor(ctx context.Context, c candidate) (accepted bool, err error) {
	if p.First.N == 1 {
		filters, err := p.filters(ctx)
		return !filters && err == nil, err
	}
	id := p.list.ID(p.First.Doc, p.First.First)
	if id == "" {
		return false, nil
	}
	st, _, err := p.request(ctx, Position{Kind: KindCursor, Param: c.at.Param, At: id})
	if err != nil || st == nil {
		return false, err
	}
	defer p.list.Release(st)
	return p.lacksFirstRecord(ctx, st)
}

// lacksFirstRecord reports whether an answer is the first page without its first record. If the first page has only
// one record, the answer is empty. Then the server must not treat unknown parameters as filters.
func (p *Probe) lacksFirstRecord(ctx context.Context, st *Page) (bool, error) {
	keys, got := p.First.Keys, st.Keys
	if len(keys) > 1 {
		return len(got) >= len(keys)-1 && slices.Equal(keys[1:], got[:len(keys)-1]), nil
	}
	if len(got) > 0 {
		return false, nil
	}
	filters, err := p.filters(ctx)
	return !filters && err == nil, err
}

// filters reports whether the server treats unknown parameters as filters: it returns no records for noParameter.
func (p *Probe) filters(ctx context.Context) (bool, error) {
	if !p.controlled {
		if err := p.control(ctx); err != nil {
			return false, err
		}
	}
	return p.answers && p.refuses, nil
}
