package extract

import "context"

// confirm requests the end of a list again. If the page differs, it increments [Drift].Shifted: the list changes, or
// the server leaves out records. Lists with tokens or a total need no such test.
func (l *listReader) confirm(ctx context.Context, st *step) error {
	if l.budget > 0 || st.total >= 0 || l.lastTotal >= 0 || st.reread || st.rule != RuleNoNext && st.rule != RuleEmptyPage {
		return nil
	}
	end := l.ends
	if st.batch.n > 0 {
		end = ends{st.at, sum(st.batch.keys)}
	}
	if end.at.kind == pagerCursor || end.print == 0 {
		return nil
	}
	last := []ends{end}
	if st.rule == RuleEmptyPage && st.batch.n == 0 && l.pager.emptyPages <= 1 {
		last = append(last, ends{at: st.at})
	}
	for _, e := range last {
		again, err := l.reread(ctx, e.at)
		if err != nil {
			return err
		}
		if sum(again.batch.keys) != e.print {
			l.drift.Shifted++
		}
		l.c.release(again.a)
	}
	return nil
}

func (l *listReader) noteLastPage(st *step) {
	if st.batch.n > 0 {
		l.ends = ends{st.at, sum(st.batch.keys)}
	}
}

type ends struct {
	at    position
	print uint64
}
