package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/penstock-data/penstock/state"
)

// OAuthOptions configure an [OAuth] credential. ClientID and Entry are required. So are AuthorizeURL and TokenURL,
// unless Issuer publishes them as metadata.
type OAuthOptions struct {
	ClientID     string
	ClientSecret Secret // "" for a public client
	ClientAuth   string // [ClientBasic], [ClientPost], or "": basic, unless the issuer accepts only post

	// Issuer is the authorization server. Its metadata provides the endpoints that are not set here (RFC 8414, OpenID
	// Connect Discovery). If the answer to a sign-in names another issuer, penstock refuses it (RFC 9207).
	Issuer       string
	AuthorizeURL string
	TokenURL     string
	RevokeURL    string // RFC 7009
	DeviceURL    string // RFC 8628

	AuthorizeParams map[string]string // additional parameters of the sign-in page's URL

	// RedirectURI is the address to which the server sends the browser back. If this is a loopback address, penstock
	// listens there. If the address has no port, penstock uses any free port. "" means http://127.0.0.1/callback.
	RedirectURI string

	Scopes []string

	// Grace is how long the server accepts a refresh token again after its first use. If the server does not rotate
	// refresh tokens, Grace is [GraceAlways]. 0 means unknown. Then, after a renewal whose answer was lost, penstock
	// sends the same refresh token again only if the last successful renewal has shown that the server does not rotate
	// refresh tokens.
	Grace time.Duration

	Entry    *state.Entry
	Patience time.Duration // how long to wait for the person who signs in; default 10 minutes
}

// The ways in which a client sends its secret (RFC 6749, section 2.3.1).
const (
	ClientBasic = "basic" // in the Authorization header
	ClientPost  = "post"  // in the body
)

// GraceAlways is the grace of a server that does not rotate refresh tokens.
const GraceAlways time.Duration = 1<<63 - 1

// OAuth is the credential of an OAuth 2.0 grant. A person has authorized penstock in a browser, and penstock renews the
// tokens. The credential sends requests only to the origins of the configured endpoints or of the issuer.
// Invariant 10
type OAuth struct {
	opts     OAuthOptions
	redirect *url.URL
	hold     *holder
	redact   *Redactor

	mu             sync.Mutex
	issuerMetadata *metadata
	clients        map[string]*http.Transport
}

var _ Keeper = (*OAuth)(nil)

// NewOAuth returns the credential. It refuses URLs that would send a token in clear text, and scopes that permit
// writing. It makes no request.
func NewOAuth(o OAuthOptions) (*OAuth, error) {
	for _, u := range []struct{ what, raw string }{
		{"token_url", o.TokenURL}, {"authorize_url", o.AuthorizeURL}, {"revoke_url", o.RevokeURL}, {"device_url", o.DeviceURL}, {"issuer", o.Issuer},
	} {
		if u.raw == "" && (o.Issuer != "" || u.what == "revoke_url" || u.what == "device_url" || u.what == "issuer") {
			continue
		}
		if u.what == "issuer" && o.TokenURL != "" && o.AuthorizeURL != "" {
			continue // penstock sends no request to the issuer, and only compares its URL with the issuer that an answer names
		}
		if _, err := endpoint(u.what, u.raw); err != nil {
			return nil, err
		}
	}
	if i := slices.IndexFunc(o.Scopes, ScopePermitsWriting); i >= 0 {
		return nil, fmt.Errorf("open oauth: scope %q is not read-only", o.Scopes[i])
	}
	o.RedirectURI = orDefault(o.RedirectURI, DefaultRedirect)
	back, err := url.Parse(o.RedirectURI)
	if err != nil || RedirectFault(o.RedirectURI) != "" {
		return nil, fmt.Errorf("open oauth: redirect_uri %s", RedirectFault(o.RedirectURI))
	}
	o.Patience = orDefault(o.Patience, 10*time.Minute)
	return &OAuth{
		opts: o, redirect: back, clients: map[string]*http.Transport{},
		hold: newHolder(o.Entry, o.ClientSecret), redact: NewRedactor(o.ClientSecret),
	}, nil
}

func endpoint(what, raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return nil, fmt.Errorf("open oauth: %s is not a plain URL", what)
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return nil, fmt.Errorf("open oauth: %s is not https", what)
	}
	return u, nil
}

// Secrets returns the client's secret and every token that the credential has had.
func (o *OAuth) Secrets() []Secret { return o.hold.secrets() }

// Format redacts the secrets in printed Options. // Invariant 5
func (o *OAuth) Format(f fmt.State, verb rune) { Secret("").Format(f, verb) }

