package extract

import (
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"

	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/wire"
)

// guard stops a list that repeats itself. A repeated page is no fault if the pages are numbered, the list states how
// many pages it has, and the records have a key: then the list ends anyway, and the keys show which records came twice.
// Invariants 14, 15
func (l *listReader) guard(st *step) error {
	l.pages++
	if l.pages == 1 {
		l.firstTotal = st.total
	}
	l.lastTotal = st.total
	signs := l.drift.Drift
	st.afterLast = l.pager.Zero && st.at.Kind == paging.KindPage && l.pager.Last > 0 && st.at.Number() == l.pager.Last
	l.drift.see(st)
	l.follow(st)
	if st.batch.N > 0 {
		l.ends = ends{st.at, paging.Sum(st.batch.Keys)}
	}
	if l.pages == 1 && st.Rule != "" {
		return nil
	}
	bounded := st.at.Kind == paging.KindPage && l.pager.Last > 0 && len(l.s.Key) > 0
	again, err := l.repeated.Check(st.batch.Keys, len(l.s.Key) > 0, l.pages)
	l.drift.Overlap, l.drift.Alike, l.drift.Doubled = l.drift.Overlap+again.Overlap, l.drift.Alike+again.Alike, l.drift.Doubled+again.Doubled
	if err != nil && !bounded {
		if !l.clamped(st) {
			if l.pages == 2 {
				err = l.changed(err)
			}
			return malformed(l.s, st.at, err)
		}
		l.pager.Rows -= int64(st.batch.N)
		l.drift.Drift = signs
		st.Continuation, st.batch = paging.Continuation{Rule: RuleRepeat}, batch{}
		return nil
	}
	l.lastN, l.lastPrint = st.batch.N, paging.Sum(st.batch.Keys)
	if st.batch.N > 0 {
		l.lastKey = st.batch.Keys[st.batch.N-1]
	}
	if l.pages == 1 {
		l.firstPrint = l.lastPrint
	}
	if st.Rule != "" {
		return nil
	}
	if err := st.at.Check(st.Next); err != nil {
		return malformed(l.s, st.at, err)
	}
	if st.Next.Kind == paging.KindCursor {
		cursor := maphash.String(l.c.seed, st.Next.At)
		if l.visited[cursor] {
			return malformed(l.s, st.at, errors.New("the list returns a cursor that it returned before"))
		}
		l.visited[cursor] = true
	}
	if most := l.pager.Limit(l.c.maxPages); int64(l.pages) >= most {
		return malformed(l.s, st.at, fmt.Errorf("no end after %d pages", l.pages))
	}
	return nil
}

// clamped() reports whether a page without new records is after the end of the list. That is so if no signal of the
// page announces more records, and if the page before is short, or this page repeats the first page or the page before.
func (l *listReader) clamped(st *step) bool {
	if st.at == l.beyondEnd && st.at != (paging.Position{}) {
		return true
	}
	s := st.signals
	if s.More == paging.Yes || s.Token != "" || s.Next != nil || s.Total >= 0 && s.Total != l.pager.Rows-int64(st.batch.N) {
		return false
	}
	print := paging.Sum(st.batch.Keys)
	if s.Total >= 0 || l.clampedTo == st.at.Number()-1 && st.at.Kind == paging.KindPage {
		if print == l.lastPrint || print == l.firstPrint {
			return true
		}
	}
	counted := st.at.Counts() // for such a page, beyond() has sent a probe
	again := l.pages > 2 && !counted && st.at.Kind != paging.KindCursor && (print == l.lastPrint || print == l.firstPrint)
	return again || int64(l.lastN) < l.pager.Step && st.batch.N <= l.lastN
}

// expired() reports whether err may mean that the server has forgotten a cursor.
func expired(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return ok && (e.Status == http.StatusGone || e.Class == wire.Invalid || e.Class == wire.Missing)
}
