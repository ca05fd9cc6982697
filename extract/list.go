package extract

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"net/http"
	"slices"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// habits are what an endpoint has shown of itself. The lists of a fan-out's
// parents share them, so that each is learned once.
type habits struct {
	layout found               // pointer and form only
	whole  bool                // it ignores page numbers: a probe has shown it
	paging *schemas.Pagination // what probes have shown of its pages; nil for nothing yet
	loud   bool                // of a list that says that it has some

	isolating int // requests spent on finding broken records
}

// listing is one reading of one list from a position to its end.
type listing struct {
	c      *Client
	s      schemas.Stream
	params []bound
	habits *habits
	asm    assembler
	pager  pager

	stepwise   bool // it may end at any page
	pages      int
	firstTotal int64
	lastTotal  int64
	seen       map[uint64]bool // fingerprints of pages, to know one that comes again
	visited    map[uint64]bool // hashes of cursors
	before     map[uint64]bool // keys of the page before
	now        map[uint64]bool // of this one
	lastID     string          // of the last record: a list may go on after it
	lastN      int             // records of the page before
	buf        []byte          // of assembled records

	counts   bool // its totals are those of its pages
	budget   int  // of requests, for probes; 0 for none
	requests int  // since the last step
	bytes    int64

	drift drift
	gaps  gaps
}

func (c *Client) newListing(s schemas.Stream, params []bound, h *habits) *listing {
	if h.paging != nil {
		s.Pagination, s.Settled = *h.paging, true
	}
	return &listing{
		c: c, s: s, params: params, habits: h,
		asm:        assembler{stream: s, params: contextMembers(params), seed: c.seed},
		pager:      pager{hint: s.Pagination, settled: s.Settled && s.Pagination.Type != "", loud: h.loud, wary: s.Parent != "", total: -1},
		firstTotal: -1, lastTotal: -1,
		seen: make(map[uint64]bool), visited: make(map[uint64]bool),
		before: make(map[uint64]bool), now: make(map[uint64]bool),
		drift: drift{total: -1},
	}
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
	gaps    []Gap // of this page

	a *answer
}

// walk reads the list page by page from at on. A step is valid until the next
// is asked for. first, if not nil, is the answer to at.
func (l *listing) walk(ctx context.Context, at position, first *answer) iter.Seq2[*step, error] {
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
func (l *listing) following(at position) (position, bool) {
	if l.stepwise {
		return position{}, false
	}
	return l.pager.following(at)
}

// step takes the answer to at and decides what comes after it.
func (l *listing) step(ctx context.Context, q *ahead[position], at position) (*step, error) {
	a, err := q.take(ctx, at)
	if err != nil {
		return l.isolate(ctx, at, err)
	}
	st := &step{at: at, a: a}
	if err = l.read(st); err == nil && st.open {
		err = l.settle(ctx, q, st)
	}
	if err == nil && l.outsized(st) {
		err = l.resize(ctx, q, st)
	}
	if err == nil {
		err = l.guard(st)
	}
	if err != nil {
		l.c.release(st.a)
		return nil, err
	}
	return st, nil
}

// read finds the records of an answer and what it says about the next.
func (l *listing) read(st *step) error {
	a := st.a
	l.requests += a.requests
	l.bytes += a.bytes
	f, err := l.locate(a.d)
	if err != nil {
		return malformed(l.s, a.at, err)
	}
	st.batch.records = l.buf[:0]
	if err := l.asm.assemble(a.d, f, &st.batch); err != nil {
		return malformed(l.s, a.at, err)
	}
	if !st.batch.whole {
		l.buf = st.batch.records
	}
	st.total = -1
	s := signalsOf(a.d, f, st.batch.n, a.resp.Header)
	if a.d.err != nil {
		return malformed(l.s, a.at, a.d.err)
	}
	if l.single(f, st, s) {
		st.rule = RuleSingle
		return nil
	}
	if err := l.echo(st, s); err != nil {
		return malformed(l.s, a.at, err)
	}
	if id := l.idOf(a.d, st.batch.last); id != "" {
		l.lastID = id
	}
	if s.total >= 0 && l.counting(s.total, st.batch.n) {
		s.total = -1
	}
	st.signals, st.total = s, s.total
	st.turn, err = l.pager.turn(a.at, st.batch.n, l.lastID, s)
	if err != nil {
		return malformed(l.s, a.at, l.changed(err))
	}
	return nil
}

// counting reports whether what the list calls its total is the number of records
// on each page: then it says nothing, and what it said before does not either.
func (l *listing) counting(total int64, n int) bool {
	if l.pages > 0 && total == int64(n) && l.pager.rows > 0 && l.firstTotal <= l.pager.rows {
		l.firstTotal, l.lastTotal, l.counts = -1, -1, true
	}
	return l.counts
}

// single reports whether the answer is the one object there is: what a list has
// become that collapses when it holds but one record says nothing of more.
func (l *listing) single(f found, st *step, s signals) bool {
	if l.pages > 0 {
		return false
	}
	if f.form == formOne {
		return singleClass(l.s.Class) || s.more != yes && s.token == "" && s.next == nil && s.lastPage <= 1 && s.total <= 1
	}
	return st.batch.n == 0 && absentObject(l.s.Class)
}

// idOf is what a list may call the record by that it goes on after.
func (l *listing) idOf(d *doc, record value) string {
	names := []string{"id"}
	if len(l.s.Key) == 1 {
		names = []string{l.s.Key[0], "id"}
	}
	for _, name := range names {
		if id := d.get(record, name); id.ok() && id.node < 0 {
			return bound{value: d.raw(id)}.text()
		}
	}
	return ""
}

// changed marks an error that shows a settled endpoint not to be what it was.
func (l *listing) changed(err error) error {
	if !l.s.Settled || errors.Is(err, ErrShape) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrShape, err)
}

