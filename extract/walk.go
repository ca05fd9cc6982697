package extract

import (
	"context"
	"iter"

	"github.com/penstock-data/penstock/extract/paging"
)

// walk yields the pages of a list. Each step is valid until the next step is requested. The parameter `first` is the
// answer for the first position, if the caller already has this answer, and otherwise nil.
func (l *listReader) walk(ctx context.Context, at paging.Position, first *answer) iter.Seq2[*step, error] {
	return func(yield func(*step, error) bool) {
		q := &ahead[paging.Position]{c: l.c, s: l.s, following: l.following, early: l.takeEarly, fetch: func(ctx context.Context, p paging.Position, take func(int64) bool) (*answer, error) {
			return l.c.send(ctx, l.s, l.params, p, false, take)
		}}
		defer q.stop()
		l.readInSegments(q)
		if first != nil {
			q.put(at, first)
		}
		for {
			st, err := l.step(ctx, q, at)
			if err != nil {
				yield(nil, err)
				return
			}
			if st.Rule == "" {
				q.fill(ctx, st.Next)
			} else {
				l.segments.stop() // stop counts the requests that were sent in advance, because the last page reports the count
			}
			more := yield(st, nil)
			l.c.release(st.a)
			if !more || st.Rule != "" {
				return
			}
			at = st.Next
		}
	}
}

func (l *listReader) takeEarly(at paging.Position) *answer { return l.early.take(&l.listClient, at) }

func (l *listReader) following(_ int, at paging.Position) (paging.Position, bool) {
	if l.stepwise {
		return paging.Position{}, false
	}
	return l.pager.Following(at)
}

func (l *listReader) step(ctx context.Context, q *ahead[paging.Position], at paging.Position) (*step, error) {
	a, err := q.take(ctx, at)
	if err != nil {
		ended, over := l.past(ctx, at, err)
		if over {
			return ended, nil
		}
		return l.recover(ctx, at, err)
	}
	st := &step{at: at, a: a}
	l.segments.divide(a, at)
	if err = l.read(st); err == nil && st.Open {
		err = l.findPaging(ctx, q, st)
	}
	if err == nil && l.outsized(st) {
		err = l.resize(ctx, q, st)
	}
	for _, check := range []func(context.Context, *step) error{
		l.confirm, l.clamps, l.beyond, l.checkConstantToken, l.renamedPage,
		func(context.Context, *step) error { return l.guard(st) }, l.rereadShortPages,
	} {
		if err == nil {
			err = check(ctx, st)
		}
	}
	if err != nil {
		l.c.release(st.a)
		return nil, err
	}
	return st, nil
}
