package extract

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/penstock-data/penstock/schemas"
)

// endpointTraits are what an endpoint has shown of itself. The lists of a fan-out's
// parents share them, so that each is learned once.
type endpointTraits struct {
	layout found               // pointer and form only
	whole  int                 // the longest list that ignored page numbers, as a probe has shown; 0 for none
	paging *schemas.Pagination // what probes have shown of its pages; nil for nothing yet
	loud   bool                // of a list that says that it has some

	isolating int // requests spent on finding broken records
}

// listReader is one reading of one list from a position to its end.
type listReader struct {
	c      *Client
	s      schemas.Stream
	params []bound
	habits *endpointTraits
	asm    assembler
	pager  pager

	volatility *volatility // of a negotiation; nil for a pass
	others     *otherLists // of a negotiation that chooses between lists; nil for none

	stepwise   bool // it may end at any page
	pages      int
	firstTotal int64
	lastTotal  int64
	seen       map[uint64]bool // fingerprints of pages, to know one that comes again
	visited    map[uint64]bool // hashes of cursors
	before     []uint64        // keys of the page before, sorted
	lastID     string          // of the last record: a list may go on after it
	lastN      int             // records of the page before
	echoed     int64           // number that the first page gave itself; -1 for none
	clampedTo  int64           // number of the last page, which came in the place of the one after it; -1 for none
	firstPrint uint64          // fingerprint of the first page's records
	twins      bool            // a page held two records that are the same in all their members
	firstKeys  []uint64        // of its records, sorted, where they have no key: hashes of their content
	lastPrint  uint64          // of the page before
	lastKey    uint64          // of its last record
	behind     position        // was shown to lie behind the end; the zero value for none
	misplaced  int64           // number that a later page gave itself, which is the first one again; -1 for none
	buf        []byte          // of assembled records

	said       signals         // what the last page says
	promised   bool            // a page has said that there are more
	saidBefore signals         // and the one before it
	shorter    []shortPage     // the pages behind the last full one
	firstN     int             // records of the first page; 0 where some of them could not be read
	askedAgain int             // short pages that were requested again
	capped     bool            // the page behind a full one is refused: the end, or as deep as the server goes
	unproved   bool            // no parameter brings others, but not all of them could be tried
	incomplete []string        // what pages have said of their own completeness; the first few
	constant   map[string]bool // unread texts of the first page, by pointer and value

	counts   bool // its totals are those of its pages
	budget   int  // of requests, for probes; 0 for none
	requests int  // since the last step
	bytes    int64

	drift drift
	ends  ends
	gaps  gaps
}

func (c *Client) newListReader(s schemas.Stream, params []bound, h *endpointTraits) *listReader {
	if h.paging != nil {
		s.Pagination, s.Settled = *h.paging, true
	}
	return &listReader{
		c: c, s: s, params: params, habits: h,
		asm:        assembler{stream: s, params: contextMembers(s, params), seed: c.seed},
		pager:      pager{stated: stated(s), hint: s.Pagination, settled: s.Settled && s.Pagination.Type != "", loud: h.loud, wary: s.Parent != "", total: -1},
		firstTotal: -1, lastTotal: -1, clampedTo: -1, echoed: -1, misplaced: -1, said: noSignals,
		seen: make(map[uint64]bool), visited: make(map[uint64]bool),
		drift: drift{total: -1},
	}
}

// stated reports whether the user says how a list goes on: nothing else is tried
// then.
func stated(s schemas.Stream) bool {
	p := s.Pagination
	return s.Stated["pagination"] == string(Configured) && (p.Page != "" || p.Type == "none" || p.Type == "page" || p.Type == "link")
}

// step is one page of a listing.
type step struct {
	at    position
	batch batch
	total int64
	turn
	signals signals
	reread  bool
	note    string
	bare    bool  // there is no list in the answer: null, or no member for it
	spare   bool  // the page whose number is that of the pages of a list that counts from 0
	gaps    []Gap // of this page
	file    *File // that its record is about

	a *answer
}

