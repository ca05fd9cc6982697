package extract

import (
	"context"
	"fmt"

	"github.com/penstock-data/penstock/schemas"
)

// pagerProbe finds out how a list continues after its first page. It tries parameters, and accepts the one that
// returns other records. If none does, the first page is the whole list.
type pagerProbe struct {
	renamed bool // an answer had the keys of the first page, but other content
	l       *listReader
	first   *step
	second  *step
	paging  schemas.Pagination
	whole   bool
	counts  bool // the total counts only the records of a page
	shrank  bool // smaller pages showed how the list continues

	broken position // the server failed at this position, so the page may hold a broken record; zero for none

	controlled bool // a request with noParameter was sent; no server knows this parameter
	answers    bool // the server answered noParameter
	lenient    bool // the server ignored noParameter
	refused    int  // number of refused parameters that were sent one by one

	words, strange []string // words of the last refusal, and of the refusal of noParameter
	takes          []string // parameters whose values the server refused, so it knows the parameters

	reacted       bool
	fromZero      bool // with one of the parameters, page 1 is not the first page
	changedToPart bool // the list changed to a part of the first answer
	refuses       bool

	inBody        bool
	refusedInBody string // the last parameter that the server refused in the body of a POST

	lastContent uint64 // hash of the first page's content at its last reading

	triedAlone map[position]bool
	known      bool // the last parameter returned the first page again
	tried      []string
	reread     bool // the first page was read again and was the same
}

// Limits for the requests that search for the paging parameter. maxSearch is for a list that announces more.
// maxSingleSearch applies if each parameter takes a request of its own. maxSilentSearch is for a list that announces
// nothing, so that the first page is probably all of it.
const (
	maxSearch       = 34
	maxSingleSearch = 44
	maxSilentSearch = 22
)

func (p *pagerProbe) most(silent bool) int {
	switch {
	case silent:
		return maxSilentSearch
	case p.refuses:
		return maxSingleSearch
	}
	return maxSearch
}

const maxReread = 3

func (l *listReader) findPaging(ctx context.Context, q *ahead[position], st *step) error {
	if n := st.batch.n; n > 0 && n <= l.traits.whole {
		st.continuation = continuation{rule: st.ending()}
		return nil
	}
	here, shallow, err := l.deepen(st)
	defer shallow()
	if err != nil {
		return err
	}
	st.batch.content = here.content
	p := &pagerProbe{l: l, first: st, paging: l.s.Pagination}
	defer p.release()
	if err := p.run(ctx); err != nil {
		return err
	}
	switch {
	case p.broken != position{}:
		st.continuation = continuation{next: p.broken}
	case p.whole && st.rule == RuleTotal && st.total != int64(st.batch.n):
		return p.unexplained(fmt.Sprintf("the list changed while it was read: it now states %d records and shows %d", st.total, st.batch.n))
	case p.whole:
		if p.reread {
			l.traits.whole = max(l.traits.whole, st.batch.n)
		}
		if round(st.batch.n) && l.s.Stated["path"] != "" && (l.unproved || st.rule == RuleTotal) {
			l.counts = st.rule == RuleTotal && p.reread && !l.unproved // no parameter changes the list
			st.total, st.signals.total, st.rule = -1, -1, RuleOnePage  // the total may count only this page
		}
		st.continuation, st.reread = continuation{rule: st.ending()}, p.reread
	case p.second == nil:
		if p.shrank && p.counts {
			l.counts, st.total, st.signals.total, st.rule = true, -1, -1, RuleEmptyPage
		}
		l.usePaging(p.paging)
		st.continuation = l.afterProbes(st, p.shrank)
	default:
		l.traits.announces = st.rule == ""
		l.usePaging(p.paging)
		st.continuation = continuation{next: p.second.at}
		q.put(p.second.at, p.second.a)
		l.requests -= p.second.a.requests
		l.bytes -= p.second.a.bytes
		p.second = nil // the queue owns the answer now
	}
	return nil
}

