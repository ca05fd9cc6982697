package extract

import (
	"context"
	"slices"
	"strconv"
)

// readsPageNumber finds out whether a list with an empty second page uses the page number. If it does, the first
// page's number returns the first page again, or page 1 returns a second page. A server that treats unknown
// parameters as filters returns no records for any number.
func (p *pagerProbe) readsPageNumber(ctx context.Context, c pagerCandidate) (bool, error) {
	for _, number := range []string{"1", "0"} {
		if number == c.at.at {
			continue
		}
		st, like, err := p.request(ctx, position{kind: pagerPage, param: c.at.param, at: number})
		if err != nil {
			return false, err
		}
		if st == nil {
			continue
		}
		if like == otherRecords && number == "1" {
			p.second, p.paging.Zero = st, true
			return true, nil
		}
		p.l.c.release(st.a)
		if like == sameRecords || like == mostlySame {
			p.paging.Zero = number == "0"
			return true, nil
		}
		if like == noRecords && !p.controlled {
			if err := p.control(ctx); err != nil || p.refuses {
				return false, err
			}
		}
	}
	return false, nil
}

// findPageBase finds out whether pages are numbered from 0. Then page 1 is the second page, otherwise the first. If
// page 1 is neither, it returns an error.
func (p *pagerProbe) findPageBase(ctx context.Context, c pagerCandidate) error {
	one := position{kind: pagerPage, param: c.at.param, at: "1"}
	st, like, err := p.request(ctx, one)
	switch {
	case err != nil:
		return err
	case st != nil && like == otherRecords:
		if p.second != nil {
			p.l.c.release(p.second.a)
		}
		p.second, p.paging.Zero = st, true
		return nil
	case st != nil:
		p.l.c.release(st.a)
	}
	if p.second != nil && (st == nil || like != sameRecords && like != mostlySame) {
		return p.unexplained("page 1 by " + c.at.param + " is neither the first page nor another one, so it is unknown whether pages count from 0 or from 1")
	}
	if st != nil && like == noRecords && !p.controlled {
		return p.control(ctx)
	}
	return nil
}

// findOffsetOrigin finds out whether offsets are counted from 1. Then offset 1 returns the first page. A record that
// is inserted meanwhile has the same effect, so the first page must be unchanged. If offset 1 returns no record of
// the first page, the parameter counts pages from 0.
func (p *pagerProbe) findOffsetOrigin(ctx context.Context, c pagerCandidate) error {
	for range maxReread {
		st, like, err := p.request(ctx, position{kind: pagerPage, param: c.at.param, at: "1"})
		if err != nil {
			return err
		}
		if st != nil && like == otherRecords && p.sharesNone(st) {
			p.takePage(st, true)
			return nil
		}
		if st != nil {
			p.l.c.release(st.a)
		}
		if st == nil && p.first.signals.offset != 1 || st != nil && !slices.Equal(st.batch.keys, p.first.batch.keys) {
			return nil // the order must be the same too
		}
		moved, err := p.again(ctx)
		if err != nil {
			return err
		}
		if !moved {
			return p.countFromOne(ctx, c)
		}
	}
	return p.unexplained("the list changes too fast to see whether " + c.at.param + " counts from 0 or from 1")
}

// sharesNone reports whether st has no record of the first page. The first page must have several records. If st is
// the answer for the next number, then the numbers count pages, not records.
func (p *pagerProbe) sharesNone(st *step) bool {
	return p.first.batch.n > 1 && !slices.ContainsFunc(st.batch.keys, func(k uint64) bool { return slices.Contains(p.first.batch.keys, k) })
}

func (p *pagerProbe) takePage(st *step, zero bool) {
	if p.second != nil {
		p.l.c.release(p.second.a)
	}
	p.second, p.paging.Type, p.paging.Zero = st, "page", zero
}

// countFromOne reads the second page again with an offset that is counted from 1. If offset 2 returns no record of
// the first page, the parameter counts pages from 1.
func (p *pagerProbe) countFromOne(ctx context.Context, c pagerCandidate) error {
	st, like, err := p.request(ctx, position{kind: pagerPage, param: c.at.param, at: "2"})
	if err != nil {
		return err
	}
	if st != nil && like == otherRecords && p.sharesNone(st) {
		p.takePage(st, false)
		return nil
	}
	if st != nil {
		p.l.c.release(st.a)
	}
	p.paging.One = true
	if p.second == nil {
		return nil
	}
	at := c.at
	at.at = strconv.FormatInt(at.number()+1, 10)
	fresh, err := p.l.look(ctx, at)
	if err != nil {
		return err
	}
	p.l.c.release(p.second.a)
	p.second = fresh
	return nil
}

// testsOffset tests an offset parameter if the second page was empty. For offset 1, the server must return the first
// page without its first record. If it returns only other records, the parameter counts pages from 0.
func (p *pagerProbe) testsOffset(ctx context.Context, c pagerCandidate) (accepted bool, err error) {
	one := position{kind: pagerPage, param: c.at.param, at: "1"}
	st, like, err := p.request(ctx, one)
	if err != nil || st == nil {
		return false, err
	}
	if like == otherRecords && p.first.batch.n > 2 {
		p.second, p.paging.Type, p.paging.Zero = st, "page", true
		return true, nil
	}
	defer p.l.c.release(st.a)
	return p.lacksFirstRecord(ctx, st)
}

// countsPages tests whether a parameter that is named like an offset counts pages. The parameter returned no records,
// but the list announces more. So countsPages tries the value 2.
func (p *pagerProbe) countsPages(ctx context.Context, c pagerCandidate) (accepted bool, err error) {
	c.typ, c.at = "page", position{kind: pagerPage, param: c.at.param, at: "2"}
	st, like, err := p.request(ctx, c.at)
	if err != nil || st == nil {
		return false, err
	}
	if like != otherRecords || !p.sharesNone(st) {
		p.l.c.release(st.a)
		return false, nil
	}
	before := p.paging
	p.second = st
	p.accept(c)
	if err = p.findPageBase(ctx, c); err != nil {
		p.paging = before
	}
	return err == nil, err
}

// testsCursor tests a cursor parameter that returned no records after the last record. After the first record, it
// must return the first page without that record.
func (p *pagerProbe) testsCursor(ctx context.Context, c pagerCandidate) (accepted bool, err error) {
	if p.first.batch.n == 1 {
		filters, err := p.filters(ctx)
		return !filters && err == nil, err
	}
	id := p.l.idOf(p.first.a.d, p.first.batch.first)
	if id == "" {
		return false, nil
	}
	st, _, err := p.request(ctx, position{kind: pagerCursor, param: c.at.param, at: id})
	if err != nil || st == nil {
		return false, err
	}
	defer p.l.c.release(st.a)
	return p.lacksFirstRecord(ctx, st)
}

// lacksFirstRecord reports whether an answer is the first page without its first record. If the first page has only
// one record, the answer is empty. Then the server must not treat unknown parameters as filters.
func (p *pagerProbe) lacksFirstRecord(ctx context.Context, st *step) (bool, error) {
	keys, got := p.first.batch.keys, st.batch.keys
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
func (p *pagerProbe) filters(ctx context.Context) (bool, error) {
	if !p.controlled {
		if err := p.control(ctx); err != nil {
			return false, err
		}
	}
	return p.answers && p.refuses, nil
}