// walk reads the list page by page from at on. A step is valid until the next
// is asked for. first, if not nil, is the answer to at.
func (l *listReader) walk(ctx context.Context, at position, first *answer) iter.Seq2[*step, error] {
	return func(yield func(*step, error) bool) {
		q := &ahead[position]{c: l.c, fetch: func(ctx context.Context, p position) (*answer, error) {
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
			if st.rule == "" {
				q.fill(ctx, st.next, l.following)
			}
			more := yield(st, nil)
			l.c.release(st.a)
			if !more || st.rule != "" {
				return
			}
			at = st.next
		}
	}
}

// following is the position after at that is worth fetching along with it. A
// reading that may end at any page goes one step at a time.
func (l *listReader) following(at position) (position, bool) {
	if l.stepwise {
		return position{}, false
	}
	return l.pager.following(at)
}

// step takes the answer to at and decides what comes after it.
func (l *listReader) step(ctx context.Context, q *ahead[position], at position) (*step, error) {
	a, err := q.take(ctx, at)
	if err != nil {
		ended, over := l.past(ctx, at, err)
		if over {
			return ended, nil
		}
		return l.recover(ctx, at, err)
	}
	st := &step{at: at, a: a}
	if err = l.read(st); err == nil && st.open {
		err = l.findPaging(ctx, q, st)
	}
	if err == nil && l.outsized(st) {
		err = l.resize(ctx, q, st)
	}
	if err == nil {
		err = l.confirm(ctx, st)
	}
	if err == nil {
		err = l.clamps(ctx, st)
	}
	if err == nil {
		err = l.beyond(ctx, st)
	}
	if err == nil {
		err = l.checkConstantToken(ctx, st)
	}
	if err == nil {
		err = l.renamedPage(ctx, st)
	}
	if err == nil {
		err = l.guard(st)
	}
	if err == nil {
		err = l.askAgain(ctx, st)
	}
	if err != nil {
		l.c.release(st.a)
		return nil, err
	}
	return st, nil
}

// read finds the records of an answer and what it says about the next.
func (l *listReader) read(st *step) error {
	a := st.a
	l.requests += a.requests
	l.bytes += a.bytes
	f, err := l.locate(a.d)
	if err != nil {
		return malformed(l.s, a.at, err)
	}
	st.bare = len(f.places) == 0
	st.batch.records = l.buf[:0]
	if err := l.asm.assemble(a.d, f, &st.batch); err != nil {
		return malformed(l.s, a.at, err)
	}
	if !st.batch.whole {
		l.buf = st.batch.records
	}
	l.volatility.observe(l, a.d, f)
	st.total, st.file = -1, a.kept
	s := signalsOf(a, f, st.batch.n)
	if a.d.err != nil {
		return malformed(l.s, a.at, a.d.err)
	}
	if l.single(f, st, s) {
		st.rule = RuleSingle
		return nil
	}
	if err := l.echo(st, &s); err != nil {
		return malformed(l.s, a.at, err)
	}
	if id := l.idOf(a.d, st.batch.last); id != "" {
		l.lastID = id
	}
	if s.total >= 0 && l.counting(s.total, st.batch.n) {
		s.total = -1
	}
	l.incomplete = someOf(l.incomplete, s.incomplete)
	if st.at.kind == pagerNone {
		l.constant = map[string]bool{}
		for _, u := range s.unread {
			l.constant[u.pointer+u.value] = true
		}
		l.distant(&s, st.at, nil)
	} else {
		l.distant(&s, st.at, l.constant)
	}
	if s.more == no && l.promised {
		s.unread = slices.DeleteFunc(s.unread, func(u unread) bool { return u.number < 0 }) // the list ends by its own account
	}
	l.promised = l.promised || s.more == yes
	l.saidBefore = l.said
	st.signals, st.total, l.said = s, s.total, s
	st.turn, err = l.pager.turn(a.at, st.batch.n, l.lastID, s)
	if err != nil {
		return malformed(l.s, a.at, l.changed(err))
	}
	return nil
}

// distant takes a text that nothing explains for the token of the next page, where the
// list may go on by tokens.
func (l *listReader) distant(s *signals, at position, constant map[string]bool) {
	if l.pager.hint.Type == "" || l.pager.hint.Type == "cursor" {
		s.distant(at, constant)
	}
}

// maxStatements is how many statements of incompleteness, and how many unexplained
// signals, are kept of one pass.
const maxStatements = 5

// counting reports whether what the list calls its total is the number of records
// on each page: then it says nothing, and what it said before does not either.
func (l *listReader) counting(total int64, n int) bool {
	if l.pages > 0 && total == int64(n) && l.pager.rows > 0 && l.firstTotal <= l.pager.rows {
		l.firstTotal, l.lastTotal, l.counts = -1, -1, true
	}
	return l.counts
}

// single reports whether the answer is the one object there is: what a list has
// become that collapses when it holds but one record says nothing of more.
func (l *listReader) single(f found, st *step, s signals) bool {
	if l.pages > 0 {
		return false
	}
	if f.form == formOne {
		return singleClass(l.s.Class) || s.more != yes && s.token == "" && s.next == nil && s.lastPage <= 1 && s.total <= 1
	}
	return st.batch.n == 0 && absentObject(l.s.Class)
}

// maxIDBytes is the longest id that a list may go on after: it goes into a URL, under many
// names while the parameter is looked for.
const maxIDBytes = 1024

// idOf is what a list may call the record by that it goes on after.
func (l *listReader) idOf(d *doc, record value) string {
	var id value
	switch field := l.s.Pagination.Field; {
	case field != "":
		id = d.memberAt(record, field)
	case len(l.asm.stream.Key) == 1:
		id = l.asm.member(d, record, 0)
	}
	if !id.ok() || id.node >= 0 {
		id = d.get(record, "id")
	}
	if !id.ok() || id.node >= 0 || id.end-id.start > maxIDBytes || string(d.raw(id)) == "null" {
		return ""
	}
	return bound{value: d.raw(id)}.text()
}

// changed marks an error that shows a settled endpoint not to be what it was.
func (l *listReader) changed(err error) error {
	if !l.s.Settled || errors.Is(err, ErrShape) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrShape, err)
}

