package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"

	"github.com/penstock-data/penstock/extract/wire/budget"
)

const maxTokenAnswer = 1 << 20

func (o *OAuth) config(ctx context.Context) (oauth2.Config, error) {
	token, err := o.endpointOf(ctx, tokenEndpoint)
	if err != nil {
		return oauth2.Config{}, err
	}
	authorize, err := o.endpointOf(ctx, authorizeEndpoint)
	if err != nil {
		return oauth2.Config{}, err
	}
	c := oauth2.Config{
		ClientID: o.opts.ClientID, ClientSecret: o.opts.ClientSecret.Reveal(), Scopes: o.opts.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: authorize, TokenURL: token, AuthStyle: oauth2.AuthStyleInParams},
	}
	if o.opts.ClientSecret != "" && o.clientAuth() == ClientBasic {
		c.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	}
	return c, nil
}

func (o *OAuth) clientAuth() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.opts.ClientAuth != "":
		return o.opts.ClientAuth
	case o.issuerMetadata != nil && o.issuerMetadata.onlyPost():
		return ClientPost
	}
	return ClientBasic
}

// ask makes one call to the token endpoint with a permit of the governor, and stores the grant. It stores the note of
// the call only when it has the permit. So if the process is killed while it waits for the permit, there is no note.
// x/oauth2 uses the HTTP client in ctx, which reaches only the endpoint's origin.
func (o *OAuth) ask(ctx context.Context, s Session, x *exchange, conf oauth2.Config, began func() note,
	call func(context.Context) (*oauth2.Token, error), complete func(grant) grant,
) error {
	u, err := endpoint("token_url", conf.Endpoint.TokenURL)
	if err != nil {
		return err
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, o.client(u, true))
	return s.permitted(ctx, u.Path, func() error {
		return x.call(ctx, began(), func(ctx context.Context) (grant, error) {
			t, err := call(ctx)
			if err != nil {
				return grant{}, o.fault(u.Path, err)
			}
			return complete(o.granted(t)), nil
		})
	})
}

// client returns an HTTP client that follows no redirects, because they would send the grant to another origin. The
// client reuses no connections: if the server closed a reused connection, penstock could not know whether the server
// has read the call. // Invariant 10
func (o *OAuth) client(u *url.URL, tokens bool) *http.Client {
	origin := *u
	origin.Host, origin.Path, origin.RawQuery = hostPort(u), "", ""
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.clients[origin.String()]
	if t == nil {
		limits := Options{}.withDefaults()
		limits.Timeouts.Header = exchangeTime // a late answer may contain the only copy of a token
		t = newTransport(limits, &origin)
		t.DisableKeepAlives = true
		o.clients[origin.String()] = t
	}
	c := &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if tokens {
		c.Transport = tokenTransport{t}
	}
	return c
}

// tokenTransport returns errors that say whether the server may have used up the sent token.
type tokenTransport struct{ base http.RoundTripper }

type exchangeError struct {
	sent   bool // at least a part of the request was sent
	status int  // status of an answer that is complete but not from a token endpoint; otherwise 0
	header http.Header
	err    error
}

// Error returns the underlying error's text.
func (e *exchangeError) Error() string { return e.err.Error() }

// Unwrap returns the underlying error.
func (e *exchangeError) Unwrap() error { return e.err }

// RoundTrip implements [http.RoundTripper].
func (t tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	resp, err := t.base.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err != nil {
		return nil, &exchangeError{sent: sent.Load(), err: err}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenAnswer))
	_ = resp.Body.Close()
	if err != nil {
		return nil, &exchangeError{sent: true, err: fmt.Errorf("the answer was cut off: %w", err)}
	}
	if err := judgeToken(resp, body); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

