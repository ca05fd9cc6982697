package extract

import (
	"context"
	"fmt"
	"strconv"

	"github.com/penstock-data/penstock/schemas"
)

func (n *negotiation) pager(ctx context.Context, st *step) error {
	if st.batch.n == 0 && !st.open {
		n.record(FactPager, "", "the list is empty: nothing shows how it is paged")
		return nil
	}
	if n.l.pager.stated {
		n.out.Pagination = n.s.Pagination
		f := n.open(FactPager)
		f.From, f.Value = n.stated("pagination"), describe(n.s.Pagination)
		return nil
	}
	if st.rule != "" && !st.open && len(st.signals.doubts(int64(st.batch.n))) == 0 {
		return n.claim(ctx, st)
	}
	h := &pagerProbe{l: n.l, first: st, paging: n.l.s.Pagination}
	defer h.release()
	err := h.run(ctx)
	if h.second == nil && (err == nil || n.isPagingError(err)) {
		if doubt := n.keyRepeats(ctx, h); doubt != nil {
			return doubt
		}
		if doubt := n.otherList(ctx, err); doubt != nil {
			return doubt
		}
	}
	if err != nil {
		return err
	}
	f := n.open(FactPager)
	f.From, f.Evidence = n.stated("pagination"), h.tried
	switch {
	case h.whole && st.batch.n == 0:
		f.Evidence = append(f.Evidence, "the list is empty: nothing shows how it is paged")
		return nil
	case h.whole:
		n.out.Pagination = h.paging
		n.out.Pagination.Type = "none"
		f.Value = "one page"
		f.Evidence = append(f.Evidence, "requests for a second page under every usual name returned the same list")
		return nil
	}
	n.out.Pagination = h.paging
	f.Value = describe(h.paging)
	if p := n.s.Pagination; f.From != Learned && p.Type != "" && (p.Type != h.paging.Type || p.Page != "" && p.Page != h.paging.Page) {
		f.Refuted = append(f.Refuted, fmt.Sprintf("%s is %s; the probes saw %s", describe(p), f.From, f.Value))
		f.Value = describe(p)
	}
	if h.second == nil {
		return nil
	}
	n.see(h.second)
	f.Evidence = append(f.Evidence, fmt.Sprintf("%s=%s returned %d other records", h.second.at.param, short(h.second.at.at), h.second.batch.n))
	if err := n.beyond(ctx, st, h.second); err != nil {
		return err
	}
	return n.size(ctx, st)
}

func (n *negotiation) claim(ctx context.Context, st *step) error {
	h := &pagerProbe{l: n.l, first: st}
	probe, err := n.l.look(ctx, position{extra: h.everything()[0]})
	f := n.open(FactPager)
	f.Value, f.Evidence = "one page so far", []string{"the list says that it ends with its first page: " + st.rule}
	if probeRefused(err) {
		f.Evidence = append(f.Evidence, "a request for more was refused: "+excerpt(err.Error()))
		return nil
	}
	if err != nil {
		return err
	}
	like := h.compare(probe)
	n.c.release(probe.a)
	if doubt := n.keyRepeats(ctx, h); doubt != nil {
		return doubt
	}
	if doubt := n.otherList(ctx, nil); doubt != nil {
		return doubt
	}
	if like == otherRecords && len(n.l.s.Key) > 0 {
		moved, err := h.again(ctx)
		if err != nil {
			return err
		}
		if !moved {
			return h.unexplained("the list says that it ends with its first page (" + st.rule + "), but a request for more returns more")
		}
	}
	f.Evidence = append(f.Evidence, "requests for a second page under every usual name returned no other records")
	return nil
}

// beyond requests the page after the last one, by the number that the list states. It returns an error if that page
// has other records, although the list has not grown.
func (n *negotiation) beyond(ctx context.Context, first, second *step) error {
	last := first.signals.lastPage
	if second.at.kind != pagerPage || last < 2 {
		return nil
	}
	if n.out.Pagination.Zero && !(first.signals.total > last*int64(first.batch.n)) {
		last-- // lastPage is the number of pages, numbered from 0
	}
	look := func(page int64) (*step, error) {
		return n.l.look(ctx, position{kind: pagerPage, param: second.at.param, at: strconv.FormatInt(page, 10)})
	}
	f := n.open(FactPager)
	probe, err := look(last + 1)
	if probeRefused(err) {
		f.Evidence = append(f.Evidence, "a page after the last is refused")
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { n.c.release(probe.a) }()
	if probe.batch.n == 0 || compare(first.batch, probe.batch) != otherRecords || compare(second.batch, probe.batch) != otherRecords {
		f.Evidence = append(f.Evidence, fmt.Sprintf("page %d, after the last, has nothing new", last+1))
		return nil
	}
	end, err := look(last)
	if err != nil {
		return err
	}
	like, grown := compare(end.batch, probe.batch), end.signals.lastPage > first.signals.lastPage || end.signals.total > first.signals.total
	n.c.release(end.a)
	if like == sameRecords || like == mostlySame {
		f.Evidence = append(f.Evidence, fmt.Sprintf("page %d, after the last, repeats the last one", last+1))
		return nil
	}
	if grown || probe.signals.lastPage > first.signals.lastPage || probe.signals.total > first.signals.total {
		f.Evidence = append(f.Evidence, fmt.Sprintf("the list has grown since its first page was read: page %d now has records", last+1))
		return nil
	}
	h := &pagerProbe{l: n.l, tried: f.Evidence}
	return h.unexplained(fmt.Sprintf("the list states that page %d is its last, but the page after it has other records", last))
}

func describe(p schemas.Pagination) string {
	switch {
	case p.Type == "":
		return ""
	case p.Type == "none":
		return "one page"
	case p.Zero:
		return fmt.Sprintf("%s by %s, from 0", p.Type, p.Page)
	case p.One:
		return fmt.Sprintf("%s by %s, from 1", p.Type, p.Page)
	case p.Type == "link" && p.Page == "":
		return "link"
	case p.Type == "range":
		return "range headers"
	case p.Field != "":
		return fmt.Sprintf("%s by %s, the %s of the last record", p.Type, p.Page, p.Field)
	}
	return fmt.Sprintf("%s by %s", p.Type, p.Page)
}