// afterProbes decides after probes that found no next page. If smaller pages showed how the list continues, it
// requests the next page: they do not show that the list ends.
func (l *listReader) afterProbes(st *step, shrank bool) continuation {
	switch l.pager.hint.Type {
	case "page", "offset", "since_id", "range":
		if next, ok := l.pager.onward(st.at, st.batch.n, l.lastID, st.signals); shrank && ok && st.rule != RuleTotal {
			return continuation{next: next}
		}
	}
	return continuation{rule: st.rule}
}

func (l *listReader) usePaging(p schemas.Pagination) {
	l.traits.paging = &p
	l.s.Pagination, l.pager.hint, l.pager.settled = p, p, true
	l.pager.zero = l.pager.zero || p.Zero
}

func (st *step) ending() string {
	if st.rule == RuleTotal {
		return RuleTotal
	}
	return RuleOnePage
}

func (p *pagerProbe) release() {
	if p.second != nil {
		p.l.c.release(p.second.a)
	}
}

// run looks for the second page. If the list does not announce more records, it first sends all parameters in one
// request. Only if the list changes does it look for the parameter that changed it.
func (p *pagerProbe) run(ctx context.Context) error {
	silent := p.first.rule != "" && len(p.first.signals.doubts(int64(p.first.batch.n))) == 0
	if silent {
		done, err := p.sweep(ctx)
		if done && err == nil && round(p.first.batch.n) {
			return p.tryShrink(ctx)
		}
		if done || err != nil {
			return err
		}
		if err := p.lowerSize(ctx); err != nil {
			return err
		}
		if hint := p.l.pager.hint; hint.Type == "none" && p.l.pager.settled && p.refuses && !round(p.first.batch.n) {
			p.reacted = false
			return p.decideUnpaged(ctx) // everything was tried when the convention was learned
		}
	}
	if done, err := p.tryGroups(ctx, silent); done || err != nil {
		return err
	}
	if (p.broken != position{}) {
		return nil // the pass may isolate the broken record
	}
	if !silent {
		return p.unexplained("the list announces more than its first page (" + p.first.signals.describe() + ")")
	}
	if err := p.decideUnpaged(ctx); err != nil || !p.whole || !p.l.unproved {
		return err
	}
	return p.tryShrink(ctx)
}

func (p *pagerProbe) tryShrink(ctx context.Context) error {
	found, err := p.shrink(ctx)
	if found {
		p.whole, p.l.unproved, p.shrank = false, false, true
	}
	return err
}

// tryGroups tries the groups of candidates. Once the server refuses requests with several parameters, the groups are
// different, so tryGroups starts again.
func (p *pagerProbe) tryGroups(ctx context.Context, silent bool) (done bool, err error) {
	for {
		refuses := p.refuses
		for _, g := range p.groups() {
			if p.l.requests > p.most(silent) {
				p.noteTried("the other parameters", "not tried, limit of probes reached")
				return false, nil
			}
			if done, err := p.group(ctx, g, silent); done || err != nil {
				return done, err
			}
			if p.refuses != refuses {
				break
			}
		}
		if p.refuses == refuses {
			return false, nil
		}
	}
}

// compare also sets p.renamed if the keys are equal but the content differs: then the key may be wrong.
func (p *pagerProbe) compare(st *step) likeness {
	p.renamed = p.renamed || renamed(p.first.batch, st.batch)
	return compare(p.first.batch, st.batch)
}

func (p *pagerProbe) again(ctx context.Context) (moved bool, err error) {
	fresh, err := p.l.look(ctx, position{})
	if err != nil {
		return false, err
	}
	p.lastContent = sum(fresh.batch.content)
	if compare(p.first.batch, fresh.batch) == sameRecords {
		p.l.c.release(fresh.a)
		return false, nil
	}
	if total := fresh.signals.total; p.first.total >= 0 {
		p.first.total, p.first.signals.total, p.l.pager.total = total, total, total
	}
	p.l.pager.rows += int64(fresh.batch.n - p.first.batch.n)
	p.l.c.release(p.first.a)
	p.first.a = fresh.a
	if p.first.batch.keysOnly {
		p.first.batch = fresh.batch
		return true, nil
	}
	return true, p.l.assemble(p.first) // a pass needs its records
}