// Token returns the stored access token. If the token expires soon, Token renews it.
func (o *OAuth) Token(ctx context.Context, s Session) (Secret, error) {
	g, err := o.hold.current()
	switch {
	case err != nil:
		return "", err
	case g.access == "":
		return o.hold.replace(ctx, "", func(_ context.Context, x *exchange) error { return x.explain() })
	case g.due(o.hold.entry.Now()):
		return o.Renew(ctx, s, g.access)
	}
	return g.access, nil
}

// Renew renews the grant, once for all concurrent callers. If the token endpoint is failing, Renew waits: see
// [outageWait].
func (o *OAuth) Renew(ctx context.Context, s Session, oldToken Secret) (Secret, error) {
	w := newOutageWait(s.maxWait())
	for {
		token, err := o.hold.replace(ctx, oldToken, func(ctx context.Context, x *exchange) error { return o.renew(ctx, s, x) })
		if err == nil || !w.sleep(ctx, err) {
			return token, w.end(err)
		}
	}
}

func (o *OAuth) renew(ctx context.Context, s Session, x *exchange) error {
	if x.g.refresh == "" || x.n.dead(x.g) || o.spent(x) {
		return x.explain()
	}
	if err := x.tooEarly(); err != nil {
		return err
	}
	err := o.refresh(ctx, s, x)
	if err != nil && (x.n.dead(x.g) || o.spent(x)) {
		return x.explain()
	}
	return err
}

// spent reports whether a call with a lost answer may have used the refresh token. If so, penstock does not send the
// token again: a server that detects reuse ends the grant.
func (o *OAuth) spent(x *exchange) bool {
	if !x.n.open(x.g) || x.g.rotation == rotationNone || o.opts.Grace == GraceAlways {
		return false
	}
	return o.opts.Grace == 0 || x.h.stamp().Sub(x.n.Call.At) >= o.opts.Grace
}

func (o *OAuth) refresh(ctx context.Context, s Session, x *exchange) error {
	conf, err := o.config(ctx)
	if err != nil {
		return errors.Join(err, x.noteOutage(err))
	}
	began := func() note { return x.n.refreshing(x.h.stamp(), x.g) }
	return o.ask(ctx, s, x, conf, began, func(ctx context.Context) (*oauth2.Token, error) {
		return conf.TokenSource(ctx, &oauth2.Token{RefreshToken: x.g.refresh.Reveal()}).Token()
	}, func(g grant) grant {
		g.signedIn = x.g.signedIn
		if g.scopes == nil {
			g.scopes = x.g.scopes
		}
		g.rotation = rotationUsed
		if g.refresh == x.g.refresh {
			g.rotation = rotationNone
		}
		return g
	})
}

// State returns what is stored.
func (o *OAuth) State() (CredentialState, error) {
	var g grant
	st, err := o.hold.standing("client "+o.opts.ClientID, func(x *exchange) error {
		g = x.g
		if x.g.access == "" || x.n.dead(x.g) || o.spent(x) || x.g.refresh == "" && !x.g.expires.IsZero() && o.hold.stamp().After(x.g.expires) {
			return x.explain()
		}
		return nil
	})
	st.Retry = time.Time{} // a person must renew the grant
	st.Redirect = o.redirectWords()
	if err != nil || g.access == "" {
		return st, err
	}
	st.MissingScopes, st.NoRefresh = g.lacking(o.opts.Scopes), g.refresh == ""
	return st, err
}

// lacking returns the wanted scopes that the server has not granted. A grant with a refresh token has offline_access,
// even if the server does not list that scope.
func (g grant) lacking(want []string) []string {
	if g.scopes == nil {
		return nil
	}
	var all []string
	for _, s := range ScopeWords(want...) {
		if !slices.Contains(g.scopes, s) && (s != offlineAccess || g.refresh == "") {
			all = append(all, s)
		}
	}
	return all
}

const offlineAccess = "offline_access"

// ScopeWords splits texts into scopes, in order and without duplicates. The separator is a space (RFC 6749); some
// servers use a comma.
func ScopeWords(texts ...string) []string {
	var all []string
	for _, text := range texts {
		for _, s := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' }) {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// ScopePermitsWriting reports whether the name of a scope suggests that it permits changes. // Invariant 9
func ScopePermitsWriting(scopes string) bool {
	return slices.ContainsFunc(ScopeWords(strings.ToLower(scopes)), func(scope string) bool {
		return scope == "*" || slices.ContainsFunc([]string{"write", "admin", "manage", "delete"}, func(verb string) bool {
			return scope == verb || strings.HasSuffix(scope, "."+verb) || strings.HasSuffix(scope, ":"+verb)
		})
	})
}

func isOutage(err error) (*Error, bool) {
	e, ok := errors.AsType[*Error](err)
	return e, ok && e.outage
}
