package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/penstock-data/penstock/state"
)

// OAuthOptions say how an [OAuth] credential is made. The client, both URLs and
// the slot are needed.
type OAuthOptions struct {
	ClientID     string
	ClientSecret Secret // "" for a public client
	AuthorizeURL string
	TokenURL     string
	Issuer       string // if known, the answer to a sign-in must name it (RFC 9207)
	Scopes       []string
	RedirectPort int // of the loopback listener; 0 for any that is free
	Slot         *state.Slot
	Patience     time.Duration // with the person who signs in; default 10 minutes
}

// OAuth is the credential of an OAuth 2.0 grant: somebody has allowed penstock
// in a browser, and it has kept that permission alive since by rotating tokens.
// It calls the token URL's origin and no other. // Invariant 10
type OAuth struct {
	conf     oauth2.Config
	issuer   string
	port     int
	patience time.Duration
	http     *http.Client
	hold     *holder
	redact   *Redactor
}

var _ Keeper = (*OAuth)(nil)

// NewOAuth returns the credential. It refuses URLs over which a token would
// travel in clear text, and scopes that are more than reading. Nothing is
// requested yet.
func NewOAuth(o OAuthOptions) (*OAuth, error) {
	token, err := endpoint("token_url", o.TokenURL)
	if err != nil {
		return nil, err
	}
	if _, err := endpoint("authorize_url", o.AuthorizeURL); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(o.Scopes, Writes); i >= 0 {
		return nil, fmt.Errorf("open oauth: scope %q is not for reading", o.Scopes[i])
	}
	c := oauth2.Config{
		ClientID: o.ClientID, ClientSecret: o.ClientSecret.Reveal(), Scopes: o.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: o.AuthorizeURL, TokenURL: o.TokenURL, AuthStyle: oauth2.AuthStyleInParams},
	}
	if o.ClientSecret != "" {
		c.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	}
	base := *token
	base.Host = hostPort(token)
	limits := Options{}.withDefaults()
	limits.Timeouts.Header = 30 * time.Second
	return &OAuth{
		conf: c, issuer: o.Issuer, port: o.RedirectPort, patience: orDefault(o.Patience, 10*time.Minute),
		hold: newHolder(o.Slot, o.ClientSecret), redact: NewRedactor(o.ClientSecret),
		http: &http.Client{
			Transport: newTransport(limits, &base),
			// A redirect would carry the grant to wherever it leads. // Invariant 10
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Writes reports whether a scope lets its holder change anything, as far as its
// name tells. // Invariant 9
func Writes(scope string) bool {
	scope = strings.ToLower(scope)
	return scope == "*" || slices.ContainsFunc([]string{"write", "admin", "manage", "delete"}, func(verb string) bool {
		return scope == verb || strings.HasSuffix(scope, "."+verb) || strings.HasSuffix(scope, ":"+verb)
	})
}

func endpoint(what, raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return nil, fmt.Errorf("open oauth: %s is no plain URL", what)
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return nil, fmt.Errorf("open oauth: %s is not https", what)
	}
	return u, nil
}

// Secrets returns the client's secret and every token that has been seen.
func (o *OAuth) Secrets() []Secret { return o.hold.secrets() }

// Format keeps the secrets out of a printed Options. // Invariant 5
func (o *OAuth) Format(f fmt.State, verb rune) { Secret("").Format(f, verb) }

// margin is how long before its end a token is renewed.
const margin = 30 * time.Second

// Token returns the access token that is kept, renewing one that has expired.
func (o *OAuth) Token(ctx context.Context, s Session) (Secret, error) {
	g, err := o.hold.current()
	switch {
	case err != nil:
		return "", err
	case g.access == "":
		return o.hold.replace(ctx, "", func(_ context.Context, x *exchange) error { return x.explain() })
	case !g.expires.IsZero() && g.expires.Sub(o.hold.slot.Now()) < margin:
		return o.Renew(ctx, s, g.access)
	}
	return g.access, nil
}

// Renew rotates the grant, once for all that come with the spent token.
func (o *OAuth) Renew(ctx context.Context, s Session, spent Secret) (Secret, error) {
	return o.hold.replace(ctx, spent, func(ctx context.Context, x *exchange) error {
		if x.g.refresh == "" || x.n.dead(x.g) {
			return x.explain()
		}
		err := o.refresh(ctx, s, x)
		if err != nil && x.n.dead(x.g) {
			return x.explain()
		}
		return err
	})
}

func (o *OAuth) refresh(ctx context.Context, s Session, x *exchange) error {
	if err := o.hold.patience(); err != nil {
		return err
	}
	return x.call(ctx, x.n.refreshing(x.h.stamp(), x.g), func(ctx context.Context) (grant, error) {
		g, err := o.ask(ctx, s, o.conf.TokenSource(o.client(ctx), &oauth2.Token{RefreshToken: x.g.refresh.Reveal()}).Token)
		g.signedIn = x.g.signedIn
		if g.scopes == nil {
			g.scopes = x.g.scopes
		}
		return g, err
	})
}

// ask makes a call of the token URL.
func (o *OAuth) ask(ctx context.Context, s Session, call func() (*oauth2.Token, error)) (grant, error) {
	var t *oauth2.Token
	err := s.aside(ctx, o.tokenPath(), func() (err error) {
		t, err = call()
		return err
	})
	if e, ok := errors.AsType[*Error](err); ok {
		return grant{}, e // it was not let through
	}
	if err != nil {
		return grant{}, o.fault(err)
	}
	return o.granted(t), nil
}

// client has x/oauth2 use the one client that reaches the token URL alone.
func (o *OAuth) client(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, o.http)
}

