package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"github.com/penstock-data/penstock/extract/wire/budget"
)

type call struct {
	c         *Client
	method    string
	template  string
	url       *url.URL
	body      []byte
	anonymous bool // send no credential
	file      bool
	ranges    string
	probe     bool
	session   bool // answers hold tokens, so errors must not quote the answers
	check     func([]byte) error
	take      func(int64) bool

	token     Secret
	attempts  int
	failures  int // transient faults so far
	malformed int
	throttles int
	renewals  int // attempted renewals of the credential
	renewal   *Error
	renewed   bool
	hops      int // redirects in this try
}

func (c *Client) newCall(r Request) (*call, error) {
	r.Method = orDefault(r.Method, http.MethodGet)
	k := &call{
		c: c, method: r.Method, template: r.Path, body: r.Body,
		anonymous: r.Anonymous, file: r.File, ranges: r.Range, probe: r.Probe, check: r.Check, take: r.Take,
	}
	escaped, err := c.allow.expand(Route{r.Method, r.Path}, r.Params)
	if err != nil {
		return nil, k.fault(Refused, nil, err.Error())
	}
	if k.url, err = c.at(escaped); err != nil {
		return nil, k.fault(Refused, nil, err.Error())
	}
	k.url.RawQuery = r.Query.Encode()
	return k, nil
}

func (c *Client) at(escaped string) (*url.URL, error) {
	u := *c.base
	u.RawPath = c.base.EscapedPath() + escaped
	var err error
	u.Path, err = url.PathUnescape(u.RawPath)
	return &u, err
}

func (k *call) run(ctx context.Context) (*Response, error) {
	for {
		resp, fault := k.authorizedTry(ctx)
		if fault == nil {
			return resp, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("read %s: %w", k.template, context.Cause(ctx))
		}
		if fault = k.recover(ctx, fault); fault != nil {
			fault.Method, fault.Path = k.method, k.template // the error names this call, even if the call's request for a token failed
			fault.Attempts = k.attempts
			return nil, fault
		}
	}
}

func (k *call) authorizedTry(ctx context.Context) (*Response, *Error) {
	if k.anonymous {
		return k.try(ctx)
	}
	token, err := k.c.cred.Token(ctx, Session{k.c})
	if err != nil || token != k.token {
		k.c.redact.Add(k.c.cred.Secrets()...)
	}
	if err != nil {
		return nil, k.signInFault(err)
	}
	k.token = token
	resp, fault := k.try(ctx)
	if fault == nil {
		k.c.tokenRefused.drop(k.template)
	}
	return resp, fault
}

func (k *call) signInFault(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok && !errors.Is(err, ErrNotRenewable) {
		return e
	}
	return k.withSpentReason(k.fault(Auth, nil, ""), err)
}

func (k *call) withSpentReason(fault *Error, err error) *Error {
	words := err.Error()
	if fault.Message != "" {
		words = strings.TrimRight(fault.Message, ".") + "; " + words
	}
	fault.Message = k.c.redact.excerpt(oneLine(words), 512)
	fault.Err = &cause{text: fault.Message, err: err}
	return fault
}

func (k *call) try(ctx context.Context) (*Response, *Error) {
	k.hops = 0
	target := k.url
	for {
		resp, next, fault := k.send(ctx, target)
		if fault != nil || next == nil {
			return resp, fault
		}
		target = next
	}
}

func (k *call) send(ctx context.Context, target *url.URL) (*Response, *url.URL, *Error) {
	permit, err := k.c.gov.Take(ctx, k.c.opts.MaxWait)
	if err != nil {
		return nil, nil, k.unsent(err)
	}
	permit.Probe = k.probe
	defer permit.Done()
	k.attempts++
	w := newWatch(ctx, k.c.opts.Timeouts)
	defer w.stop()

	started := time.Now()
	resp, err := k.c.transport.RoundTrip(k.request(w, target, permit))
	defer func() { k.attempted(started, resp) }()
	if err != nil {
		fault := k.unanswered(w.explain(err))
		// Two faults are not failures of the server: the caller gave up, or the host was never reached.
		if ctx.Err() == nil && !k.neverReached(fault) {
			permit.Lost()
		}
		return nil, nil, fault
	}
	k.c.reached.Store(true)
	defer func() { _ = resp.Body.Close() }()
	permit.Answered(resp)
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		next, fault := k.redirected(resp)
		return nil, next, fault
	}
	body, fault := k.receive(resp, w, permit)
	if fault != nil {
		return nil, nil, fault
	}
	return &Response{
		Status: resp.StatusCode, Header: resp.Header, Body: body.text, Notice: k.c.redact.excerpt(body.notice, 256), Attempts: k.attempts,
		Sent: started, Elapsed: time.Since(started), buf: body,
	}, nil, nil
}

func (k *call) unsent(err error) *Error {
	e := k.unanswered(err)
	e.unchanged = true
	return e
}

func (k *call) unanswered(err error) *Error {
	p, ok := errors.AsType[*budget.BlockedError](err)
	if !ok {
		return k.broken(nil, err)
	}
	class := Throttled
	if p.Failing {
		class = Transient
	}
	e := k.fault(class, nil, p.Reason)
	e.NotBefore = p.Until
	return e
}

func (k *call) request(w *watch, target *url.URL, p *budget.Permit) *http.Request {
	ctx := httptrace.WithClientTrace(w.ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			if err := p.Ready(w.ctx, k.c.opts.MaxWait); err != nil {
				w.cancel(err)
			}
		},
		WroteRequest: func(httptrace.WroteRequestInfo) { p.Sent() },
	})
	r := (&http.Request{
		Method: k.method, URL: target, Host: "", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: k.header(),
	}).WithContext(ctx)
	if k.method == http.MethodPost {
		r.Header["Content-Type"] = []string{"application/json"}
		r.ContentLength = int64(len(k.body))
		r.Body = io.NopCloser(bytes.NewReader(k.body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(k.body)), nil }
	}
	return r
}
