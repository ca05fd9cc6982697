package config

import (
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// OAuth configures a sign-in by OAuth 2.0, which a person makes with `penstock login`.
type OAuth struct {
	ClientID     string
	ClientSecret wire.Secret // "" for a public client
	ClientAuth   string      // basic or post; "": as the issuer's metadata says

	Issuer       string // the authorization server; its metadata has the URLs that are not set here
	AuthorizeURL string
	TokenURL     string
	RevokeURL    string
	DeviceURL    string

	AuthorizeParams map[string]string // further parameters of the sign-in page
	RedirectURI     string            // "": http://127.0.0.1/callback, with any port
	Scopes          []string          // the scopes to request; nil: see [Config.Scopes]
	RefreshGrace    time.Duration     // see [wire.OAuthOptions]
}

func (r *reader) oauth(n ast.Node, what string) *OAuth {
	o := &OAuth{}
	word := func(to *string, key string) func(ast.Node) {
		return func(n ast.Node) {
			if s, ok := r.text(n, what+" "+key); ok {
				*to = s.value
			}
		}
	}
	address := func(to *string, key string) func(ast.Node) {
		return func(n ast.Node) { *to = r.address(n, what+" "+key) }
	}
	var issuer ast.Node
	ok := r.mapping(n, what, fields{
		"client_id":     word(&o.ClientID, "client_id"),
		"client_secret": func(n ast.Node) { o.ClientSecret = r.secret(n, what+" client_secret") },
		"client_auth":   func(n ast.Node) { o.ClientAuth = r.choice(n, what+" client_auth", wire.ClientBasic, wire.ClientPost) },
		"issuer": func(n ast.Node) {
			issuer = n
			if s, ok := r.urlText(n, what+" issuer"); ok {
				o.Issuer = s.value
			}
		},
		"authorize_url":    address(&o.AuthorizeURL, "authorize_url"),
		"token_url":        address(&o.TokenURL, "token_url"),
		"revoke_url":       address(&o.RevokeURL, "revoke_url"),
		"device_url":       address(&o.DeviceURL, "device_url"),
		"authorize_params": func(n ast.Node) { o.AuthorizeParams = r.authorizeParams(n, what+" authorize_params") },
		"redirect_uri":     func(n ast.Node) { o.RedirectURI = r.redirectURI(n, what+" redirect_uri") },
		"scopes":           func(n ast.Node) { o.Scopes = r.scopes(n, what+" scopes") },
		"refresh_grace":    func(n ast.Node) { o.RefreshGrace = r.refreshGrace(n, what+" refresh_grace") },
	})
	if !ok {
		return o
	}
	r.require(n, what, "client_id")
	if issuer == nil {
		r.require(n, what, "authorize_url", "token_url")
	} else if o.AuthorizeURL == "" || o.TokenURL == "" {
		r.address(issuer, what+" issuer") // must be https, because its metadata will be requested
	}
	return o
}

// ownParams are the parameters of the sign-in page that penstock sets.
var ownParams = []string{"client_id", "response_type", "redirect_uri", "scope", "state", "code_challenge", "code_challenge_method"}

func (r *reader) authorizeParams(n ast.Node, what string) map[string]string {
	es, ok := r.entries(n, what)
	if !ok {
		return nil
	}
	all := map[string]string{}
	for _, e := range es {
		if slices.Contains(ownParams, e.key) {
			r.fault(e.at, "%s: penstock sets %s itself", what, e.key)
			continue
		}
		if s, ok := r.text(e.value, what+" "+e.key); ok {
			all[e.key] = s.value
		}
	}
	return all
}

func (r *reader) redirectURI(n ast.Node, what string) string {
	s, ok := r.urlText(n, what)
	if !ok {
		return ""
	}
	if bad := wire.RedirectFault(s.value); bad != "" {
		r.fault(s.at, "%s %s; want http to 127.0.0.1, [::1] or localhost, or https and `penstock login --paste`", what, bad)
		return ""
	}
	return s.value
}

func (r *reader) refreshGrace(n ast.Node, what string) time.Duration {
	if s, ok := r.scalar(n, what); ok && s.value == "always" {
		return wire.GraceAlways
	}
	return r.duration(n, what)
}

// address reads an absolute URL. It must be safe to send secrets to it.
func (r *reader) address(n ast.Node, what string) string {
	s, ok := r.urlText(n, what)
	if !ok {
		return ""
	}
	u, bad := origin(s.value)
	if bad != "" {
		r.fault(s.at, "%s %s", what, bad)
		return ""
	}
	if !r.hostFits(u, what) {
		return ""
	}
	return u.String()
}

// scopes reads the scopes to request. It rejects a scope whose name says that it allows changes. // Invariant 9
func (r *reader) scopes(n ast.Node, what string) []string {
	var all []string
	for _, s := range r.texts(n, what) {
		if wire.ScopePermitsWriting(s.value) {
			r.fault(s.at, "%s: %q allows more than reading; penstock only reads", what, s.raw)
			continue
		}
		all = append(all, wire.ScopeWords(s.value)...)
	}
	return all
}

// Scopes returns the scopes to request for a surface of a source. If the file states scopes, they are the result.
// Otherwise Scopes returns for v2 the scopes that the streams of the pipelines need, and for app none, because that
// surface documents no scopes.
func (c *Config) Scopes(source string, surface schemas.Surface) []string {
	src, _ := c.Source(source)
	from := src.Surface(surface)
	if from == nil || from.Auth.OAuth == nil {
		return nil
	}
	if own := from.Auth.OAuth.Scopes; own != nil || surface != schemas.SurfaceV2 {
		return own
	}
	var all []string
	for _, p := range c.Pipelines {
		if !p.Reads(source) {
			continue
		}
		streams, err := c.Select(p, nil)
		if err != nil {
			continue
		}
		for _, s := range append(c.details(streams), c.withParents(streams)...) {
			if s.Surface == schemas.SurfaceV2 && !s.NeedsClient() {
				all = append(all, s.scope())
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// scope returns the scope that reading a stream needs. For streams outside the catalogue it guesses
// MODULE.read, such as crm.read.
func (s Stream) scope() string {
	if s.Scope != "" {
		return s.Scope
	}
	return s.Module + ".read"
}
