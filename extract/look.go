package extract

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/extract/wire"
)

// look reads an answer of the list without letting it count as a page.
func (l *listing) look(ctx context.Context, at position) (*step, error) {
	if err := l.spend(); err != nil {
		return nil, err
	}
	a, err := l.ask(ctx, at)
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

// ask fetches an answer. Where the server stumbles over what a probe adds, it
// does so every time; all else is tried as often as usual.
func (l *listing) ask(ctx context.Context, at position) (*answer, error) {
	if at.extra == "" {
		return l.c.fetch(ctx, l.s, l.params, at)
	}
	a, err := l.c.fetch(ctx, l.s, l.params, at, 1)
	if e, ok := errors.AsType[*wire.Error](err); ok && e.Status == 0 && (e.Class == wire.Transient || e.Class == wire.Malformed) {
		l.requests += e.Attempts
		return l.c.fetch(ctx, l.s, l.params, at)
	}
	return a, err
}
