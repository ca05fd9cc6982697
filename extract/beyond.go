package extract

import (
	"context"
	"fmt"
	"strconv"
)

// beyond handles a page that repeats the first page or the page before. Some lists return such a page for every
// position after their end. A probe finds out whether the list ends here.
//
// If the offset minus one returns only the last record, the list has ended. If the next page number returns the same
// page, the list has ended.
func (l *listReader) beyond(ctx context.Context, st *step) error {
	print := sum(st.batch.keys)
	if st.batch.n == 0 || l.pages == 0 || print != l.firstPrint && print != l.lastPrint || l.misplaced < 0 && l.clamped(st) {
		return nil
	}
	if l.pager.settled && !l.signalsBefore.announcesMore() {
		beyondEnd, err := l.isBeyondEnd(ctx, st, print)
		if err != nil {
			return err
		}
		if beyondEnd {
			l.beyondEnd = st.at
			return nil
		}
	}
	if page := l.misplaced; page >= 0 {
		return malformed(l.s, st.at, l.changed(fmt.Errorf("requested page %s, got page %d", st.at.at, page)))
	}
	return nil
}

// isBeyondEnd returns false if the server refuses the probe, or if this kind of paging has no probe.
func (l *listReader) isBeyondEnd(ctx context.Context, st *step, print uint64) (bool, error) {
	at := st.at
	switch {
	case at.kind == pagerOffset:
		at.at = strconv.FormatInt(at.number()-1, 10)
	case at.kind == pagerPage && l.pages > 1:
		at.at = strconv.FormatInt(at.number()+1, 10)
	default:
		return false, nil
	}
	other, err := l.look(ctx, at)
	if probeRefused(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer l.c.release(other.a)
	if at.kind == pagerOffset {
		return l.lastOnly(other), nil
	}
	return sum(other.batch.keys) == print, nil
}

func (l *listReader) lastOnly(end *step) bool {
	return end.batch.n == 1 && end.batch.keys[0] == l.lastKey && !end.signals.announcesMore()
}

func (s *signals) announcesMore() bool {
	return s.more == yes || s.token != "" || s.next != nil || s.remaining > 0
}
