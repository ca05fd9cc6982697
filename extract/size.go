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
	dialect := n.dialect(p.Page)
	if known := n.c.sizeName(dialect); known != "" && n.s.Pagination.Size == "" {
		if found, err := n.trySizes(ctx, st, []string{known}, f); found || err != nil {
			return err
		}
	}
	names, err := n.sizeNames(ctx, st, f)
	if err != nil {
		return err
	}
	found, err := n.trySizes(ctx, st, names, f)
	if found {
		n.c.learnSize(dialect, p.Size)
	}
	return err
}

// trySizes looks for a parameter that makes the pages larger.
func (n *negotiation) trySizes(ctx context.Context, st *step, names []string, f *Fact) (found bool, err error) {
	p := &n.out.Pagination
	for _, name := range names {
		got, err := n.enlarge(ctx, st, name, f)
		if err != nil {
			return false, err
		}
		if got > st.batch.N {
			p.Size, p.Limit, f.Value = name, got, fmt.Sprintf("%s=%d", name, got)
			return true, nil
		}
	}
	return false, nil
}

// dialect identifies lists that are likely to have the same parameter for the page size: their records are at the same
// place in the answer, and they have the same parameter for the page.
func (n *negotiation) dialect(page string) string {
	return fmt.Sprint(n.s.Surface, " ", n.at.Pointer, " ", page)
}

// sizeName returns the page size parameter of another list with the same dialect, or "". It is tried first.
func (c *Client) sizeName(dialect string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sizes[dialect]
}

func (c *Client) learnSize(dialect, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sizes[dialect] = name
}

func sizeProbe(name string, size int) paging.Position {
	return paging.Position{Extra: paging.Query{name: strconv.Itoa(size)}.Encode()}
}

func (n *negotiation) sizeNames(ctx context.Context, st *step, f *Fact) ([]string, error) {
	found, evidence, refuted, err := paging.FindSize(ctx, n.l, st.page(), n.usualSizes(st, n.out.Pagination.Page))
	f.Evidence, f.Refuted = append(f.Evidence, evidence...), append(f.Refuted, refuted...)
	return found, err
}

// usualSizes returns names of parameters that may set the page size. The argument `page` is the name of the list's page
// parameter.
func (n *negotiation) usualSizes(st *step, page string) []string {
	names := paging.SizeNames(schemas.Pagination{Size: n.s.Pagination.Size, Page: page}, st.signals)
	return slices.DeleteFunc(names, func(name string) bool {
		return name == page || slices.ContainsFunc(n.l.params, func(b bound) bool { return b.Name == name })
	})
}

func (n *negotiation) enlarge(ctx context.Context, st *step, name string, f *Fact) (most int, err error) {
	for _, size := range []int{usualPage, paging.LargestPage} {
		if size <= st.batch.N {
			continue
		}
		probe, err := n.l.look(ctx, sizeProbe(name, size))
		if paging.Refused(err) && size == usualPage && st.batch.N < smallPage {
			f.Refuted = append(f.Refuted, fmt.Sprintf("%s=%d: %s", name, size, wire.Excerpt(err.Error())))
			size = smallPage
			probe, err = n.l.look(ctx, sizeProbe(name, size))
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
