package extract

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// Limits for the search for broken records. // Invariant 15
const (
	maxIsolating = 400 // requests for one list, or for all lists of a fan-out
	maxGaps      = 100 // gaps in one list, or in a fan-out
)

func (l *listReader) follow(st *step) {
	g := &l.gaps
	if st.a == nil || st.batch.N == 0 {
		return
	}
	g.close(l.asm.keyText(st.a.d, st.batch.First))
	g.pages = 0
	g.tail = l.asm.keyText(st.a.d, st.batch.Last)
}

// isolate reads the records of a page that the server cannot return as a whole. It requests smaller pages, down to
// single records. Records that still fail become gaps. It returns the error of the page unchanged if the error does not
// look like a broken record, if a limit is reached, or if the list cannot be requested in smaller pages. It returns
// another error if no record of the page can be read.
func (l *listReader) isolate(ctx context.Context, at paging.Position, cause error) (*step, error) {
	fault, ok := errors.AsType[*wire.Error](cause)
	if !ok || !paging.FailsOnData(fault) || l.traits.isolating >= maxIsolating || len(l.gaps.all) >= maxGaps {
		return nil, cause
	}
	i, ok := l.isolation(at, fault)
	if !ok {
		return nil, cause
	}
	if l.pages > 0 && !i.sized(ctx) {
		return nil, cause
	}
	l.requests += fault.Attempts
	defer func() { l.buf = i.st.batch.records }()
	l.asm.copyLists, i.copyLists = true, l.asm.copyLists
	defer func() { l.asm.copyLists = i.copyLists }()
	if err := i.split(ctx, i.page); err != nil {
		return nil, cmp.Or(context.Cause(ctx), error(i.explain(err)))
	}
	if i.st.batch.N == 0 {
		return nil, i.explain(errNothing)
	}
	return i.finish()
}

type isolation struct {
	l         *listReader
	fault     *wire.Error
	s         schemas.Stream
	page      part
	st        *step
	tail      string
	open      bool // no record after the last gap has been read yet
	copyLists bool

	failed int // failed requests for parts

	total int64
	last  *paging.Signals // signals of the last part of the page; nil if this part is a gap
	end   part
}

type part struct{ from, rows int64 }

func (l *listReader) isolation(at paging.Position, fault *wire.Error) (i *isolation, ok bool) {
	kind, size := at.Kind, l.s.Pagination.Size
	if kind == paging.KindNone {
		kind = paging.Kind(l.s.Pagination.Type)
	}
	rows := int64(l.s.Pagination.Limit)
	if n := int64(l.drift.fullest); n > 0 && (n < rows || rows == 0) {
		rows = n
	}
	if rows < 2 || l.pager.Zero {
		return nil, false
	}
	i = &isolation{l: l, fault: fault, s: l.s, tail: l.gaps.tail, total: -1}
	switch kind {
	case paging.KindPage:
		i.s.Pagination.Size = cmp.Or(size, "per_page")
		at = paging.Position{Kind: kind, Param: cmp.Or(at.Param, l.pager.Named("page", "page")), At: strconv.FormatInt(max(at.Number(), 1), 10)}
		i.page = part{(at.Number() - 1) * rows, rows}
	case paging.KindOffset:
		i.s.Pagination.Size = cmp.Or(size, "limit")
		at = paging.Position{Kind: kind, Param: cmp.Or(at.Param, l.pager.Named("offset", "offset")), At: strconv.FormatInt(at.Number(), 10)}
		i.page = part{at.Number(), rows}
	default:
		return nil, false
	}
	i.st = &step{at: at, total: -1}
	i.st.batch.records = l.buf[:0]
	return i, true
}

// sized() reports whether the server returns pages of the requested size. With pages of another size, a page number
// would select other records than expected.
func (i *isolation) sized(ctx context.Context) bool {
	p := part{0, i.page.rows / factor(i.page.rows)}
	a, err := i.request(ctx, p)
	if err != nil {
		return false
	}
	defer i.l.c.release(a)
	f, err := i.l.locate(a.d)
	if err != nil {
		return false
	}
	var b batch
	return i.l.asm.assemble(a.d, f, &b) == nil && int64(b.N) == p.rows
}

// split reads p in smaller parts. Each smaller part begins at a multiple of its length, so that a page number can
// select it.
func (i *isolation) split(ctx context.Context, p part) error {
	rows := p.rows / factor(p.rows)
	for from := p.from; from < p.from+p.rows; from += rows {
		if i.total >= 0 && from >= i.total {
			return nil
		}
		if err := i.read(ctx, part{from, rows}); err != nil {
			return err
		}
	}
	return nil
}

func factor(n int64) int64 {
	for f := int64(2); f*f <= n; f++ {
		if n%f == 0 {
			return f
		}
	}
	return n
}

