package extract

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

// listReader follows a list from page to page.
type listReader struct {
	listClient
	pager paging.Progress

	stepwise      bool
	pages         int
	firstTotal    int64
	lastTotal     int64
	visited       map[uint64]bool // hashes of the cursors that the list has returned
	lastID        string          // id of the last record; some lists need it in the request for the next page
	lastN         int
	lastKey       uint64
	lastPrint     uint64
	firstPrint    uint64
	firstN        int             // records of the first page; 0 if some of them could not be read
	echoed        int64           // page number that the first page reported; -1 for none
	clampedTo     int64           // number of the last page, if the server returned it again for the next number; otherwise -1
	misplaced     int64           // page number reported by a later page that repeats the first page; -1 for none
	beyondEnd     paging.Position // a position after the end of the list; zero if none is known
	buf           []byte
	lastSignals   paging.Signals
	signalsBefore paging.Signals
	promised      bool
	shorter       []shortPage // pages after the last full page
	shortRereads  int         // short pages that were requested again
	capped        bool        // the server refused the page after a full page: either the list has ended, or the server limits the number of pages
	unproved      bool        // some parameters could not be tried, and all other parameters returned the same records
	counts        bool        // the totals of the list count only the records of a page
	incomplete    []string

	segments *segmented // nil if the pages are read one after another
	repeated paging.Repetition
	drift    drift
	ends     ends
	gaps     gaps
}

func (c *Client) newListReader(s schemas.Stream, params []bound, h *endpointTraits) *listReader {
	if h.paging != nil {
		s.Pagination, s.RecordsKnown = *h.paging, true
	}
	return &listReader{
		listClient: listClient{c: c, s: s, params: params, traits: h, asm: assembler{stream: s, params: contextMembers(s, params), seed: c.seed}},
		pager:      paging.Progress{Stated: stated(s), Hint: s.Pagination, Settled: s.RecordsKnown && s.Pagination.Type != "", Announces: h.announces, Cautious: s.Parent != "", Total: -1},
		firstTotal: -1, lastTotal: -1, clampedTo: -1, echoed: -1, misplaced: -1, lastSignals: paging.NoSignals,
		visited: make(map[uint64]bool),
		drift:   drift{total: -1},
	}
}

// stated() reports whether the user configured how the list is paged. Then penstock tries no other paging.
func stated(s schemas.Stream) bool {
	p := s.Pagination
	return s.Stated["pagination"] == string(Configured) && (p.Page != "" || p.Type == "none" || p.Type == "page" || p.Type == "link")
}

func (l *listReader) read(st *step) error {
	a := st.a
	l.requests += a.requests
	l.bytes += a.bytes
	f, err := l.locate(a.d)
	if err != nil {
		return malformed(l.s, a.at, err)
	}
	st.bare = len(f.Places) == 0
	if err := l.records(st, f); err != nil {
		return err
	}
	l.volatility.observe(&l.asm, a.d, f)
	st.total, st.file = -1, a.kept
	s := a.signals(f, st.batch.N)
	if a.d.Err() != nil {
		return malformed(l.s, a.at, a.d.Err())
	}
	if l.single(f, st, s) {
		st.Rule = RuleSingle
		return nil
	}
	if err := l.checkPageNumber(st, &s); err != nil {
		return malformed(l.s, a.at, err)
	}
	if id := l.idOf(a.d, st.batch.Last); id != "" {
		l.lastID = id
	}
	if s.Total >= 0 && l.counting(s.Total, st.batch.N) {
		s.Total = -1
	}
	l.incomplete = someOf(l.incomplete, s.Incomplete)
	if st.at.Kind == paging.KindNone {
		l.constant = map[string]bool{}
		for _, u := range s.Unread {
			l.constant[u.Pointer+u.Value] = true
		}
		l.adoptToken(&s, st.at, nil)
	} else {
		l.adoptToken(&s, st.at, l.constant)
	}
	if s.More == paging.No && l.promised {
		s.Unread = slices.DeleteFunc(s.Unread, func(u paging.Unread) bool { return u.Number < 0 }) // this page says that the list ends here
	}
	l.promised = l.promised || s.More == paging.Yes
	l.signalsBefore = l.lastSignals
	st.signals, st.total, l.lastSignals = s, s.Total, s
	st.Continuation, err = l.pager.Decide(a.at, st.batch.N, l.lastID, s)
	if err != nil {
		return malformed(l.s, a.at, l.changed(err))
	}
	return nil
}

func (l *listReader) assemble(st *step) error {
	f, err := l.locate(st.a.d)
	if err != nil {
		return malformed(l.s, st.a.at, err)
	}
	return l.records(st, f)
}

