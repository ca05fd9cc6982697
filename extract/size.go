package extract

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/wire"
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
	rows := st.batch.N
	switch {
	case n.s.Stated["pagination"] != "" && n.s.Pagination.Size != "":
		p.Size, p.Limit = n.s.Pagination.Size, n.s.Pagination.Limit
		n.record(FactPageSize, fmt.Sprintf("%s=%d", p.Size, p.Limit), fmt.Sprintf("requested %d records, got %d", p.Limit, rows))
		return nil
	case n.s.Pagination.Size != "" && rows == n.s.Pagination.Limit:
		p.Size, p.Limit = n.s.Pagination.Size, rows
		n.record(FactPageSize, fmt.Sprintf("%s=%d", p.Size, rows), fmt.Sprintf("requested and got %d records", rows))
		return nil
	case rows >= paging.LargestPage:
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
	names := paging.SizeNames(schemas.Pagination{Size: n.s.Pagination.Size, Page: n.out.Pagination.Page}, st.signals)
	names = slices.DeleteFunc(names, func(name string) bool {
		return name == n.out.Pagination.Page || slices.ContainsFunc(n.l.params, func(b bound) bool { return b.Name == name })
	})
	found, evidence, refuted, err := paging.FindSize(ctx, n.l, st.page(), names)
	f.Evidence, f.Refuted = append(f.Evidence, evidence...), append(f.Refuted, refuted...)
	return found, err
}

func (n *negotiation) enlarge(ctx context.Context, st *step, name string, f *Fact) (most int, err error) {
	for _, size := range []int{usualPage, paging.LargestPage} {
		if size <= st.batch.N {
			continue
		}
		probe, err := n.l.look(ctx, paging.Position{Extra: paging.Query{name: strconv.Itoa(size)}.Encode()})
		if paging.Refused(err) && size == usualPage && st.batch.N < smallPage {
			f.Refuted = append(f.Refuted, fmt.Sprintf("%s=%d: %s", name, size, wire.Excerpt(err.Error())))
			size = smallPage
			probe, err = n.l.look(ctx, paging.Position{Extra: paging.Query{name: strconv.Itoa(size)}.Encode()})
		}
		if paging.Refused(err) {
			f.Refuted = append(f.Refuted, fmt.Sprintf("%s=%d: %s", name, size, wire.Excerpt(err.Error())))
			return most, nil
		}
		if err != nil {
			return 0, err
		}
		got, bytes, whole := probe.batch.N, probe.a.bytes, probe.holdsWholeList(st)
		like := paging.Compare(st.batch.Hashes, probe.batch.Hashes)
		n.l.c.release(probe.a)
		if got <= max(most, st.batch.N) || like == paging.NoRecords {
			f.Refuted = append(f.Refuted, fmt.Sprintf("%s=%d returned %d records", name, size, got))
			return most, nil
		}
		most = got
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s=%d returned %d records", name, size, got))
		if got < size && whole {
			return size, nil // the answer is the whole list, so the server accepted this size
		}
		if size == smallPage || got < size || bytes/int64(got)*paging.LargestPage > heaviest {
			break
		}
	}
	return most, nil
}

// holdsWholeList reports whether the total or the number of pages shows that the answer is the whole list. A page
// shorter than requested does not show it, because a server may leave out records of a page.
func (st *step) holdsWholeList(first *step) bool {
	s, n := st.signals, int64(st.batch.N)
	switch {
	case s.Total >= 0:
		return s.Total == n
	case s.LastPage >= 0 && first.signals.LastPage > 1:
		return s.LastPage <= 1 && n > (first.signals.LastPage-1)*int64(first.batch.N)
	}
	return false
}
