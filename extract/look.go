package extract

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state/retry"
)

// look requests a position without counting it as a page. Except for the first page, it sends a probe, because the
// server may not know the parameters.
func (l *listClient) look(ctx context.Context, at paging.Position) (*step, error) {
	if at == (paging.Position{}) {
		return l.reread(ctx, at)
	}
	return l.inspect(ctx, at, l.request)
}

// reread requests a page again. The page exists, so it retries temporary failures.
func (l *listClient) reread(ctx context.Context, at paging.Position) (*step, error) {
	return l.inspect(ctx, at, func(ctx context.Context, at paging.Position) (*answer, error) {
		return l.counted(l.c.fetch(ctx, l.s, l.params, at))
	})
}

// counted adds the requests and bytes of an answer, or of its error.
func (l *listClient) counted(a *answer, err error) (*answer, error) {
	if err != nil {
		l.requests += requestsOf(err)
		return nil, err
	}
	l.requests += a.requests
	l.bytes += a.bytes
	return a, nil
}

func (l *listClient) probe(ctx context.Context, at paging.Position) (*answer, error) {
	return l.counted(l.c.probe(ctx, l.s, l.params, at))
}

// answers reports whether the server still returns a position.
func (l *listClient) answers(ctx context.Context, at paging.Position) bool {
	a, err := l.probe(ctx, at)
	if err == nil {
		l.c.release(a)
	}
	return err == nil
}

func (l *listClient) inspect(ctx context.Context, at paging.Position, send func(context.Context, paging.Position) (*answer, error)) (*step, error) {
	if err := l.checkBudget(); err != nil {
		return nil, err
	}
	a, err := send(ctx, at)
	if err != nil {
		return nil, err
	}
	st := &step{at: at, a: a, total: -1, batch: batch{keysOnly: true}}
	f, err := l.locate(a.d)
	if err == nil && ctx.Err() == nil {
		err = l.asm.assemble(a.d, f, &st.batch)
	}
	if ctx.Err() != nil { // a large answer takes seconds to parse // Invariant 15
		l.c.release(a)
		return nil, context.Cause(ctx)
	}
	if err == nil {
		l.volatility.observe(l, a.d, f)
		l.others.observe(l, at, a.d, f)
		st.signals = a.signals(f, st.batch.N)
		l.adoptToken(&st.signals, at, l.constant)
		err = a.d.Err()
	}
	if err != nil {
		l.c.release(a)
		return nil, malformed(l.s, at, err)
	}
	return st, nil
}

// locate finds the records of a page. If another page had them at another place, locate returns an error: a changed
// answer must not look like the end of the list.
func (l *listClient) locate(d *jsondoc.Doc) (records.Found, error) {
	if l.traits.layout.Form != records.FormNone {
		f, err := records.FindAgain(d, l.s, l.traits.layout)
		if err != nil {
			err = l.changed(err)
		}
		return f, err
	}
	f, err := records.Find(d, l.s)
	switch {
	case err != nil:
		return f, l.changed(err)
	case f.Form == records.FormNone:
		return f, nil
	case l.s.RecordsKnown && len(l.s.Records) > 0 && f.Pointer != l.s.Records[0] && !empty(d, f):
		return f, fmt.Errorf("%w: the records were at %q, now they are at %q", ErrShape, l.s.Records[0], f.Pointer)
	}
	if l.s.RecordsKnown && !l.s.Class.Single() && l.s.Object != (f.Form == records.FormOne) && !empty(d, f) {
		return f, fmt.Errorf("%w: %s", ErrShape, map[bool]string{true: "it was one object, now it is a list", false: "it was a list, now it is one object"}[l.s.Object])
	}
	l.traits.layout = records.Found{Pointer: f.Pointer, Form: f.Form}
	return f, nil
}

func empty(d *jsondoc.Doc, f records.Found) bool {
	for p := range f.All(d) {
		if !d.IsEmpty(p.Value) {
			return false
		}
	}
	return true
}

// outsized reports whether the first page is shorter than requested, although there may be more pages. Some servers
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

// request sends a probe, and repeats it after a status 5xx. A second 5xx refutes the probe. But 502, 503 and 504 may
// concern the whole server. They refute the probe only if the first page can still be read.
func (l *listClient) request(ctx context.Context, at paging.Position) (*answer, error) {
	a, err := l.probe(ctx, at)
	if !serverFault(err) {
		return a, err
	}
	if !retry.Sleep(ctx, bodyRetry.Wait(1)) {
		return nil, context.Cause(ctx)
	}
	a, err = l.probe(ctx, at)
	fault, ok := errors.AsType[*wire.Error](err)
	if !ok || !serverFault(err) {
		return a, err
	}
	switch fault.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		control, err := l.counted(l.c.fetch(ctx, l.s, l.params, paging.Position{}))
		if err != nil {
			return nil, err
		}
		l.c.release(control)
	}
	return nil, &paging.RefutedError{Fault: fault}
}

func serverFault(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return ok && e.Class == wire.Transient && e.Status >= 500
}