func (o *OAuth) granted(t *oauth2.Token) grant {
	g := newGrant(o.hold.stamp(), Secret(t.AccessToken), Secret(t.RefreshToken))
	if !t.Expiry.IsZero() {
		g.expires = o.hold.stamp().Add(time.Until(t.Expiry).Truncate(time.Second))
	}
	if list, ok := t.Extra("scope").(string); ok {
		g.scopes = strings.Fields(list)
	}
	return g
}

// fault sorts an error of the token URL: whether the server has refused, or may
// do better another time. // Invariant 5
func (o *OAuth) fault(err error) error {
	o.redact.Add(o.hold.secrets()...)
	e := &Error{Method: http.MethodPost, Path: o.tokenPath(), Attempts: 1}
	if r, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		status := r.Response.StatusCode
		e.Class, e.kept = tokenClass(status, r.ErrorCode)
		words := strings.Trim(r.ErrorCode+": "+r.ErrorDescription, ": ")
		e.Message = o.says(fmt.Sprintf("%d %s %s", status, statusText(status), words))
		return e
	}
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	e.Class, e.Message = Transient, o.says(err.Error())
	e.Err = &cause{text: e.Message, err: err}
	if untrusted(err) {
		e.Class, e.kept = Refused, true
	}
	return e
}

// says is what came of a call to the token URL, fit to be printed.
func (o *OAuth) says(words string) string {
	return o.redact.excerpt(oneLine("ask "+o.tokenPath()+" for a token: "+words), 256)
}

func (o *OAuth) tokenPath() string {
	u, err := url.Parse(o.conf.Endpoint.TokenURL)
	if err != nil {
		return "token_url"
	}
	return u.Path
}

// tokenClass sorts the answers of a token URL, and tells those that have left
// everything as it was. Only invalid_grant says that the grant has ended; the
// other refusals are about the configuration.
func tokenClass(status int, code string) (class Class, kept bool) {
	switch {
	case code == "invalid_grant":
		return Auth, false
	case status == http.StatusTooManyRequests, code == "slow_down":
		return Throttled, true
	case code == "temporarily_unavailable", code == "server_error", status >= 500,
		status == http.StatusRequestTimeout, status == http.StatusTooEarly, status < 300:
		return Transient, false
	}
	return Auth, true
}

// Standing tells what is kept.
func (o *OAuth) Standing() (Standing, error) {
	st, err := o.hold.standing("client "+o.conf.ClientID, func(x *exchange) error {
		if x.g.access == "" || x.n.dead(x.g) || x.g.refresh == "" && !x.g.expires.IsZero() && o.hold.stamp().After(x.g.expires) {
			return x.explain()
		}
		return nil
	})
	st.Retry = time.Time{} // a grant is not given without somebody
	if err != nil || st.SignedIn.IsZero() {
		return st, err
	}
	g, err := o.hold.current()
	for _, want := range o.conf.Scopes {
		if g.scopes != nil && !slices.Contains(g.scopes, want) {
			st.Lacking = append(st.Lacking, want)
		}
	}
	return st, err
}
