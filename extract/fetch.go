package extract

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state/retry"
)

// answer is a successful answer. Its body is complete. Its JSON is well-formed, except perhaps inside the records.
type answer struct {
	at       paging.Position
	d        *jsondoc.Doc
	resp     *wire.Response
	requests int
	bytes    int64
	kept     *File // for streams whose answers are files
	cut      int   // number of records that were removed from d, because they are also on the next page
	apart    bool  // it was requested earlier than some pages that come before it in the list: see segmented

	early *earlyAnswers // keeps the answer when it is released; nil: it is not kept
	key   string        // identifies the request, for early
}

// bodyRetry is for a page with status 200 whose body reports a temporary failure. Package wire retries the other
// temporary failures.
var bodyRetry = retry.Policy{First: 500 * time.Millisecond, Longest: time.Second, Jitter: 0.5, Attempts: 3}

func (c *Client) fetch(ctx context.Context, s schemas.Stream, params []bound, at paging.Position) (*answer, error) {
	return c.send(ctx, s, params, at, false, nil)
}

// probe sends one request whose position may not exist, or may make the server fail: see [wire.Request].
func (c *Client) probe(ctx context.Context, s schemas.Stream, params []bound, at paging.Position) (*answer, error) {
	return c.send(ctx, s, params, at, true, nil)
}

func (c *Client) send(ctx context.Context, s schemas.Stream, params []bound, at paging.Position, probe bool, take func(size int64) bool) (*answer, error) {
	client, err := c.wireFor(s)
	if err != nil {
		return nil, err
	}
	r := request(s, params, at)
	r.Probe, r.Take = probe, take
	policy, requests := bodyRetry, 0
	if probe {
		policy.Attempts = 1
	}
	for tries := policy.Begin(); ; {
		a, err := c.once(ctx, client, s, r)
		if err == nil {
			a.at = at
			a.requests += requests
			return a, nil
		}
		fault, ok := errors.AsType[*wire.Error](err)
		if !ok {
			return nil, err
		}
		requests += fault.Attempts
		if fault.Class == wire.Transient && fault.Status/100 == 2 {
			if tries.Again(ctx) {
				continue
			}
			if ctx.Err() != nil && !probe { // the run was stopped before the retry, so the error is not the temporary failure
				return nil, context.Cause(ctx)
			}
		}
		fault.Attempts = requests
		return nil, fault
	}
}

func (c *Client) once(ctx context.Context, client *wire.Client, s schemas.Stream, r wire.Request) (*answer, error) {
	a := &answer{d: c.docs.Get().(*jsondoc.Doc)}
	if !r.File {
		r.Check = a.d.Parse
	}
	resp, err := client.Read(ctx, r)
	if err != nil {
		c.release(a)
		return nil, err
	}
	a.resp, a.requests, a.bytes = resp, resp.Attempts, int64(len(resp.Body))
	if r.File {
		err = a.file(s)
	}
	if err == nil {
		err = a.verdict(client, r)
	}
	if err == nil {
		err = a.noFile(s)
	}
	if err != nil {
		c.release(a)
		return nil, err
	}
	return a, nil
}

func (a *answer) verdict(client *wire.Client, r wire.Request) error {
	e := &wire.Error{Class: wire.Malformed, Status: a.resp.Status, Method: r.Method, Path: r.Path, Attempts: a.requests}
	if a.d.Bytes() == nil {
		e.Message = "empty answer"
		return e
	}
	class, message, ok := judge(a.d)
	if ok {
		return nil
	}
	e.Class, e.Message = class, wire.Excerpt(client.Redactor().Redact(message))
	return e
}

// signals reads what the answer states beside its n records.
func (a *answer) signals(f records.Found, n int) paging.Signals {
	n += a.cut
	if a.resp == nil {
		return paging.ReadSignals(a.d, f, n, nil, 0)
	}
	return paging.ReadSignals(a.d, f, n, a.resp.Header, a.resp.Status)
}

func (c *Client) release(a *answer) {
	if a == nil || a.d == nil || a.early != nil && a.early.keep(a) {
		return
	}
	if a.resp != nil {
		a.resp.Release()
	}
	a.d.Reset()
	c.docs.Put(a.d)
	a.d = nil
}

func malformed(s schemas.Stream, at paging.Position, err error) error {
	return &wire.Error{
		Class: wire.Malformed, Status: http.StatusOK, Method: s.Method, Path: s.Path,
		Message: fmt.Sprintf("%s: %v", at, err), Attempts: 1, Err: err,
	}
}

func requestsOf(err error) int {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e.Attempts
	}
	return 0
}