// records adds the records to the step. A negotiation only compares records, so it keeps their hashes only.
func (l *listReader) records(st *step, f records.Found) error {
	st.batch = batch{records: l.buf[:0], keysOnly: l.volatility != nil}
	if err := l.asm.assemble(st.a.d, f, &st.batch); err != nil {
		return malformed(l.s, st.a.at, err)
	}
	if !st.batch.whole {
		l.buf = st.batch.records
	}
	return nil
}

// counting() reports whether the total of each page counts only the records of that page. Then the totals of all pages
// are ignored.
func (l *listReader) counting(total int64, n int) bool {
	if l.pages > 0 && total == int64(n) && l.pager.Rows > 0 && l.firstTotal <= l.pager.Rows {
		l.firstTotal, l.lastTotal, l.counts = -1, -1, true
	}
	return l.counts
}

// single() reports whether the answer is one object, not a list. Some servers send the only record of a list as an
// object, without an array. An empty array may mean that there is no such object: see absentObject.
func (l *listReader) single(f records.Found, st *step, s paging.Signals) bool {
	if l.pages > 0 {
		return false
	}
	if f.Form == records.FormOne {
		return l.s.Class.Single() || s.More != paging.Yes && s.Token == "" && s.Next == nil && s.LastPage <= 1 && s.Total <= 1
	}
	return st.batch.N == 0 && absentObject(l.s.Class)
}

func absentObject(c schemas.Class) bool { return c.Single() && c != schemas.ClassReport }

// checkPageNumber compares the requested page number with the page number in the answer. After the end, some servers
// return another page. If the answers to all pages have the same number, the number shows nothing, and guard()
// recognizes repeated pages.
func (l *listReader) checkPageNumber(st *step, s *paging.Signals) error {
	l.misplaced = -1
	if st.at.Kind == paging.KindNone {
		l.echoed = s.Page
	}
	if st.at.Kind != paging.KindPage || s.Page < 0 || s.Page == st.at.Number() {
		return nil
	}
	if st.batch.N == 0 {
		if l.pages == 1 && s.Page == l.echoed && !l.pager.Stated && (l.lastSignals.AnnouncesMore() || l.lastSignals.LastPage > 1) {
			return l.changed(fmt.Errorf("requested page %s, got page %d without records, and nothing shows that the list uses %s", st.at.At, s.Page, st.at.Param))
		}
		return nil
	}
	if l.clampedTo = -1; s.Page == st.at.Number()-1 && paging.Sum(st.batch.Keys) == l.lastPrint && l.pager.Settled && l.pager.Last < st.at.Number() {
		l.clampedTo = s.Page // after its end the list returns its last page again, with the number of that page
		return nil
	}
	if s.Page == l.echoed {
		if paging.Sum(st.batch.Keys) == l.firstPrint {
			if l.pages < 2 {
				return l.changed(fmt.Errorf("requested page %s, got page %d", st.at.At, s.Page))
			}
			l.misplaced = s.Page // the requested page may be after the end
		}
		s.Page = -1
		return nil
	}
	return l.changed(fmt.Errorf("requested page %s, got page %d", st.at.At, s.Page))
}

// outsized() reports whether the first page is shorter than requested, although there may be more pages. Some servers
// limit the page size, but calculate the positions of pages with the requested size. Then records are missing.
func (l *listReader) outsized(st *step) bool {
	n, p := st.batch.N, l.s.Pagination
	if st.at.Kind != paging.KindNone || p.Size == "" || n == 0 || n >= p.Limit || st.signals.Limit == int64(n) {
		return false
	}
	if st.Rule == RuleLastPage || st.Rule == RuleNoNext && st.signals.More == paging.No {
		return paging.Round(n) && st.signals.Total < 0
	}
	return st.Rule == "" && st.Next.Kind == paging.KindPage
}

func (l *listReader) resize(ctx context.Context, q *ahead[paging.Position], st *step) error {
	q.reset()
	l.s.Pagination.Limit = st.batch.N
	fresh, err := l.first(ctx, st)
	if err != nil {
		return err
	}
	*st = *fresh
	return nil
}

func (l *listReader) first(ctx context.Context, st *step) (*step, error) {
	a, err := l.c.fetch(ctx, l.s, l.params, paging.Position{})
	if err != nil {
		l.requests += requestsOf(err)
		return nil, err
	}
	l.c.release(st.a)
	st.a = nil
	fresh := &step{a: a}
	l.pager.Rows, l.pager.Step, l.pager.EmptyPages = 0, 0, 0
	if err := l.read(fresh); err != nil {
		l.c.release(a)
		return nil, err
	}
	fresh.note = st.note
	return fresh, nil
}

type ends struct {
	at    paging.Position
	print uint64
}

type gaps struct {
	all  []Gap
	tail string
	open bool // no record after the last gap has been read yet

	pages int
}

func (g *gaps) close(key string) {
	if g.open {
		g.all[len(g.all)-1].Before, g.open = key, false
	}
}

type shortPage struct {
	ends
	n    int
	bare bool // the list in the answer was null or missing
}
