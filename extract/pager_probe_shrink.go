package extract

import (
	"context"
	"fmt"
	"strconv"

	"github.com/penstock-data/penstock/schemas"
)

// leastToShrink is how many records a page must hold for a test with smaller pages.
const leastToShrink = 4

// shrink requests the only page of a list again as several smaller pages. They show how the list continues. It stops
// if the list is probably complete: the number of records is not round, and the smaller page does not announce more
// records. found reports that the smaller pages hold the records of the page.
func (p *pagerProbe) shrink(ctx context.Context) (found bool, err error) {
	n := p.first.batch.n
	if n < leastToShrink || p.first.note != "" || len(p.l.s.Key) == 0 || p.l.pager.stated {
		return false, nil
	}
	before, lastID := p.l.s.Pagination, p.l.lastID
	defer func() { p.l.s.Pagination, p.l.lastID = before, lastID }()
	small := n / 2
	name, err := p.sizeName(ctx, small)
	if name == "" || err != nil {
		return false, err
	}
	p.l.s.Pagination.Size, p.l.s.Pagination.Limit = name, small
	st, err := p.l.look(ctx, position{})
	if err != nil {
		return false, err
	}
	defer func() { p.l.c.release(st.a) }() // tryGroups may replace st.a
	if st.batch.n != small || compare(p.first.batch, st.batch) != fewerRecords {
		return false, nil
	}
	p.counts = p.first.total == int64(n) && st.signals.total == int64(small) // the total counts only the records of a page
	if !round(n) && !st.signals.announcesMore() {
		return false, nil // the list is probably complete
	}
	p.l.lastID = p.l.idOf(st.a.d, st.batch.last)
	return p.pagesOf(ctx, st, before)
}

func (p *pagerProbe) pagesOf(ctx context.Context, st *step, before schemas.Pagination) (found bool, err error) {
	sub := &pagerProbe{l: p.l, first: st, paging: before, refuses: p.refuses, controlled: p.controlled, answers: p.answers, lenient: p.lenient, strange: p.strange}
	defer sub.release()
	found, err = sub.tryGroups(ctx, false)
	p.tried = append(p.tried, sub.tried...)
	if err != nil || !found || sub.second == nil {
		return false, err
	}
	like := compare(p.first.batch, sub.second.batch)
	if like != fewerRecords && like != mostlySame {
		return false, nil
	}
	p.noteTried(fmt.Sprintf("pages of %d records", st.batch.n), describe(sub.paging)+" returns the rest, and no other records")
	sub.paging.Size, sub.paging.Limit = before.Size, before.Limit
	p.paging = sub.paging
	return true, nil
}

func (p *pagerProbe) sizeName(ctx context.Context, small int) (string, error) {
	names := p.sizeNames()
	if !p.refuses {
		var err error
		if names, err = p.l.sizedBy(ctx, p.first, names, new(Fact)); err != nil || len(names) == 1 {
			return first(names), err
		}
	}
	for _, name := range names[:min(len(names), maxSingleSizes)] {
		st, like, err := p.request(ctx, position{extra: query{name: strconv.Itoa(small)}.encode()})
		if err != nil {
			return "", err
		}
		if st == nil {
			continue
		}
		n := st.batch.n
		p.l.c.release(st.a)
		if n == small && like == fewerRecords {
			return name, nil
		}
	}
	return "", nil
}

const maxSingleSizes = 6

func first(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}