// look reads an answer of the list without letting it count as a page.
func (l *listing) look(ctx context.Context, at position) (*step, error) {
	if err := l.spend(); err != nil {
		return nil, err
	}
	var tries []int
	if at.extra != "" {
		tries = []int{1} // what it adds may be the fault
	}
	a, err := l.c.fetch(ctx, l.s, l.params, at, tries...)
	if err != nil {
		l.requests += requestsOf(err)
		return nil, err
	}
	l.requests += a.requests
	l.bytes += a.bytes
	st := &step{at: at, a: a, total: -1}
	f, err := l.locate(a.d)
	if err == nil {
		err = l.asm.assemble(a.d, f, &st.batch)
	}
	if err == nil {
		st.signals = signalsOf(a.d, f, st.batch.n, a.resp.Header)
		err = a.d.err
	}
	if err != nil {
		l.c.release(a)
		return nil, malformed(l.s, at, err)
	}
	return st, nil
}

// absentObject reports whether an empty answer of this class says that there is
// no such object: some modules write [] for it.
func absentObject(c schemas.Class) bool { return singleClass(c) && c != schemas.ClassReport }

// locate finds the records where they were on the page before, or anywhere on
// the first. Whatever the first pages leave open, being empty, later ones may
// settle; what is settled stays. A change is an error, never an end.
func (l *listing) locate(d *doc) (found, error) {
	if l.habits.layout.form != formNone {
		f, err := again(d, l.s, l.habits.layout)
		if err != nil {
			err = l.changed(err)
		}
		return f, err
	}
	f, err := find(d, l.s)
	switch {
	case err != nil:
		return f, l.changed(err)
	case f.form == formNone:
		return f, nil
	case l.s.Settled && len(l.s.Records) > 0 && f.pointer != l.s.Records[0] && !empty(d, f):
		return f, fmt.Errorf("%w: the records were at %q, now they are at %q", ErrShape, l.s.Records[0], f.pointer)
	}
	l.habits.layout = found{pointer: f.pointer, form: f.form}
	return f, nil
}

// empty reports whether there are no records where they were found.
func empty(d *doc, f found) bool {
	return !slices.ContainsFunc(f.places, func(p place) bool { return !d.void(p.value) })
}

// echo checks the page number that came back against the one asked for: a
// server that ignores or clamps it would give one page for another.
func (l *listing) echo(st *step, s signals) error {
	if st.at.kind == pagerPage && st.batch.n > 0 && s.page >= 0 && s.page != st.at.number() {
		return l.changed(fmt.Errorf("asked for page %s, got page %d", st.at.at, s.page))
	}
	return nil
}

// outsized reports whether the first of several numbered pages is shorter than
// it was asked to be, for all that it says. A server that cuts pages shorter than
// it counts them would leave out what lies between them, or take its first page
// for the last.
func (l *listing) outsized(st *step) bool {
	n, p := st.batch.n, l.s.Pagination
	if st.at.kind != pagerNone || p.Size == "" || n == 0 || n >= p.Limit || st.signals.limit == int64(n) {
		return false
	}
	if st.rule == RuleLastPage || st.rule == RuleNoNext && st.signals.more == no {
		return round(n) && st.signals.total < 0
	}
	return st.rule == "" && st.next.kind == pagerPage
}

