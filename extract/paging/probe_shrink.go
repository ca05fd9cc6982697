package paging

import (
	"context"
	"fmt"
	"strconv"

	"github.com/penstock-data/penstock/schemas"
)

// leastToShrink is how many records a page must hold for a test with smaller pages.
const leastToShrink = 4

// shrink reads the only page of a list again, as several smaller pages. These pages show how the list continues. After
// the first smaller page, shrink stops if the list is probably complete: its length is not a usual page size, and the
// smaller page does not announce more records. The result `found` is true if the smaller pages have the same records as
// the one page.
func (p *Probe) shrink(ctx context.Context) (found bool, err error) {
	n := p.First.N
	if n < leastToShrink || p.First.Note != "" || len(p.s.Key) == 0 || p.progress.Stated {
		return false, nil
	}
	before := p.s.Pagination
	defer func() { p.s.Pagination = before }()
	small := n / 2
	name, err := p.sizeName(ctx, small)
	if name == "" || err != nil {
		return false, err
	}
	p.s.Pagination.Size, p.s.Pagination.Limit = name, small
	st, err := p.list.Look(ctx, Position{})
	if err != nil {
		return false, err
	}
	defer func() { p.list.Release(st) }() // a probe may replace st.Answer
	if st.N != small || Compare(p.First.Hashes, st.Hashes) != FewerRecords {
		return false, nil
	}
	p.Counts = p.First.Total == int64(n) && st.Signals.Total == int64(small) // the total counts only the records of a page
	if !Round(n) && !st.Signals.AnnouncesMore() {
		return false, nil // the list is probably complete
	}
	return p.pagesOf(ctx, st, before)
}

func (p *Probe) pagesOf(ctx context.Context, st *Page, before schemas.Pagination) (found bool, err error) {
	sub := NewProbe(p.list, p.progress, st, p.list.ID(st.Doc, st.Last))
	sub.Paging = before
	sub.server = p.server
	defer sub.Release()
	found, err = sub.tryGroups(ctx, false)
	p.Tried = append(p.Tried, sub.Tried...)
	if err != nil || !found || sub.Second == nil {
		return false, err
	}
	like := Compare(p.First.Hashes, sub.Second.Hashes)
	if like != FewerRecords && like != MostlySame {
		return false, nil
	}
	p.noteTried(fmt.Sprintf("pages of %d records", st.N), Describe(sub.Paging)+" returns the rest, and no other records")
	sub.Paging.Size, sub.Paging.Limit = before.Size, before.Limit
	p.Paging = sub.Paging
	return true, nil
}

func (p *Probe) sizeName(ctx context.Context, small int) (string, error) {
	names := p.sizeNames()
	if !p.server.refuses {
		var err error
		if names, _, _, err = FindSize(ctx, p.list, p.First, names); err != nil || len(names) == 1 {
			return first(names), err
		}
	}
	for _, name := range names[:min(len(names), maxSingleSizes)] {
		st, like, err := p.request(ctx, Position{Extra: Query{name: strconv.Itoa(small)}.Encode()})
		if err != nil {
			return "", err
		}
		if st == nil {
			continue
		}
		n := st.N
		p.list.Release(st)
		if n == small && like == FewerRecords {
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
