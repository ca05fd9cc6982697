package extract

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

// list reads a list. If a cursor expires, it starts again from the beginning, once. It does so only if the stream has a
// key: some records then come twice, and the key identifies them.
func (p *pass) list(ctx context.Context) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		for restarted := false; ; restarted = true {
			more, err := p.once(ctx, yield)
			if err == nil || !more {
				return
			}
			if restarted || p.mark.Kind != paging.KindCursor || len(p.s.Key) == 0 || !expired(err) {
				yield(Page{}, err)
				return
			}
			p.note = fmt.Sprintf("the cursor after page %d expired; the list was read again from the beginning", p.mark.Pages)
			p.mark = p.mark.restarted(p.s)
		}
	}
}

func (p *pass) once(ctx context.Context, yield func(Page, error) bool) (more bool, err error) {
	params, err := constants(p.s)
	if err != nil {
		return true, err
	}
	params = append(params, p.mark.bounds(p.s)...)
	l := p.c.newListReader(p.s, params, &endpointTraits{layout: records.Found{Pointer: p.mark.Pointer, Form: p.mark.Form}})
	l.stepwise = p.mark.Tail
	l.lastN, l.lastTotal = p.mark.Filled, p.mark.Total-1
	l.incomplete = slices.Clone(p.mark.Incomplete)
	l.pages, l.pager.Rows, l.pager.Step, l.firstTotal = p.mark.Pages, p.mark.Rows, p.mark.Step, p.mark.Total-1
	l.pager.Zero, l.pager.EmptyPages, l.pager.Before, l.pager.Uneven = p.mark.Zero, p.mark.Barren, p.mark.Filled, p.mark.Uneven
	l.gaps.all = p.mark.Gaps
	if p.mark.Size > 0 {
		l.s.Pagination.Limit = p.mark.Size
	}
	l.early, p.early = p.early, nil
	for st, err := range l.walk(ctx, p.mark.position(), nil) {
		if err != nil {
			return true, err
		}
		page := p.page(l, st)
		older, err := p.observe(page.Records, st.a)
		if err != nil {
			return true, malformed(p.s, st.at, err)
		}
		page = p.bounded(page, older)
		if !yield(page, nil) {
			return false, nil
		}
		if page.End != nil {
			return true, nil
		}
	}
	return true, nil
}

func (p *pass) page(l *listReader, st *step) Page {
	m := &p.mark
	m.Kind, m.Param, m.At = st.Next.Kind, st.Next.Param, st.Next.At
	m.Pointer, m.Form = l.traits.layout.Pointer, l.traits.layout.Form
	m.Zero, m.Barren, m.Filled, m.Uneven, m.Size = l.pager.Zero, l.pager.EmptyPages, l.pager.Before, l.pager.Uneven, 0
	if l.s.Pagination.Limit != p.s.Pagination.Limit {
		m.Size = l.s.Pagination.Limit
	}
	m.Gaps, m.Incomplete = l.gaps.all, l.incomplete
	m.Total, m.Pages, m.Rows, m.Step = l.firstTotal+1, l.pages, l.pager.Rows, l.pager.Step
	out := Page{Records: st.batch.json(), Requests: l.requests, Bytes: l.bytes, Total: st.total, Gaps: st.gaps, cuts: st.batch.cuts.at}
	if st.file != nil {
		out.Files = []File{*st.file}
	}
	l.requests, l.bytes = 0, 0
	if st.Rule != "" {
		out.End = &End{
			Rule: st.Rule, Resumed: p.resumed, Pages: l.pages,
			FirstTotal: l.firstTotal, LastTotal: l.lastTotal,
			Reread: st.reread, Round: l.round(st), Refused: l.capped && st.signals.Total < 0, Counted: l.drift.counted, Drift: l.drift.Drift, Gaps: l.gaps.all,
			Note:        notes(notes(p.note, st.note), notes(l.drift.note(), l.segments.note())),
			Unexplained: l.unexplained(st), Incomplete: l.incomplete, PathOnly: l.guessed(), OnePageOnly: l.pages == 1 && l.unproved && st.signals.Total < 0,
		}
	}
	return out
}

// unexplained() returns the signals that may announce more records, although the list has ended. If the user configured
// the paging, the only such signal is a total that is a lower bound.
func (l *listReader) unexplained(st *step) []string {
	var out []string
	if st.Rule == RuleSingle {
		return nil
	}
	if st.signals.Bound != "" {
		out = append(out, st.signals.Bound)
	}
	if l.pager.Stated {
		return out
	}
	for _, u := range st.signals.Doubts(l.pager.Rows) {
		if u.Number >= 0 && st.Rule == RuleNoNext && l.pages > 1 && schemas.Paging().Estimates(u.Pointer) {
			continue
		}
		if u.Number >= 0 || l.pages == 1 || !l.constant[u.Pointer+u.Value] {
			out = append(out, u.String())
		}
	}
	return out
}

func (l *listReader) guessed() bool {
	return l.s.Stated["path"] != "" && l.s.Stated["pagination"] == "" && !l.counts
}

// round() reports whether the server may have cut the list. That is so in these cases:
//   - The list is one page with a round number of records.
//   - All pages are full, the list has a round number of records, and only an empty page shows the end.
//   - The list has no total, and the server refuses the page after a full page, or repeats a full page.
func (l *listReader) round(st *step) bool {
	switch st.Rule {
	case RuleOnePage:
		return paging.Round(st.batch.N)
	case RuleEmptyPage, RuleRepeat:
		if l.capped || st.Rule == RuleRepeat && l.pages > 2 && int64(l.lastN) >= l.pager.Step {
			return st.signals.Total < 0 // some servers return only a limited number of pages
		}
		full := l.drift.short == l.drift.blank && l.drift.fullest > 0
		return full && paging.Round(int(l.pager.Rows))
	}
	return false
}