// absentObject reports whether an empty answer of this class says that there is
// no such object: some modules write [] for it.
func absentObject(c schemas.Class) bool { return singleClass(c) && c != schemas.ClassReport }

// echo checks the page number that came back against the one asked for: a
// server that clamps it would give one page for another. A number that is the same
// on every page says nothing: guard sees a page that comes again.
func (l *listReader) echo(st *step, s *signals) error {
	l.misplaced = -1
	if st.at.kind == pagerNone {
		l.echoed = s.page
	}
	if st.at.kind != pagerPage || s.page < 0 || s.page == st.at.number() {
		return nil
	}
	if st.batch.n == 0 {
		if l.pages == 1 && s.page == l.echoed && !l.pager.stated && (l.said.goesOn() || l.said.lastPage > 1) {
			return l.changed(fmt.Errorf("asked for page %s, got page %d without records, and nothing shows that the list knows %s", st.at.at, s.page, st.at.param))
		}
		return nil
	}
	if l.clampedTo = -1; s.page == st.at.number()-1 && sum(st.batch.keys) == l.lastPrint && l.pager.settled && l.pager.last < st.at.number() {
		l.clampedTo = s.page // beyond its end the list gives its last page again, and says so
		return nil
	}
	if s.page == l.echoed {
		if sum(st.batch.keys) == l.firstPrint {
			if l.pages < 2 {
				return l.changed(fmt.Errorf("asked for page %s, got page %d", st.at.at, s.page))
			}
			l.misplaced = s.page // it may lie behind the end
		}
		s.page = -1
		return nil
	}
	return l.changed(fmt.Errorf("asked for page %s, got page %d", st.at.at, s.page))
}
