package extract

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/penstock-data/penstock/schemas"
)

// usualPage is a page size that most servers accept. If the server refuses it, smallPage is tried. A page should have
// at most heaviest bytes.
const (
	usualPage = 100
	smallPage = 50
	heaviest  = 8 << 20
)

func (n *negotiation) size(ctx context.Context, st *step) error {
	p := &n.out.Pagination
	rows := st.batch.n
	switch {
	case n.s.Stated["pagination"] != "" && n.s.Pagination.Size != "":
		p.Size, p.Limit = n.s.Pagination.Size, n.s.Pagination.Limit
		n.record(FactPageSize, fmt.Sprintf("%s=%d", p.Size, p.Limit), fmt.Sprintf("requested %d records, got %d", p.Limit, rows))
		return nil
	case n.s.Pagination.Size != "" && rows == n.s.Pagination.Limit:
		p.Size, p.Limit = n.s.Pagination.Size, rows
		n.record(FactPageSize, fmt.Sprintf("%s=%d", p.Size, rows), fmt.Sprintf("requested and got %d records", rows))
		return nil
	case rows >= largestPage:
		return nil // penstock never requests larger pages
	}
	f := n.open(FactPageSize)
	names, err := n.sizeNames(ctx, st, f)
	if err != nil {
		return err
	}
	for _, name := range names {
		got, err := n.enlarge(ctx, st, name, f)
		if err != nil {
			return err
		}
		if got > rows {
			p.Size, p.Limit, f.Value = name, got, fmt.Sprintf("%s=%d", name, got)
			return nil
		}
	}
	return nil
}

func (n *negotiation) sizeNames(ctx context.Context, st *step, f *Fact) ([]string, error) {
	names := sizeNamesFor(schemas.Pagination{Size: n.s.Pagination.Size, Page: n.out.Pagination.Page}, st.signals)
	names = slices.DeleteFunc(names, func(name string) bool {
		return name == n.out.Pagination.Page || slices.ContainsFunc(n.l.params, func(b bound) bool { return b.Name == name })
	})
	return n.l.sizedBy(ctx, st, names, f)
}

// sizedBy finds the parameter that sets the page size. It sends all parameters in one request, in groups, and each
// group has its own size. All sizes are smaller than the first page. So the number of returned records identifies the
// group. Further requests search the group.
func (l *listReader) sizedBy(ctx context.Context, st *step, names []string, f *Fact) ([]string, error) {
	few := names[:min(len(names), 4)]
	if st.batch.n < 4 {
		return few, nil
	}
	for len(names) > 0 {
		groups := min(st.batch.n-1, len(names))
		separate := groups - groups/3 // each of the likeliest parameters is a group of its own
		in := func(i int) int {
			if i < separate || separate == groups {
				return i % groups
			}
			return separate + (i-separate)%(groups-separate)
		}
		extra := make(query)
		for i, name := range names {
			extra.add(name, strconv.Itoa(in(i)+1))
		}
		probe, err := l.look(ctx, position{extra: extra.encode()})
		if probeRefused(err) {
			f.Refuted = append(f.Refuted, "all size parameters together: "+excerpt(err.Error()))
			return few, nil
		}
		if err != nil {
			return nil, err
		}
		k, inside := probe.batch.n, compare(st.batch, probe.batch) != otherRecords
		l.c.release(probe.a)
		if k < 1 || k > groups || k >= st.batch.n || !inside {
			f.Refuted = append(f.Refuted, fmt.Sprintf("%s with sizes from 1 to %d: %d records", extra.names(), groups, k))
			return nil, nil
		}
		var left []string
		for i, name := range names {
			if in(i)+1 == k {
				left = append(left, name)
			}
		}
		if names = left; len(names) == 1 {
			f.Evidence = append(f.Evidence, fmt.Sprintf("%s=%d returned %d of the first page's %d records", names[0], k, k, st.batch.n))
			return names, nil
		}
	}
	return nil, nil
}

func (n *negotiation) enlarge(ctx context.Context, st *step, name string, f *Fact) (most int, err error) {
	for _, size := range []int{usualPage, largestPage} {
		if size <= st.batch.n {
			continue
		}
		probe, err := n.l.look(ctx, position{extra: query{name: strconv.Itoa(size)}.encode()})
		if probeRefused(err) && size == usualPage && st.batch.n < smallPage {
			f.Refuted = append(f.Refuted, fmt.Sprintf("%s=%d: %s", name, size, excerpt(err.Error())))
			size = smallPage
			probe, err = n.l.look(ctx, position{extra: query{name: strconv.Itoa(size)}.encode()})
		}
		if probeRefused(err) {
			f.Refuted = append(f.Refuted, fmt.Sprintf("%s=%d: %s", name, size, excerpt(err.Error())))
			return most, nil
		}
		if err != nil {
			return 0, err
		}
		got, bytes, whole := probe.batch.n, probe.a.bytes, probe.holdsWholeList(st)
		like := compare(st.batch, probe.batch)
		n.l.c.release(probe.a)
		if got <= max(most, st.batch.n) || like == noRecords {
			f.Refuted = append(f.Refuted, fmt.Sprintf("%s=%d returned %d records", name, size, got))
			return most, nil
		}
		most = got
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s=%d returned %d records", name, size, got))
		if got < size && whole {
			return size, nil // the answer is the whole list, so the server accepted this size
		}
		if size == smallPage || got < size || bytes/int64(got)*largestPage > heaviest {
			break
		}
	}
	return most, nil
}

// holdsWholeList reports whether the total or the number of pages shows that the answer is the whole list. A page
// shorter than requested does not show it, because a server may leave out records of a page.
func (st *step) holdsWholeList(first *step) bool {
	s, n := st.signals, int64(st.batch.n)
	switch {
	case s.total >= 0:
		return s.total == n
	case s.lastPage >= 0 && first.signals.lastPage > 1:
		return s.lastPage <= 1 && n > (first.signals.lastPage-1)*int64(first.batch.n)
	}
	return false
}
