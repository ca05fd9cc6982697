package extract

import (
	"context"
	"fmt"

	"github.com/penstock-data/penstock/extract/paging"
)

// maxShortRereads limits how many short pages are requested again. A short page has fewer records than other pages.
// // Invariant 15
const maxShortRereads = 3

// rereadShortPages requests the short pages before st again if st holds records, because then the list did not end
// there. If a short page is unchanged, the server may leave out records that the user may not see. l.incomplete notes
// two faults: the page now has other records, or the answer has no list.
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
