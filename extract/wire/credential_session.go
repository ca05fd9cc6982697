package wire

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/oauth2"
)

// Session makes the calls of a credential on behalf of a client: those that
// fetch a token and that no stream may request. The zero Session belongs to no
// client, and can make none.
type Session struct{ c *Client }

// maxWait is the longest wait that is slept through.
func (s Session) maxWait() time.Duration {
	if s.c == nil {
		return Options{}.withDefaults().MaxWait
	}
	return s.c.opts.MaxWait
}

// post makes one call to the client's origin. It passes the governor like any
// other, is never redirected, and is not repeated: the answer to a rotation
// that was lost may have been the only copy. // Invariant 9
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

// aside has ask make one call that does not go through the client, in its turn:
// it counts against the same account, and an answer that asks to slow down closes
// the gate for all. // Invariant 4
func (s Session) aside(ctx context.Context, path string, ask func() error) error {
	if s.c == nil {
		return ask()
	}
	slot, err := s.c.gov.acquire(ctx, s.c.opts.MaxWait)
	if err != nil {
		return (&call{c: s.c, method: http.MethodPost, template: path, session: true}).unsent(err)
	}
	defer slot.done()
	err = ask()
	slot.unwatched()
	if r, ok := errors.AsType[*oauth2.RetrieveError](err); ok && r.Response.StatusCode == http.StatusTooManyRequests {
		slot.answered(r.Response)
	}
	return err
}

// SignIn has the client's credential sign in now, whatever is kept of earlier
// times: for a person who has asked for it. Other tokens of the same user may
// end by it.
func (c *Client) SignIn(ctx context.Context, by SignInBy) error {
	k, ok := c.cred.(interface {
		signIn(context.Context, Session, SignInBy) error
	})
	if !ok {
		return errors.New("there is nothing to sign in to: the credential is a key or token")
	}
	err := k.signIn(ctx, Session{c}, by)
	c.redact.Add(c.cred.Secrets()...)
	return err
}

// tokenRefused holds the endpoints that answered 401 to a token that had just been
// renewed: no further token is spent on them.
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
