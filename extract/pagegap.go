package extract

import (
	"context"
	"errors"
	"strconv"

	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/wire"
)

// maxPageGaps limits the consecutive pages that may fail. // Invariant 15
const maxPageGaps = 3

// recover continues after a page that failed. If the list supports smaller pages, recover reads the records around the
// broken record. Otherwise it skips the page. It returns an error if the page cannot become a gap, for example because
// other pages fail too.
func (l *listReader) recover(ctx context.Context, at paging.Position, cause error) (*step, error) {
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
func (l *listReader) skip(ctx context.Context, at paging.Position, cause error) *step {
	fault, ok := errors.AsType[*wire.Error](cause)
	rows := l.pager.Step
	if !ok || !paging.FailsOnData(fault) || !at.Counts() || rows == 0 || l.pages == 0 ||
		l.gaps.pages >= maxPageGaps || len(l.gaps.all) >= maxGaps || !l.answers(ctx, l.ends.at) {
		return nil
	}
	l.requests += fault.Attempts
	from, total := l.pager.Place(at), l.lastTotal
	if total >= 0 {
		rows = min(rows, total-from)
	}
	if rows <= 0 {
		return nil // the page is after the end
	}
	gap := Gap{At: at.String(), First: from, Rows: rows, After: l.gaps.tail, Status: fault.Status, Message: fault.Message}
	l.gaps.all, l.gaps.open = append(l.gaps.all, gap), true
	l.gaps.pages++
	l.pager.Rows += rows
	st := &step{at: at, total: total, gaps: []Gap{gap}}
	switch {
	case at.Kind == paging.KindPage && l.pager.Last > 0 && at.Number() >= l.pager.Last:
		st.Rule = RuleLastPage
	case total >= 0 && from+rows >= total:
		st.Rule = RuleTotal
	case at.Kind == paging.KindPage:
		st.Next = l.pager.PageAt(at, at.Number()+1)
	default:
		st.Next = paging.Position{Kind: at.Kind, Param: at.Param, At: strconv.FormatInt(from+rows, 10)}
	}
	if err := l.guard(st); err != nil {
		return nil
	}
	return st
}
