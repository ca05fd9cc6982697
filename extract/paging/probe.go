package paging

import (
	"context"

	"github.com/penstock-data/penstock/schemas"
)

// evidence is what candidates are chosen by: the first page of a list, and what earlier answers showed.
type evidence struct {
	list     List
	s        *schemas.Stream // of the list; probes change its Pagination, which takes effect with the next request
	progress *Progress
	First    *Page
	lastID   string // id of the last record of the first page

	server   attitude
	takes    []string // parameters whose values the server refused, so it knows the parameters
	fromZero bool     // with one of the parameters, page 1 is not the first page
}

// attitude is how the server treats parameters that it does not know.
type attitude struct {
	controlled bool     // a request with noParameter was sent; no server knows this parameter
	answers    bool     // the server answered noParameter
	lenient    bool     // the server ignored noParameter
	refuses    bool     // the server refuses or filters by them, so each candidate takes a request of its own
	strange    []string // words of the refusal of noParameter
}

// Probe finds out how a list continues after its first page. It tries parameters, and accepts the one that
// returns other records. If none does, the first page is the whole list.
type Probe struct {
	evidence

	Second   *Page
	Paging   schemas.Pagination
	Whole    bool
	Unproved bool // some parameters could not be tried, and all others returned the same records
	Counts   bool // the total counts only the records of a page
	Shrank   bool // smaller pages showed how the list continues
	Reread   bool // the first page was read again and was the same
	Renamed  bool // an answer had the keys of the first page, but other content
	Tried    []string
	Broken   Position // the server failed at this position, so the page may hold a broken record; zero for none

	refused       int      // number of refused parameters that were sent one by one
	words         []string // words of the last refusal
	reacted       bool
	changedToPart bool // the list changed to a part of the first answer
	inBody        bool
	refusedInBody string // the last parameter that the server refused in the body of a POST
	lastContent   uint64 // hash of the first page's content at its last reading
	triedAlone    map[Position]bool
	known         bool // the last parameter returned the first page again
}

// Limits for the requests that search for the paging parameter. maxSearch is for a list that announces more.
// maxSingleSearch applies if each parameter takes a request of its own. maxSilentSearch is for a list that announces
// nothing, so that the first page is probably all of it.
const (
	maxSearch       = 34
	maxSingleSearch = 44
	maxSilentSearch = 22
)

func (p *Probe) most(silent bool) int {
	switch {
	case silent:
		return maxSilentSearch
	case p.server.refuses:
		return maxSingleSearch
	}
	return maxSearch
}

const maxReread = 3

// NewProbe returns a probe for a list whose first page was read.
func NewProbe(l List, progress *Progress, first *Page, lastID string) *Probe {
	s := l.Stream()
	return &Probe{
		evidence: evidence{list: l, s: s, progress: progress, First: first, lastID: lastID}, Paging: s.Pagination, triedAlone: map[Position]bool{},
	}
}

// Release returns the memory of the second page.
func (p *Probe) Release() {
	if p.Second != nil {
		p.list.Release(p.Second)
	}
}

// Run looks for the second page. If the list does not announce more records, it first sends all parameters in one
// request. Only if the list changes does it look for the parameter that changed it.
func (p *Probe) Run(ctx context.Context) error {
	silent := p.First.Rule != "" && len(p.First.Signals.Doubts(int64(p.First.N))) == 0
	if silent {
		done, err := p.sweep(ctx)
		if done && err == nil && Round(p.First.N) {
			return p.tryShrink(ctx)
		}
		if done || err != nil {
			return err
		}
		if err := p.lowerSize(ctx); err != nil {
			return err
		}
		if hint := p.progress.Hint; hint.Type == "none" && p.progress.Settled && p.server.refuses && !Round(p.First.N) {
			p.reacted = false
			return p.decideUnpaged(ctx) // everything was tried when the convention was learned
		}
	}
	if done, err := p.tryGroups(ctx, silent); done || err != nil {
		return err
	}
	if (p.Broken != Position{}) {
		return nil // the pass may isolate the broken record
	}
	if !silent {
		return p.Unexplained("the list announces more than its first page (" + p.First.Signals.describe() + ")")
	}
	if err := p.decideUnpaged(ctx); err != nil || !p.Whole || !p.Unproved {
		return err
	}
	return p.tryShrink(ctx)
}

func (p *Probe) tryShrink(ctx context.Context) error {
	found, err := p.shrink(ctx)
	if found {
		p.Whole, p.Unproved, p.Shrank = false, false, true
	}
	return err
}

// tryGroups tries the groups of candidates. Once the server refuses requests with several parameters, the groups are
// different, so tryGroups starts again.
func (p *Probe) tryGroups(ctx context.Context, silent bool) (done bool, err error) {
	for {
		refuses := p.server.refuses
		for _, g := range p.groups() {
			if p.list.Requests() > p.most(silent) {
				p.noteTried("the other parameters", "not tried, limit of probes reached")
				return false, nil
			}
			if done, err := p.group(ctx, g, silent); done || err != nil {
				return done, err
			}
			if p.server.refuses != refuses {
				break
			}
		}
		if p.server.refuses == refuses {
			return false, nil
		}
	}
}

// Compare also sets p.renamed if the keys are equal but the content differs: then the key may be wrong.
func (p *Probe) Compare(st *Page) Likeness {
	p.Renamed = p.Renamed || Renamed(p.First.Hashes, st.Hashes)
	return Compare(p.First.Hashes, st.Hashes)
}

// Again reads the first page again. If it has moved on, it replaces the first page.
func (p *Probe) Again(ctx context.Context) (moved bool, err error) {
	fresh, err := p.list.Look(ctx, Position{})
	if err != nil {
		return false, err
	}
	p.lastContent = Sum(fresh.Content)
	if Compare(p.First.Hashes, fresh.Hashes) == SameRecords {
		p.list.Release(fresh)
		return false, nil
	}
	if total := fresh.Signals.Total; p.First.Total >= 0 {
		p.First.Total, p.First.Signals.Total, p.progress.Total = total, total, total
	}
	p.progress.Rows += int64(fresh.N - p.First.N)
	p.list.Release(p.First)
	p.First.Answer, p.First.Doc, p.First.Hashes = fresh.Answer, fresh.Doc, fresh.Hashes
	return true, nil
}
