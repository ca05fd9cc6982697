package config

import (
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// OAuth is how a grant is asked for and kept alive: OAuth 2.0, authorization
// code with PKCE. Somebody gives the grant with `penstock login`.
type OAuth struct {
	ClientID     string
	ClientSecret wire.Secret // "" for a public client
	AuthorizeURL string
	TokenURL     string
	Issuer       string
	Scopes       []string // over those that the selected streams need
	RedirectPort int      // 0 for any that is free
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
	ok := r.mapping(n, what, fields{
		"client_id":     word(&o.ClientID, "client_id"),
		"client_secret": func(n ast.Node) { o.ClientSecret = r.secret(n, what+" client_secret") },
		"authorize_url": address(&o.AuthorizeURL, "authorize_url"),
		"token_url":     address(&o.TokenURL, "token_url"),
		"issuer":        word(&o.Issuer, "issuer"),
		"scopes":        func(n ast.Node) { o.Scopes = r.scopes(n, what+" scopes") },
		"redirect_port": func(n ast.Node) { o.RedirectPort = r.number(n, what+" redirect_port", 1024, 65535) },
	})
	if ok {
		r.require(n, what, "client_id", "authorize_url", "token_url")
	}
	return o
}

// address reads an absolute URL that secrets travel to, with its path.
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

// scopes reads a list of scopes, none of which may change anything.
// // Invariant 9
func (r *reader) scopes(n ast.Node, what string) []string {
	var all []string
	for _, s := range r.texts(n, what) {
		if wire.Writes(s.value) {
			r.fault(s.at, "%s: %q is more than reading, and penstock only reads", what, s.raw)
			continue
		}
		all = append(all, s.value)
	}
	return all
}

// Scopes are the least that the grant of a source's versioned surface must
// allow for what its pipelines read, unless the file names others.
func (c *Config) Scopes(source string) []string {
	src, _ := c.Source(source)
	if src.V2 == nil || src.V2.Auth.OAuth == nil {
		return nil
	}
	if own := src.V2.Auth.OAuth.Scopes; own != nil {
		return own
	}
	var all []string
	for _, p := range c.Pipelines {
		if !p.Reads(source) {
			continue
		}
		streams, err := c.Select(p, nil)
		if err != nil {
			continue // its own fault, told where the pipeline is used
		}
		for _, s := range append(c.details(streams), c.withParents(streams)...) {
			if s.Surface == schemas.SurfaceV2 && !s.Apart() {
				all = append(all, s.scope())
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// scope is what reading a stream takes. Of one that the catalogue does not know
// the module's own is the best guess.
func (s Stream) scope() string {
	if s.Scope != "" {
		return s.Scope
	}
	return s.Module + ".read"
}
