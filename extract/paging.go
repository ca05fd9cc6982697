package extract

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/wire"
)

func (n *negotiation) pager(ctx context.Context, st *step) error {
	if st.batch.N == 0 && !st.Open {
		n.record(FactPager, "", "the list is empty: nothing shows how it is paged")
		return nil
	}
	if n.l.pager.Stated {
		n.out.Pagination = n.s.Pagination
		f := n.open(FactPager)
		f.From, f.Value = n.stated("pagination"), paging.Describe(n.s.Pagination)
		return nil
	}
	if st.Rule != "" && !st.Open && len(st.signals.Doubts(int64(st.batch.N))) == 0 {
		return n.claim(ctx, st)
	}
	h := paging.NewProbe(n.l, &n.l.pager, st.page(), n.l.lastID)
	defer h.Release()
	err := h.Run(ctx)
	n.l.unproved = h.Unproved
	err = cmp.Or(n.l.unsettled(err), n.l.adopt(st, h.First))
	if h.Second == nil && (err == nil || n.isPagingError(err)) {
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
	f.From, f.Evidence = n.stated("pagination"), h.Tried
	switch {
	case h.Whole && st.batch.N == 0:
		f.Evidence = append(f.Evidence, "the list is empty: nothing shows how it is paged")
		return nil
	case h.Whole:
		n.out.Pagination = h.Paging
		n.out.Pagination.Type = "none"
		f.Value = "one page"
		f.Evidence = append(f.Evidence, "requests for a second page under every usual name returned the same list")
		return nil
	}
	n.out.Pagination = h.Paging
	f.Value = paging.Describe(h.Paging)
	if p := n.s.Pagination; f.From != Learned && p.Type != "" && (p.Type != h.Paging.Type || p.Page != "" && p.Page != h.Paging.Page) {
		f.Refuted = append(f.Refuted, fmt.Sprintf("%s is %s; the probes saw %s", paging.Describe(p), f.From, f.Value))
		f.Value = paging.Describe(p)
	}
	if h.Second == nil {
		return nil
	}
	n.see(h.Second)
	f.Evidence = append(f.Evidence, fmt.Sprintf("%s=%s returned %d other records", h.Second.At.Param, paging.Short(h.Second.At.At), h.Second.N))
	if err := n.beyond(ctx, st, h.Second); err != nil {
		return err
	}
	return n.size(ctx, st)
}

func (n *negotiation) claim(ctx context.Context, st *step) error {
	h := paging.NewProbe(n.l, &n.l.pager, st.page(), n.l.lastID)
	probe, err := n.l.Look(ctx, paging.Position{Extra: h.Everything()[0]})
	f := n.open(FactPager)
	f.Value, f.Evidence = "one page so far", []string{"the list says that it ends with its first page: " + st.Rule}
	if paging.Refused(err) {
		f.Evidence = append(f.Evidence, "a request for more was refused: "+wire.Excerpt(err.Error()))
		return nil
	}
	if err != nil {
		return err
	}
	like := h.Compare(probe)
	n.l.Release(probe)
	if doubt := n.keyRepeats(ctx, h); doubt != nil {
		return doubt
	}
	if doubt := n.otherList(ctx, nil); doubt != nil {
		return doubt
	}
	if like == paging.OtherRecords && len(n.l.s.Key) > 0 {
		moved, err := h.Again(ctx)
		err = cmp.Or(err, n.l.adopt(st, h.First))
		if err != nil {
			return err
		}
		if !moved {
			return n.l.unsettled(h.Unexplained("the list says that it ends with its first page (" + st.Rule + "), but a request for more records returns some"))
		}
	}
	f.Evidence = append(f.Evidence, "requests for a second page under every usual name returned no other records")
	return nil
}

// beyond() requests the page after the last page. The list states the number of its last page. If the page after it has
// other records, although the list has not grown, the result is an error.
func (n *negotiation) beyond(ctx context.Context, first *step, second *paging.Page) error {
	last := first.signals.LastPage
	if second.At.Kind != paging.KindPage || last < 2 {
		return nil
	}
	if n.out.Pagination.Zero && !(first.signals.Total > last*int64(first.batch.N)) {
		last-- // LastPage is the number of pages, and pages are numbered from 0
	}
	look := func(page int64) (*step, error) {
		return n.l.look(ctx, paging.Position{Kind: paging.KindPage, Param: second.At.Param, At: strconv.FormatInt(page, 10)})
	}
	f := n.open(FactPager)
	probe, err := look(last + 1)
	if paging.Refused(err) {
		f.Evidence = append(f.Evidence, "a page after the last is refused")
		return nil
	}
	if err != nil {
		return err
	}
	probe.a.early = nil // the pass reads the end of the list later
	defer func() { n.c.release(probe.a) }()
	if probe.batch.N == 0 || paging.Compare(first.batch.Hashes, probe.batch.Hashes) != paging.OtherRecords || paging.Compare(second.Hashes, probe.batch.Hashes) != paging.OtherRecords {
		f.Evidence = append(f.Evidence, fmt.Sprintf("page %d, after the last, has nothing new", last+1))
		return nil
	}
	end, err := look(last)
	if err != nil {
		return err
	}
	end.a.early = nil
	like, grown := paging.Compare(end.batch.Hashes, probe.batch.Hashes), end.signals.LastPage > first.signals.LastPage || end.signals.Total > first.signals.Total
	n.c.release(end.a)
	if like == paging.SameRecords || like == paging.MostlySame {
		f.Evidence = append(f.Evidence, fmt.Sprintf("page %d, after the last, repeats the last page", last+1))
		return nil
	}
	if grown || probe.signals.LastPage > first.signals.LastPage || probe.signals.Total > first.signals.Total {
		f.Evidence = append(f.Evidence, fmt.Sprintf("the list has grown since its first page was read: page %d now has records", last+1))
		return nil
	}
	return n.l.unsettled(&paging.UnexplainedError{Tried: f.Evidence, Seen: fmt.Sprintf("the list states that page %d is its last, but the page after it has other records", last)})
}

// foresee sends several probes at once, if the list states its number of pages. Such a list needs all of them, and they
// do not depend on each other.
func (n *negotiation) foresee(ctx context.Context, st *step) {
	last := st.signals.LastPage
	if st.Rule != "" || st.Next.Kind != paging.KindPage || st.Next.Number() != 2 || last < 2 || n.l.pager.Stated || n.s.Method != http.MethodGet {
		return
	}
	beyond := st.Next
	beyond.At = strconv.FormatInt(last+1, 10)
	all := []paging.Position{st.Next, beyond}
	known, rows := n.c.sizeName(n.dialect(st.Next.Param)), st.batch.N
	switch sizes := paging.FirstSizes(st.page(), n.usualSizes(st, st.Next.Param)); {
	case n.s.Pagination.Size != "" || rows >= usualPage:
	case known != "":
		all = append(all, sizeProbe(known, usualPage))
	case sizes != "":
		all = append(all, paging.Position{Extra: sizes})
	}
	for _, at := range all {
		n.l.foreseen.begin(ctx, &n.l.listClient, at)
	}
}
