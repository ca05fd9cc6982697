package extract

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"net/http"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// habits are what an endpoint has shown of itself. The lists of a fan-out's
// parents share them, so that each is learned once.
type habits struct {
	layout found // pointer and form only
	whole  bool  // it ignores page numbers: a probe has shown it

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

	pages      int
	firstTotal int64
	lastTotal  int64
	seen       map[uint64]bool // fingerprints of pages, to know one that comes again
	visited    map[uint64]bool // hashes of cursors
	before     map[uint64]bool // keys of the page before
	now        map[uint64]bool // of this one
	lastID     string          // of the last record, where the list goes on after it
	buf        []byte          // of assembled records

	requests int // since the last step
	bytes    int64

	drift drift
	gaps  gaps
}

func (c *Client) newListing(s schemas.Stream, params []bound, h *habits) *listing {
	return &listing{
		c: c, s: s, params: params, habits: h,
		asm:        assembler{stream: s, params: contextMembers(params), seed: c.seed},
		pager:      pager{hint: s.Pagination, total: -1},
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
	reread bool
	note   string
	gaps   []Gap // of this page

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
				q.fill(ctx, st.next, l.pager.following)
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

// step takes the answer to at and decides what comes after it.
func (l *listing) step(ctx context.Context, q *ahead[position], at position) (*step, error) {
	a, err := q.take(ctx, at)
	if err != nil {
		return l.isolate(ctx, at, err)
	}
	st := &step{at: at, a: a}
	if err = l.read(st); err == nil && st.probe {
		err = l.probe(ctx, q, st)
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
	if f.form == formOne || st.batch.n == 0 && l.pages == 0 && absentObject(l.s.Class) {
		st.rule = RuleSingle
		return nil
	}
	s := signalsOf(a.d, f, st.batch.n, a.resp.Header)
	if a.d.err != nil {
		return malformed(l.s, a.at, a.d.err)
	}
	if err := l.echo(st, s); err != nil {
		return malformed(l.s, a.at, err)
	}
	if id := a.d.get(st.batch.last, "id"); s.more == yes && id.ok() {
		l.lastID = (bound{value: a.d.raw(id)}).text()
	}
	st.total = s.total
	st.turn, err = l.pager.turn(a.at, st.batch.n, l.lastID, s)
	if err != nil {
		return malformed(l.s, a.at, err)
	}
	if st.probe && l.habits.whole {
		st.turn = turn{rule: RuleOnePage}
	}
	return nil
}

// absentObject reports whether an empty answer of this class says that there is
// no such object: some modules write [] for it.
func absentObject(c schemas.Class) bool { return singleClass(c) && c != schemas.ClassReport }

// locate finds the records where they were on the page before, or anywhere on
// the first. Whatever the first pages leave open, being empty, later ones may
// settle; what is settled stays. A change is an error, never an end.
func (l *listing) locate(d *doc) (found, error) {
	if l.habits.layout.form != formNone {
		return again(d, l.s, l.habits.layout)
	}
	f, err := find(d, l.s)
	if err == nil && f.form != formNone {
		l.habits.layout = found{pointer: f.pointer, form: f.form}
	}
	return f, err
}

// echo checks the page number that came back against the one asked for: a
// server that ignores or clamps it would give one page for another.
func (l *listing) echo(st *step, s signals) error {
	if st.at.kind == pagerPage && s.page > 0 && s.page != st.at.number() {
		return fmt.Errorf("asked for page %s, got page %d", st.at.at, s.page)
	}
	return nil
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
		return malformed(l.s, st.at, err)
	}
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
