package extract

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

// endpointTraits is what is known about an endpoint. The lists of all parents of a child stream share it.
type endpointTraits struct {
	layout    records.Found       // only pointer and form are set
	whole     int                 // length of the longest list for which probes found no further page; 0 for none
	paging    *schemas.Pagination // what probes have found out about paging; nil if nothing yet
	announces bool                // the list says when it has more pages

	isolating int // requests spent on finding broken records
}

// listClient requests positions of one list, and finds the records and signals in the answers.
type listClient struct {
	c      *Client
	s      schemas.Stream
	params []bound
	traits *endpointTraits
	asm    assembler

	volatility *volatility     // nil in a pass, which needs no negotiation
	others     *otherLists     // set if a negotiation chooses between several lists; otherwise nil
	constant   map[string]bool // texts of the first page with unknown meaning, by pointer and value

	budget   int // maximum number of requests for probes; 0 for no limit
	requests int // requests since the last step
	bytes    int64
}

// listReader follows a list from page to page.
type listReader struct {
	listClient
	pager paging.Progress

	stepwise      bool
	pages         int
	firstTotal    int64
	lastTotal     int64
	visited       map[uint64]bool // cursors
	lastID        string          // id of the last record, by which the next page may be requested
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
	shorter       []shortPage // pages after the last full one
	shortRereads  int         // short pages that were requested again
	capped        bool        // the server refused the page after a full one: either the list has ended, or the server limits the number of pages
	unproved      bool        // some parameters could not be tried, and all others returned the same records
	counts        bool        // the totals of the list count only the records of a page
	incomplete    []string

	repeated repetition
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
		visited: make(map[uint64]bool), repeated: repetition{seen: make(map[uint64]bool)},
		drift: drift{total: -1},
	}
}

// stated reports whether the user configured how the list is paged. Then penstock tries no other paging.
func stated(s schemas.Stream) bool {
	p := s.Pagination
	return s.Stated["pagination"] == string(Configured) && (p.Page != "" || p.Type == "none" || p.Type == "page" || p.Type == "link")
}

type step struct {
	at    paging.Position
	batch batch
	total int64
	paging.Continuation
	signals   paging.Signals
	reread    bool
	note      string
	bare      bool // the answer has no array of records: the array is null or missing
	afterLast bool // page N of N pages; it may not exist, because pages are numbered from 0
	gaps      []Gap
	file      *File

	a *answer
}

// walk yields the pages of a list. Each step is valid until the next one is requested. If first is not nil, it is the
// answer for the position at.
func (l *listReader) walk(ctx context.Context, at paging.Position, first *answer) iter.Seq2[*step, error] {
	return func(yield func(*step, error) bool) {
		q := &ahead[paging.Position]{c: l.c, fetch: func(ctx context.Context, p paging.Position) (*answer, error) {
			return l.c.fetch(ctx, l.s, l.params, p)
		}}
		defer q.stop()
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
				q.fill(ctx, st.Next, l.following)
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

func (l *listReader) following(at paging.Position) (paging.Position, bool) {
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
	l.volatility.observe(&l.listClient, a.d, f)
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
		s.Unread = slices.DeleteFunc(s.Unread, func(u paging.Unread) bool { return u.Number < 0 }) // the list says that it ends here
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

func (l *listClient) adoptToken(s *paging.Signals, at paging.Position, constant map[string]bool) {
	if t := l.s.Pagination.Type; t == "" || t == "cursor" {
		s.AdoptToken(at, constant)
	}
}

// counting reports whether the total is only the number of records on each page. Then the totals of all pages are
// ignored.
func (l *listReader) counting(total int64, n int) bool {
	if l.pages > 0 && total == int64(n) && l.pager.Rows > 0 && l.firstTotal <= l.pager.Rows {
		l.firstTotal, l.lastTotal, l.counts = -1, -1, true
	}
	return l.counts
}

// single reports whether the answer is one object, not a list. It may be the only record of a list, without an array.
// It may also be an empty array that means that there is no such object: see absentObject.
func (l *listReader) single(f records.Found, st *step, s paging.Signals) bool {
	if l.pages > 0 {
		return false
	}
	if f.Form == records.FormOne {
		return l.s.Class.Single() || s.More != paging.Yes && s.Token == "" && s.Next == nil && s.LastPage <= 1 && s.Total <= 1
	}
	return st.batch.N == 0 && absentObject(l.s.Class)
}

// maxIDBytes limits a record's id that a request for the next page holds. The id is a part of the URL. Probes may
// send it under many names in one request.
const maxIDBytes = 1024

func (l *listClient) idOf(d *jsondoc.Doc, record jsondoc.Value) string {
	var id jsondoc.Value
	switch field := l.s.Pagination.Field; {
	case field != "":
		id = records.MemberAt(d, record, field)
	case len(l.asm.stream.Key) == 1:
		id = l.asm.member(d, record, 0)
	}
	if !id.OK() || id.Nested() {
		id = d.Get(record, "id")
	}
	if !id.OK() || id.Nested() || id.End-id.Start > maxIDBytes || string(d.Raw(id)) == "null" {
		return ""
	}
	return bound{value: d.Raw(id)}.text()
}

// changed wraps an error with [ErrShape] if an earlier run has found out how to read the endpoint. ErrShape leads to
// another negotiation.
func (l *listClient) changed(err error) error {
	if !l.s.RecordsKnown || errors.Is(err, ErrShape) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrShape, err)
}

func absentObject(c schemas.Class) bool { return c.Single() && c != schemas.ClassReport }

// checkPageNumber compares the requested page number with the page number in the answer. After the end, some servers
// return another page. A number that is the same on every page says nothing: guard recognizes repeated pages.
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
		l.clampedTo = s.Page // after its end the list returns its last page again, and says so
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
