package wire

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/oauth2"
)

// Session sends a credential's requests for tokens through a client. Streams cannot send these requests. The zero
// Session has no client and sends no requests.
type Session struct{ c *Client }

func (s Session) maxWait() time.Duration {
	if s.c == nil {
		return Options{}.withDefaults().MaxWait
	}
	return s.c.opts.MaxWait
}

// post sends one request to the client's origin. It follows no redirect and does not retry: if the answer to a
// refresh is lost, the new token is lost with it. // Invariant 9
func (s Session) post(ctx context.Context, path string, have Secret, body []byte) ([]byte, error) {
	if s.c == nil {
		return nil, errors.New("no client to sign in with")
	}
	c := s.c
	c.redact.Add(have)
	k := &call{c: c, method: http.MethodPost, template: path, body: body, token: have, anonymous: true, session: true}
	var err error
	if k.url, err = c.at(path); err != nil {
		return nil, err
	}
	resp, fault := k.try(ctx)
	if fault != nil {
		return nil, fault
	}
	defer resp.Release()
	return append([]byte(nil), resp.Body...), nil
}

// permitted takes a permit of the governor, and then calls send(), which makes one request without the client. The
// request counts against the same limit, and after a 429 the governor stops all requests for a time. // Invariant 4
func (s Session) permitted(ctx context.Context, path string, send func() error) error {
	if s.c == nil {
		return send()
	}
	permit, err := s.c.gov.Take(ctx, s.c.opts.MaxWait)
	if err != nil {
		return (&call{c: s.c, method: http.MethodPost, template: path, session: true}).unsent(err)
	}
	defer permit.Done()
	err = send()
	permit.Unwatched()
	if r, ok := errors.AsType[*oauth2.RetrieveError](err); ok && r.Response.StatusCode == http.StatusTooManyRequests {
		permit.Answered(r.Response)
	}
	return err
}

// SignIn signs in now, even if a token is stored. Call it only for a person, because a sign-in may end other tokens
// of the user.
func (c *Client) SignIn(ctx context.Context, by SignInMethod) error {
	k, ok := c.cred.(interface {
		signIn(context.Context, Session, SignInMethod) error
	})
	if !ok {
		return errors.New("cannot sign in: the credential is a key or token")
	}
	err := k.signIn(ctx, Session{c}, by)
	c.redact.Add(c.cred.Secrets()...)
	return err
}

// tokenRefused holds the endpoints that answered 401 to a token that was just renewed. A 401 of such an endpoint does
// not renew the token again.
type tokenRefused struct {
	mu    sync.Mutex
	paths map[string]bool
}

func (a *tokenRefused) has(path string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.paths[path]
}

func (a *tokenRefused) add(path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.paths == nil {
		a.paths = map[string]bool{}
	}
	a.paths[path] = true
}

func (a *tokenRefused) drop(path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.paths, path)
}
