package extract

import (
	"cmp"
	"context"
	"fmt"

	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/schemas"
)

func (l *listReader) findPaging(ctx context.Context, q *ahead[paging.Position], st *step) error {
	if n := st.batch.N; n > 0 && n <= l.traits.whole {
		st.Continuation = paging.Continuation{Rule: st.ending()}
		return nil
	}
	here, shallow, err := l.deepen(st)
	defer shallow()
	if err != nil {
		return err
	}
	st.batch.Content = here.Content
	p := paging.NewProbe(l, &l.pager, st.page(), l.lastID)
	defer p.Release()
	err = p.Run(ctx)
	l.unproved = p.Unproved
	if err := cmp.Or(l.unsettled(err), l.adopt(st, p.First)); err != nil {
		return err
	}
	switch {
	case p.Broken != paging.Position{}:
		st.Continuation = paging.Continuation{Next: p.Broken}
	case p.Whole && st.Rule == RuleTotal && st.total != int64(st.batch.N):
		return l.unsettled(p.Unexplained(fmt.Sprintf("the list changed while it was read: it now states %d records, but returned %d", st.total, st.batch.N)))
	case p.Whole:
		if p.Reread {
			l.traits.whole = max(l.traits.whole, st.batch.N)
		}
		if paging.Round(st.batch.N) && l.s.Stated["path"] != "" && (l.unproved || st.Rule == RuleTotal) {
			l.counts = st.Rule == RuleTotal && p.Reread && !l.unproved // no parameter changes the list
			st.total, st.signals.Total, st.Rule = -1, -1, RuleOnePage  // the total may count only this page
		}
		st.Continuation, st.reread = paging.Continuation{Rule: st.ending()}, p.Reread
	case p.Second == nil:
		if p.Shrank && p.Counts {
			l.counts, st.total, st.signals.Total, st.Rule = true, -1, -1, RuleEmptyPage
		}
		l.usePaging(p.Paging)
		st.Continuation = l.afterProbes(st, p.Shrank)
	default:
		l.traits.announces = st.Rule == ""
		l.usePaging(p.Paging)
		st.Continuation = paging.Continuation{Next: p.Second.At}
		a := p.Second.Answer.(*answer)
		q.put(p.Second.At, a)
		l.requests -= a.requests
		l.bytes -= a.bytes
		p.Second = nil // the queue owns the answer now
	}
	return nil
}

// afterProbes returns how to continue if the probes found no next page of the usual size. If smaller pages have shown
// how to request the next page, the pass requests that page: only the answer shows whether the list ends here.
// Otherwise the list ends.
func (l *listReader) afterProbes(st *step, shrank bool) paging.Continuation {
	if l.pager.Computes() {
		if next, ok := l.pager.Onward(st.at, st.batch.N, l.lastID, st.signals); shrank && ok && st.Rule != RuleTotal {
			return paging.Continuation{Next: next}
		}
	}
	return paging.Continuation{Rule: st.Rule}
}

func (l *listReader) usePaging(p schemas.Pagination) {
	l.traits.paging = &p
	l.s.Pagination, l.pager.Hint, l.pager.Settled = p, p, true
	l.pager.Zero = l.pager.Zero || p.Zero
}

// adopt updates a step after probes, because the probes may have read the page of the step again.
func (l *listReader) adopt(st *step, p *paging.Page) error {
	st.total, st.signals.Total, st.note = p.Total, p.Signals.Total, p.Note
	a := p.Answer.(*answer)
	if a == st.a {
		return nil
	}
	st.a = a
	if st.batch.keysOnly {
		st.batch.Hashes = p.Hashes
		return nil
	}
	return l.assemble(st) // a pass needs the records
}