// resize reads the first page anew in the size in which it came.
func (l *listing) resize(ctx context.Context, q *ahead[position], st *step) error {
	q.reset()
	l.s.Pagination.Limit = st.batch.n
	fresh, err := l.first(ctx, st)
	if err != nil {
		return err
	}
	*st = *fresh
	return nil
}

// first reads the first page again, in the place of st.
func (l *listing) first(ctx context.Context, st *step) (*step, error) {
	a, err := l.c.fetch(ctx, l.s, l.params, position{})
	if err != nil {
		l.requests += requestsOf(err)
		return nil, err
	}
	l.c.release(st.a)
	st.a = nil
	fresh := &step{a: a}
	l.pager.rows, l.pager.step, l.pager.barren = 0, 0, 0
	if err := l.read(fresh); err != nil {
		l.c.release(a)
		return nil, err
	}
	fresh.note = st.note
	return fresh, nil
}

// guard accounts for a page and stops a list that goes round in circles. Of a
// list which numbers its pages and says how many there are, pages may repeat:
// it ends all the same, and what came twice is seen by whoever counts keys.
// Invariants 14, 15
func (l *listing) guard(st *step) error {
	l.pages++
	if l.pages == 1 {
		l.firstTotal = st.total
	}
	l.lastTotal = st.total
	l.drift.see(st)
	l.follow(st)
	if l.pages == 1 && st.rule != "" {
		return nil
	}
	bounded := st.at.kind == pagerPage && l.pager.last > 0
	if err := l.repeats(st.batch.keys); err != nil && !bounded {
		if !l.clamped(st) {
			return malformed(l.s, st.at, l.early(err))
		}
		l.pager.rows -= int64(st.batch.n)
		st.turn, st.batch = turn{rule: RuleRepeat}, batch{}
		return nil
	}
	l.lastN = st.batch.n
	if st.rule != "" {
		return nil
	}
	if err := st.at.check(st.next); err != nil {
		return malformed(l.s, st.at, err)
	}
	if st.next.kind == pagerCursor {
		cursor := maphash.String(l.c.seed, st.next.at)
		if l.visited[cursor] {
			return malformed(l.s, st.at, errors.New("the list comes back to a cursor it has given before"))
		}
		l.visited[cursor] = true
	}
	if most := l.pager.limit(l.c.maxPages); int64(l.pages) >= most {
		return malformed(l.s, st.at, fmt.Errorf("no end after %d pages", l.pages))
	}
	return nil
}

// early marks an error of the second page: that it is none may be due to a
// change in how the list goes on.
func (l *listing) early(err error) error {
	if l.pages == 2 {
		return l.changed(err)
	}
	return err
}

// clamped reports whether a page that brings nothing new is what the list gives
// for every page beyond its last: the one before it was short, and nothing says
// that there is more.
func (l *listing) clamped(st *step) bool {
	s := st.signals
	return s.more != yes && s.token == "" && s.next == nil && int64(l.lastN) < l.pager.step && st.batch.n <= l.lastN &&
		(s.total < 0 || s.total == l.pager.rows-int64(st.batch.n))
}

// repeats tells a page that was there before, or brings nothing that the one
// before it did not have.
func (l *listing) repeats(keys []uint64) error {
	if len(keys) == 0 {
		return nil
	}
	print := sum(keys)
	if l.seen[print] {
		return errors.New("the page repeats an earlier one")
	}
	l.seen[print] = true
	fresh := len(l.before) == 0
	clear(l.now)
	overlap := 0
	for _, k := range keys {
		if l.before[k] {
			overlap++
		}
		l.now[k] = true
	}
	fresh = fresh || overlap < len(keys)
	if len(l.s.Key) > 0 {
		l.drift.Overlap += overlap
		l.drift.Doubled += len(keys) - len(l.now)
	}
	l.before, l.now = l.now, l.before
	if !fresh {
		return errors.New("the page has no record that the one before it did not have")
	}
	return nil
}

// sum is a fingerprint of a set of keys that does not depend on their order.
func sum(keys []uint64) uint64 {
	h := uint64(len(keys))
	for _, k := range keys {
		h += k * k >> 7 * 0x9e3779b97f4a7c15
	}
	return h
}

// expired reports whether an error is the server's way to say that it knows a
// cursor no longer.
func expired(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return ok && (e.Status == http.StatusGone || e.Class == wire.Invalid || e.Class == wire.Missing)
}
