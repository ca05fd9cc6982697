package extract

import (
	"context"
	"errors"

	"github.com/penstock-data/penstock/extract/wire"
)

// maxReread bounds how often a list that came whole is read again to see it
// twice the same.
const maxReread = 3

// probe asks a list that says nothing about pages for a second one. Frameworks
// ignore what they do not know, so that a list without pages comes again: the
// same records prove that they are all, other records that there is more.
func (l *listing) probe(ctx context.Context, q *ahead[position], st *step) error {
	ask := st.next
	for range maxReread {
		second, err := l.look(ctx, ask)
		if clientFault(err) && ask.kind != pagerNone {
			ask = position{} // it minds the parameter: then it has no pages, and is only read again
			continue
		}
		if l.probed(q, ask, err, st) {
			return nil
		}
		if err != nil {
			return err
		}
		like := compare(st.batch, second.batch)
		switch {
		case like == sameRecords:
			l.c.release(second.a)
			l.habits.whole = true
			st.turn, st.reread = turn{rule: RuleOnePage}, true
			return nil
		case like == noRecords && ask.kind != pagerNone:
			l.c.release(second.a)
			st.turn = turn{rule: RuleEmptyPage}
			return nil
		case like == otherRecords && ask.kind != pagerNone:
			return l.otherPage(ctx, q, st, second)
		}
		// The list changed in between: the later reading is as good a first page,
		// and is compared with one more.
		l.c.release(st.a)
		st.a, st.batch, ask = second.a, second.batch, position{}
	}
	st.turn, st.note = turn{rule: RuleOnePage}, "the list changed while it was read"
	return nil
}

// otherPage takes up a second page with other records. Where records have no
// key, one more look at the first page tells whether they are told apart by
// something that changes by being read.
func (l *listing) otherPage(ctx context.Context, q *ahead[position], st, second *step) error {
	if len(l.s.Key) == 0 {
		first, err := l.look(ctx, position{})
		if err != nil {
			l.c.release(second.a)
			return err
		}
		like := compare(st.batch, first.batch)
		l.c.release(first.a)
		if like == otherRecords {
			l.c.release(second.a)
			st.turn, st.note = turn{rule: RuleOnePage}, "records change by being read: pages cannot be told apart"
			return nil
		}
	}
	q.put(second.at, second.a)
	l.requests -= second.a.requests
	l.bytes -= second.a.bytes
	st.turn = turn{next: second.at}
	return nil
}

// look reads a page of the list without letting it count as one.
func (l *listing) look(ctx context.Context, at position) (*step, error) {
	a, err := l.c.fetch(ctx, l.s, l.params, at)
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
	if err != nil {
		l.c.release(a)
		return nil, malformed(l.s, at, err)
	}
	return st, nil
}

// likeness is how two readings of a list compare.
type likeness int

const (
	noRecords likeness = iota
	sameRecords
	mostlySame
	otherRecords
)

// compare tells whether b is another reading of the records in a. A page that
// overlaps with the one before it, because the list moved, is not: it lacks most
// of what was there.
func compare(a, b batch) likeness {
	if b.n == 0 {
		return noRecords
	}
	if a.n == b.n && sum(a.keys) == sum(b.keys) {
		return sameRecords
	}
	in := make(map[uint64]bool, a.n)
	for _, k := range a.keys {
		in[k] = true
	}
	common := 0
	for _, k := range b.keys {
		if in[k] {
			common++
		}
	}
	if 4*common >= 3*max(a.n, b.n) {
		return mostlySame
	}
	return otherRecords
}

// requestsOf is how many requests an error took.
func requestsOf(err error) int {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e.Attempts
	}
	return 0
}

// clientFault reports whether the server took offence at the request.
func clientFault(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return ok && (e.Class == wire.Invalid || e.Class == wire.Missing)
}
