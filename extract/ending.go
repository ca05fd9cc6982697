package extract

import (
	"context"
	"fmt"
	"strconv"

	"github.com/penstock-data/penstock/extract/paging"
)

// confirm requests the last pages of a list again. If a page differs now, the list is changing or the server leaves
// out records. [Drift].Shifted counts such pages. Lists with tokens or a total need no such test.
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

// beyond() handles a page that repeats the first page or the previous page. Some lists return such a page for every
// position after their end. A probe finds out whether the list has ended.
//
// In a list with offsets, the probe requests the offset minus one. If the answer is only the last record, the list has
// ended. In a list with page numbers, the probe requests the next number. If the answer is the same page again, the
// list has ended.
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

// isBeyondEnd reports whether a probe shows that st is beyond the end of the list. It returns false if the server
// refuses the probe, or if this kind of paging has no probe.
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

// maxShortRereads limits how many short pages are requested again. A short page has fewer records than other pages.
// Invariant 15
const maxShortRereads = 3

// rereadShortPages requests the short pages before the step st again, if st has records: then the list did not end at
// these pages. An unchanged short page is no fault, because some servers leave out records that the user has no right
// to see. Two faults are noted in l.incomplete: a page now has other records, or its answer has no list.
func (l *listReader) rereadShortPages(ctx context.Context, st *step) error {
	if l.pages == 1 && len(st.gaps) == 0 {
		l.firstN = st.batch.N
	}
	if l.budget > 0 || len(st.gaps) > 0 || !st.at.Counts() && st.at.Kind != paging.KindNone {
		return nil
	}
	n := st.batch.N
	if l.pages == 2 && n > l.firstN && l.firstN > 0 {
		l.shorter = append(l.shorter, shortPage{ends: ends{print: l.firstPrint}, n: l.firstN})
	}
	if n > 0 {
		for _, p := range l.shorter[:min(len(l.shorter), maxShortRereads-l.shortRereads)] {
			if err := l.compareShort(ctx, p); err != nil {
				return err
			}
		}
		l.shorter = nil
	}
	if st.Rule == "" && l.pages > 1 && int64(n) < l.pager.Step && len(l.shorter) < maxShortRereads {
		l.shorter = append(l.shorter, shortPage{ends: ends{st.at, paging.Sum(st.batch.Keys)}, n: n, bare: st.bare})
	}
	return nil
}

func (l *listReader) compareShort(ctx context.Context, p shortPage) error {
	l.shortRereads++
	again, err := l.reread(ctx, p.at)
	if err != nil {
		return err
	}
	defer l.c.release(again.a)
	switch {
	case paging.Sum(again.batch.Keys) != p.print:
		l.incomplete = someOf(l.incomplete, []string{fmt.Sprintf("%s held %d records, but %d when it was requested again", p.at, p.n, again.batch.N)})
	case p.bare:
		l.incomplete = someOf(l.incomplete, []string{fmt.Sprintf("%s has no list of records, but a later page has", p.at)})
	}
	return nil
}