// read reads a part. If the request fails, it splits the part. A single record that fails becomes a gap.
func (i *isolation) read(ctx context.Context, p part) error {
	i.last = nil
	if i.l.traits.isolating >= maxIsolating || len(i.st.gaps)+len(i.l.gaps.all) >= maxGaps {
		i.gap(p, i.fault)
		return nil
	}
	a, err := i.request(ctx, p)
	if err == nil {
		defer i.l.c.release(a)
		return i.take(a, p)
	}
	fault, ok := errors.AsType[*wire.Error](err)
	i.failed++
	switch {
	case !ok || !paging.FailsOnData(fault):
		return err
	case i.st.batch.N == 0 && i.failed >= maxFailedParts:
		return errNothing
	case p.rows > 1:
		return i.split(ctx, p)
	}
	i.gap(p, fault)
	return nil
}

const maxFailedParts = 8

var errNothing = errors.New("no record of the page could be read")

// request requests a part without retries: the whole page has been retried often enough.
func (i *isolation) request(ctx context.Context, p part) (*answer, error) {
	s, at := i.s, i.st.at
	s.Pagination.Limit = int(p.rows)
	at.At = strconv.FormatInt(p.from, 10)
	if at.Kind == paging.KindPage {
		at.At = strconv.FormatInt(p.from/p.rows+1, 10)
	}
	a, err := i.l.c.probe(ctx, s, i.l.params, at)
	n := requestsOf(err)
	if a != nil {
		n = a.requests
		i.l.bytes += a.bytes
	}
	i.l.requests += n
	i.l.traits.isolating += n
	return a, err
}

func (i *isolation) take(a *answer, p part) error {
	l, b := i.l, &i.st.batch
	f, err := l.locate(a.d)
	if err != nil {
		return err
	}
	n := b.N
	b.First = jsondoc.Missing
	if err := l.asm.assemble(a.d, f, b); err != nil {
		return err
	}
	if n = b.N - n; int64(n) > p.rows {
		return fmt.Errorf("the list ignores %q: requested %d records, got %d", i.s.Pagination.Size, p.rows, n)
	}
	s := a.signals(f, n)
	i.total, i.last, i.end = max(i.total, s.Total), &s, p
	if n == 0 {
		return nil
	}
	first := l.asm.keyText(a.d, b.First)
	l.gaps.close(first)
	if k := len(i.st.gaps); k > 0 && i.open {
		i.st.gaps[k-1].Before, i.open = first, false
	}
	i.tail = l.asm.keyText(a.d, b.Last)
	return nil
}

// gap adds a gap. Adjacent parts with the same error become one gap.
func (i *isolation) gap(p part, fault *wire.Error) {
	i.open = true
	if n := len(i.st.gaps); n > 0 {
		if g := &i.st.gaps[n-1]; g.First+g.Rows == p.from && g.Message == fault.Message && g.Status == fault.Status {
			g.Rows += p.rows
			return
		}
	}
	i.st.gaps = append(i.st.gaps, Gap{
		At: i.st.at.String(), First: p.from, Rows: p.rows, After: i.tail,
		Status: fault.Status, Message: fault.Message,
	})
}

func (i *isolation) finish() (*step, error) {
	l, st := i.l, i.st
	l.gaps.all = append(l.gaps.all, st.gaps...)
	l.gaps.tail, l.gaps.open = i.tail, i.open
	n := int64(st.batch.N)
	for _, g := range st.gaps {
		n += g.Rows
	}
	st.total = i.total
	var err error
	if st.Continuation, err = l.pager.Decide(st.at, int(n), "", i.signals()); err == nil {
		err = l.guard(st)
	}
	if err != nil {
		return nil, malformed(l.s, st.at, err)
	}
	return st, nil
}

func (i *isolation) signals() paging.Signals {
	s := paging.NoSignals
	s.Total = i.total
	pages := func(rows int64) int64 { return max(1, (rows+i.page.rows-1)/i.page.rows) }
	switch {
	case i.total >= 0 && i.st.at.Kind == paging.KindPage:
		s.LastPage = pages(i.total)
	case i.total >= 0 || i.last == nil: // the total is enough, or the last part is a gap and has no signals
	case i.last.LastPage >= 0 && i.st.at.Kind == paging.KindPage:
		s.LastPage = pages(i.last.LastPage * i.end.rows)
	case i.last.More == paging.Yes || i.last.Next != nil || i.last.Token != "":
		s.More = paging.Yes
	case i.last.More == paging.No || i.last.Linked || i.last.Tokened:
		s.More = paging.No
	}
	return s
}

func (i *isolation) explain(err error) *wire.Error {
	e := *i.fault
	if inner, ok := errors.AsType[*wire.Error](err); ok {
		switch inner.Class {
		case wire.Throttled, wire.Auth, wire.NotEntitled, wire.Transient:
			return inner // this error does not concern the page
		}
	}
	e.Message += fmt.Sprintf(" (%s in smaller pages: %v)", i.st.at, err)
	return &e
}