func judgeToken(resp *http.Response, body []byte) error {
	foreign := func(words string) error {
		return &exchangeError{sent: true, status: resp.StatusCode, header: resp.Header, err: errors.New(words)}
	}
	text := bytes.TrimSpace(body)
	if bytes.HasPrefix(text, []byte("<")) && resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusMethodNotAllowed {
		what := fmt.Sprintf("%d, an HTML page instead of a token", resp.StatusCode)
		if m := title().FindSubmatch(text); m != nil {
			what += fmt.Sprintf(", titled %q", oneLine(string(m[1])))
		}
		return foreign(what)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case len(text) == 0:
		return foreign(fmt.Sprintf("%d, an empty answer", resp.StatusCode))
	case kind == "application/x-www-form-urlencoded", kind == "text/plain":
		return nil // x/oauth2 reads both formats
	case !json.Valid(text):
		return &exchangeError{sent: true, err: fmt.Errorf("%d, an answer that ends early or is not JSON", resp.StatusCode)}
	}
	var t struct {
		Access string          `json:"access_token"`
		Error  json.RawMessage `json:"error"`
	}
	if json.Unmarshal(text, &t) != nil || t.Access == "" && t.Error == nil {
		return foreign(fmt.Sprintf("%d, an answer without a token", resp.StatusCode))
	}
	return nil
}

func (o *OAuth) granted(t *oauth2.Token) grant {
	g := newGrant(o.hold.stamp(), Secret(t.AccessToken), Secret(t.RefreshToken))
	if !t.Expiry.IsZero() {
		g.expires = o.hold.stamp().Add(time.Until(t.Expiry).Round(time.Second))
	}
	if list, ok := t.Extra("scope").(string); ok {
		g.scopes = ScopeWords(list)
	}
	return g
}

// fault classifies an error of the token endpoint. // Invariant 5
func (o *OAuth) fault(path string, err error) *Error {
	o.redact.Add(o.hold.secrets()...)
	e := &Error{Method: http.MethodPost, Path: path, Attempts: 1}
	says := func(words string) string {
		return o.redact.excerpt(oneLine("request a token from "+path+": "+words), 256)
	}
	if r, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		status := r.Response.StatusCode
		e.Class, e.unchanged = tokenClass(status, r.ErrorCode)
		e.outage = e.Class == Transient || e.Class == Throttled
		e.retryAfter, _ = budget.RetryAfter(r.Response.Header)
		e.Message = says(fmt.Sprintf("%d %s %s", status, statusText(status), strings.Trim(r.ErrorCode+": "+r.ErrorDescription, ": ")))
		e.code, e.Err = r.ErrorCode, &cause{text: e.Message, err: r} // Session.permitted reads r
		return e
	}
	x, came := errors.AsType[*exchangeError](err)
	if came && x.status > 0 {
		e.retryAfter, _ = budget.RetryAfter(x.header)
	}
	e.Class, err = unanswered(err)
	e.Message, e.outage = says(err.Error()), e.Class == Transient
	e.Err = &cause{text: e.Message, err: err}
	e.unchanged = e.Class == Refused || came && (!x.sent || x.status > 0 && x.status != http.StatusGatewayTimeout)
	return e
}

// tokenRefusals are the error codes with which a token endpoint refuses a request: those of RFC 6749, sections 4.1.2.1
// and 5.2, of RFC 8628, section 3.5, of OpenID Connect, and of GitHub.
var tokenRefusals = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
	"access_denied", "unsupported_response_type", "invalid_target", "expired_token", "authorization_pending",
	"interaction_required", "login_required", "consent_required", "invalid_token",
	"bad_refresh_token", "bad_verification_code", "incorrect_client_credentials", "redirect_uri_mismatch",
}

// tokenClass returns the class of a status and error code. The second result is true if the server has changed nothing.
// Only invalid_grant ends the grant; other refusals are about the configuration. An answer without a known code comes
// from another program, for example from a proxy in front of the token endpoint. So the request is repeated later.
// After a gateway timeout, the server may still have processed the call.
func tokenClass(status int, code string) (class Class, unchanged bool) {
	switch {
	case code == "invalid_grant", code == "bad_refresh_token": // GitHub sends bad_refresh_token
		return Auth, false
	case status == http.StatusTooManyRequests, code == "slow_down":
		return Throttled, true
	case slices.Contains(tokenRefusals, code):
		return Auth, true
	}
	return Transient, status != http.StatusGatewayTimeout
}
