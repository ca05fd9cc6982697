package extract

import (
	"context"
	"errors"
	"strconv"

	"github.com/penstock-data/penstock/extract/wire"
)

// maxPageGaps limits the consecutive pages that may fail. // Invariant 15
const maxPageGaps = 3

// recover continues after a page that failed with cause. If the list supports smaller pages, it reads the records
// around the broken one. Otherwise it skips the page. It returns an error if the page cannot become a gap, for
// example because other pages fail too.
func (l *listReader) recover(ctx context.Context, at position, cause error) (*step, error) {
	st, err := l.isolate(ctx, at, cause)
	if err == nil || ctx.Err() != nil {
		return st, err
	}
	if st := l.skip(ctx, at, cause); st != nil {
		return st, nil
	}
	return nil, err
}

// skip turns a page that always fails into a gap. It returns nil if it cannot skip the page:
//   - The list is paged by cursor or link, so the length of the gap is unknown.
//   - The server no longer returns a page that it returned before.
//   - There are too many gaps.
func (l *listReader) skip(ctx context.Context, at position, cause error) *step {
	fault, ok := errors.AsType[*wire.Error](cause)
	rows := l.pager.step
	if !ok || !failsOnData(fault) || at.kind != pagerPage && at.kind != pagerOffset || rows == 0 || l.pages == 0 ||
		l.gaps.pages >= maxPageGaps || len(l.gaps.all) >= maxGaps || !l.answers(ctx) {
		return nil
	}
	l.requests += fault.Attempts
	from, total := l.pager.place(at), l.lastTotal
	if total >= 0 {
		rows = min(rows, total-from)
	}
	if rows <= 0 {
		return nil // the page is after the end
	}
	gap := Gap{At: at.String(), First: from, Rows: rows, After: l.gaps.tail, Status: fault.Status, Message: fault.Message}
	l.gaps.all, l.gaps.open = append(l.gaps.all, gap), true
	l.gaps.pages++
	l.pager.rows += rows
	st := &step{at: at, total: total, gaps: []Gap{gap}}
	switch {
	case at.kind == pagerPage && l.pager.last > 0 && at.number() >= l.pager.last:
		st.rule = RuleLastPage
	case total >= 0 && from+rows >= total:
		st.rule = RuleTotal
	case at.kind == pagerPage:
		st.next = l.pager.pageAt(at, at.number()+1)
	default:
		st.next = position{kind: at.kind, param: at.param, at: strconv.FormatInt(from+rows, 10)}
	}
	if err := l.guard(st); err != nil {
		return nil
	}
	return st
}

func (l *listReader) answers(ctx context.Context) bool {
	a, err := l.c.probe(ctx, l.s, l.params, l.ends.at)
	if err != nil {
		l.requests += requestsOf(err)
		return false
	}
	l.requests += a.requests
	l.bytes += a.bytes
	l.c.release(a)
	return true
}

func (p *pager) place(at position) int64 {
	switch {
	case at.kind == pagerOffset:
		return at.number()
	case p.zero:
		return at.number() * p.step
	}
	return (at.number() - 1) * p.step
}
