package extract

import (
	"context"
	"fmt"
	"strconv"

	"github.com/penstock-data/penstock/extract/paging"
)

// beyond handles a page that repeats the first page or the page before. Some lists return such a page for every
// position after their end. A probe finds out whether the list ends here.
//
// If the offset minus one returns only the last record, the list has ended. If the next page number returns the same
// page, the list has ended.
func (l *listReader) beyond(ctx context.Context, st *step) error {
	print := paging.Sum(st.batch.Keys)
	if st.batch.N == 0 || l.pages == 0 || print != l.firstPrint && print != l.lastPrint || l.misplaced < 0 && l.clamped(st) {
		return nil
	}
	if l.pager.Settled && !l.signalsBefore.AnnouncesMore() {
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
		return malformed(l.s, st.at, l.changed(fmt.Errorf("requested page %s, got page %d", st.at.At, page)))
	}
	return nil
}

// isBeyondEnd returns false if the server refuses the probe, or if this kind of paging has no probe.
func (l *listReader) isBeyondEnd(ctx context.Context, st *step, print uint64) (bool, error) {
	at := st.at
	switch {
	case at.Kind == paging.KindOffset:
		at.At = strconv.FormatInt(at.Number()-1, 10)
	case at.Kind == paging.KindPage && l.pages > 1:
		at.At = strconv.FormatInt(at.Number()+1, 10)
	default:
		return false, nil
	}
	other, err := l.look(ctx, at)
	if paging.Refused(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer l.c.release(other.a)
	if at.Kind == paging.KindOffset {
		return l.lastOnly(other), nil
	}
	return paging.Sum(other.batch.Keys) == print, nil
}

func (l *listReader) lastOnly(end *step) bool {
	return end.batch.N == 1 && end.batch.Keys[0] == l.lastKey && !end.signals.AnnouncesMore()
}
