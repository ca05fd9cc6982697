package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/penstock-data/penstock/extract/wire/budget"
)

// ErrNotRevocable is returned by [Client.SignOut] if no revocation endpoint is known.
var ErrNotRevocable = errors.New("the server has no revocation endpoint")

func queryEscaped(s string) string { return url.QueryEscape(s) }

// SignedOut is the outcome of a sign-out.
type SignedOut struct {
	Nothing     bool // nothing was stored
	Revoked     bool // the server has ended the grant
	AccessLasts bool // the server does not revoke access tokens; the last access token is valid until it expires
}

// SignOut revokes the stored tokens at the server (RFC 7009), and then removes them. If the server does not confirm,
// the tokens stay, so that SignOut can be called again. If local is true, SignOut only removes them; at the server,
// they stay valid until they expire. The tokens of a [Login] are always removed without a request.
func (c *Client) SignOut(ctx context.Context, local bool) (SignedOut, error) {
	k, ok := c.cred.(interface {
		signOut(context.Context, Session, bool) (SignedOut, error)
	})
	if !ok {
		return SignedOut{}, errors.New("cannot sign out: the credential is a key or token")
	}
	done, err := k.signOut(ctx, Session{c}, local)
	c.redact.Add(c.cred.Secrets()...)
	return done, err
}

func (o *OAuth) signOut(ctx context.Context, s Session, local bool) (SignedOut, error) {
	var done SignedOut
	_, err := o.hold.locked(ctx, func(ctx context.Context, x *exchange) (err error) {
		if x.g.access == "" {
			done.Nothing = true
			return nil
		}
		if !local {
			if done.AccessLasts, err = o.revoke(ctx, s, x.g); err != nil {
				return err
			}
			done.Revoked = true
		}
		return x.forget()
	})
	if err != nil {
		return SignedOut{}, err // after a cancellation, the variable done may still change
	}
	return done, nil
}

// revoke revokes the refresh token, and then the access token. The first result is true if the server revokes only
// refresh tokens.
func (o *OAuth) revoke(ctx context.Context, s Session, g grant) (accessLasts bool, err error) {
	raw, err := o.endpointOf(ctx, revokeEndpoint)
	if err != nil {
		return false, err
	}
	if raw == "" {
		return false, fmt.Errorf("sign out: %w; set revoke_url if there is one", ErrNotRevocable)
	}
	u, err := endpoint("revoke_url", raw)
	if err != nil {
		return false, o.misconfigured(err)
	}
	for _, t := range []struct {
		token Secret
		kind  string
	}{{g.refresh, "refresh_token"}, {g.access, "access_token"}} {
		if t.token == "" {
			continue
		}
		w := s.personWait()
		for n := 1; ; n++ {
			fault := o.revokeOne(ctx, u, t.token, t.kind)
			if fault == nil {
				break
			}
			if e, ok := errors.AsType[*Error](fault); ok && e.code == unsupportedToken && t.token == g.access && g.refresh != "" {
				return true, nil // the refresh token is revoked
			}
			if !w.retrySoon(ctx, fault, n) {
				return false, fmt.Errorf("sign out: %w", w.end(fault))
			}
		}
	}
	return false, nil
}

// unsupportedToken is the error code of a server that does not revoke this kind of token (RFC 7009, section 2.2.1).
const unsupportedToken = "unsupported_token_type"

// revokeOne revokes a token. It cannot detect an unknown token, because servers report success for it.
func (o *OAuth) revokeOne(ctx context.Context, u *url.URL, token Secret, kind string) error {
	form := url.Values{"token": {token.Reveal()}, "token_type_hint": {kind}}
	secret := o.opts.ClientSecret
	if secret == "" || o.clientAuth() == ClientPost {
		form.Set("client_id", o.opts.ClientID)
	}
	if secret != "" && o.clientAuth() == ClientPost {
		form.Set("client_secret", secret.Reveal())
	}
	o.redact.Add(o.hold.secrets()...)
	e := &Error{Method: http.MethodPost, Path: u.Path, Attempts: 1, unchanged: true}
	fail := func(class Class, words string) error {
		e.Class, e.outage = class, class == Transient
		e.Message = o.redact.excerpt(oneLine("revoke a token at "+u.Path+": "+words), 256)
		return e
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return fail(Refused, err.Error())
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	c := o.client(u, false)
	c.Transport = authenticated{c.Transport, o.opts.ClientID, secret, o.clientAuth()}
	resp, err := c.Do(r)
	if err != nil {
		class, err := unanswered(err)
		return fail(class, err.Error())
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // only for the message
	e.retryAfter, _ = budget.RetryAfter(resp.Header)
	words := fmt.Sprintf("%d %s %s", resp.StatusCode, statusText(resp.StatusCode), ErrorMessage(body))
	switch status := resp.StatusCode; {
	case status >= 200 && status < 300:
		return nil
	case status == http.StatusTooManyRequests, status >= 500, status == http.StatusRequestTimeout:
		return fail(Transient, words)
	}
	var refused struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &refused) == nil {
		e.code = refused.Error
	}
	return fail(Auth, words)
}

// forget removes the stored grant. It writes a note, which running processes read.
func (x *exchange) forget() error {
	if err := x.h.entry.Remove(); err != nil {
		return err
	}
	x.h.mu.Lock()
	x.h.grant, x.h.read, x.h.signInErr = grant{}, true, nil
	x.h.mu.Unlock()
	return x.setNote(note{SignedOut: x.h.stamp()})
}

// signOut makes no request, because a sign-out at the platform is not a read. // Invariant 9
func (l *Login) signOut(ctx context.Context, _ Session, _ bool) (SignedOut, error) {
	var done SignedOut
	_, err := l.hold.locked(ctx, func(_ context.Context, x *exchange) error {
		if done.Nothing = x.g.access == ""; done.Nothing {
			return x.h.entry.Remove() // a killed process may leave files
		}
		n := x.n
		if err := x.forget(); err != nil {
			return err
		}
		// A sign-out must not reset the limit of sign-ins.
		return x.setNote(note{SignedOut: x.h.stamp(), Recent: n.Recent, Failed: n.Failed, Retry: n.Retry})
	})
	if err != nil {
		return SignedOut{}, err
	}
	return done, nil
}
