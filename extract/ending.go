package extract

import (
	"context"

	"github.com/penstock-data/penstock/extract/paging"
)

// confirm requests the end of a list again. If the page differs, it increments [Drift].Shifted: the list changes, or
// the server leaves out records. Lists with tokens or a total need no such test.
func (l *listReader) confirm(ctx context.Context, st *step) error {
	if l.budget > 0 || st.total >= 0 || l.lastTotal >= 0 || st.reread || st.Rule != RuleNoNext && st.Rule != RuleEmptyPage {
		return nil
	}
	end := l.ends
	if st.batch.N > 0 {
		end = ends{st.at, paging.Sum(st.batch.Keys)}
	}
	if end.at.Kind == paging.KindCursor || end.print == 0 {
		return nil
	}
	last := []ends{end}
	if st.Rule == RuleEmptyPage && st.batch.N == 0 && l.pager.EmptyPages <= 1 {
		last = append(last, ends{at: st.at})
	}
	for _, e := range last {
		again, err := l.reread(ctx, e.at)
		if err != nil {
			return err
		}
		if paging.Sum(again.batch.Keys) != e.print {
			l.drift.Shifted++
		}
		l.c.release(again.a)
	}
	return nil
}
