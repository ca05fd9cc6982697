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
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state/retry"
)

// look requests the page at a position, and does not count it as a page of the pass. Except for the first page, the
// request is a probe, because the server may not know the parameters.
func (l *listClient) look(ctx context.Context, at paging.Position) (*step, error) {
	if at == (paging.Position{}) {
		return l.reread(ctx, at)
	}
	return l.inspect(ctx, at, l.request)
}

// reread requests a page again. The page exists, so temporary failures are retried.
func (l *listClient) reread(ctx context.Context, at paging.Position) (*step, error) {
	return l.inspect(ctx, at, func(ctx context.Context, at paging.Position) (*answer, error) {
		return l.counted(l.c.fetch(ctx, l.s, l.params, at))
	})
}

// counted() adds the requests and bytes of an answer, or of an error, to the counts.
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
	a, begun, err := l.foreseen.probed(l, at)
	if !begun {
		if a = l.early.take(l, at); a != nil {
			return a, nil
		}
		a, err = l.c.probe(ctx, l.s, l.params, at)
	}
	if err == nil {
		l.foreseen.watch(a, l, at)
	}
	return l.counted(a, err)
}

// answers reports whether the server still answers a request for the position.
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
		l.volatility.observe(&l.asm, a.d, f)
		l.others.observe(l.c.seed, at, a.d, f)
		st.signals = a.signals(f, st.batch.N)
		l.adoptToken(&st.signals, at, l.constant)
		err = a.d.Err()
	}
	if err != nil {
		a.early = nil
		l.c.release(a)
		return nil, malformed(l.s, at, err)
	}
	return st, nil
}

// locate finds the records of a page. If an earlier page had its records at another place, locate returns an error: a
// changed answer must not look like the end of the list.
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

// endpointTraits is what is known about an endpoint. All lists of a child stream share one endpointTraits value.
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

	volatility *volatility     // set in a negotiation; nil in a pass
	others     *otherLists     // set if a negotiation chooses between several lists; otherwise nil
	constant   map[string]bool // texts of unknown meaning on the first page, by pointer and value

	foreseen *earlyAnswers // in a negotiation: probes that were sent in advance, and answers that are kept for the pass
	early    *earlyAnswers // in a pass: answers that a negotiation has kept

	budget   int // maximum number of requests for probes; 0 for no limit
	requests int // requests since the last step
	bytes    int64
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
	afterLast bool // the step is page N of N pages; if pages are numbered from 0, there is no page N
	gaps      []Gap
	file      *File

	a *answer
}

func (l *listClient) adoptToken(s *paging.Signals, at paging.Position, constant map[string]bool) {
	if t := l.s.Pagination.Type; t == "" || t == "cursor" {
		s.AdoptToken(at, constant)
	}
}

// maxIDBytes limits the id of a record in a request for the next page. The id is a part of the URL. Probes may send it
// under many names in one request.
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

// changed() wraps an error with [ErrShape] if an earlier run has found out how to read the endpoint. ErrShape leads to
// another negotiation.
func (l *listClient) changed(err error) error {
	if !l.s.RecordsKnown || errors.Is(err, ErrShape) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrShape, err)
}

func (st *step) ending() string {
	if st.Rule == RuleTotal {
		return RuleTotal
	}
	return RuleOnePage
}

// page returns what probes need to know about a step.
func (st *step) page() *paging.Page {
	return &paging.Page{At: st.at, Hashes: st.batch.Hashes, Doc: st.a.d, Signals: st.signals, Total: st.total, Rule: st.Rule, Note: st.note, Answer: st.a}
}

// Stream returns the stream, with the paging that the next requests use.
func (l *listClient) Stream() *schemas.Stream { return &l.s }

// Values returns the values that the stream sends for a parameter.
func (l *listClient) Values(param string) []string {
	var all []string
	for _, b := range l.params {
		if b.Name == param {
			all = append(all, b.text())
		}
	}
	return all
}

// Look requests the page at a position, and does not count it as a page of the pass.
func (l *listClient) Look(ctx context.Context, at paging.Position) (*paging.Page, error) {
	st, err := l.look(ctx, at)
	if err != nil {
		return nil, err
	}
	return st.page(), nil
}

// Release returns the memory of an answer.
func (l *listClient) Release(p *paging.Page) { l.c.release(p.Answer.(*answer)) }

// Locate finds the records of an answer.
func (l *listClient) Locate(d *jsondoc.Doc) (records.Found, error) { return l.locate(d) }

// ID returns the id of a record.
func (l *listClient) ID(d *jsondoc.Doc, record jsondoc.Value) string { return l.idOf(d, record) }

// Requests returns the number of requests since the last step.
func (l *listClient) Requests() int { return l.requests }

var errProbes = errors.New("no result within the limit of probes")

func (l *listClient) checkBudget() error {
	if l.budget > 0 && l.requests >= l.budget {
		return &wire.Error{Class: wire.Malformed, Method: l.s.Method, Path: l.s.Path, Message: errProbes.Error(), Err: errProbes}
	}
	return nil
}

func (l *listClient) refusedAgain(ctx context.Context, at paging.Position, status int) bool {
	a, err := l.probe(ctx, at)
	if err == nil {
		l.c.release(a)
		return false
	}
	also, ok := paging.EndStatus(err)
	return ok && also == status
}

// deepen returns the records of st with hashes of their content. Until the caller calls shallow(), the assembler
// hashes the content of all records.
func (l *listClient) deepen(st *step) (here batch, shallow func(), err error) {
	deep := l.asm.deep
	l.asm.deep = true
	f, err := l.locate(st.a.d)
	if err == nil {
		err = l.asm.assemble(st.a.d, f, &here)
	}
	if err != nil {
		err = malformed(l.s, st.at, err)
	}
	return here, func() { l.asm.deep = deep }, err
}
