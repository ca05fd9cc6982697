package config

import (
	"slices"
	"time"

	"github.com/penstock-data/penstock/extract/wire"
)

// OAuth configures a sign-in by OAuth 2.0. A person signs in with `penstock login`.
type OAuth struct {
	ClientID     string
	ClientSecret wire.Secret // "" for a public client
	ClientAuth   string      // basic or post; "": the issuer's metadata decides

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

func readOAuth(v value) *OAuth {
	o := &OAuth{}
	var issuer value
	ok := v.mapping(fields{
		"client_id":     text(&o.ClientID),
		"client_secret": set(&o.ClientSecret, secret),
		"client_auth":   choice(&o.ClientAuth, wire.ClientBasic, wire.ClientPost),
		"issuer": func(v value) {
			issuer = v
			if s, ok := v.url(); ok {
				o.Issuer = s.value
			}
		},
		"authorize_url":    set(&o.AuthorizeURL, address),
		"token_url":        set(&o.TokenURL, address),
		"revoke_url":       set(&o.RevokeURL, address),
		"device_url":       set(&o.DeviceURL, address),
		"authorize_params": set(&o.AuthorizeParams, authorizeParams),
		"redirect_uri":     set(&o.RedirectURI, redirectURI),
		"scopes":           set(&o.Scopes, scopes),
		"refresh_grace":    set(&o.RefreshGrace, refreshGrace),
	}, "client_id")
	switch {
	case !ok:
	case !issuer.given():
		v.require("authorize_url", "token_url")
	case o.AuthorizeURL == "" || o.TokenURL == "":
		address(issuer) // must be https, because its metadata will be requested
	}
	return o
}

// ownParams are those parameters of the sign-in page that penstock itself sets.
var ownParams = []string{"client_id", "response_type", "redirect_uri", "scope", "state", "code_challenge", "code_challenge_method"}

func authorizeParams(v value) map[string]string {
	es, ok := v.entries()
	if !ok {
		return nil
	}
	all := map[string]string{}
	for _, e := range es {
		if slices.Contains(ownParams, e.key) {
			v.fault(e.at, "%s: penstock sets %s itself", v.what, e.key)
			continue
		}
		if s, ok := e.text(); ok {
			all[e.key] = s.value
		}
	}
	return all
}

func redirectURI(v value) string {
	s, ok := v.url()
	if !ok {
		return ""
	}
	if bad := wire.RedirectFault(s.value); bad != "" {
		v.fault(s.at, "%s %s; want http to 127.0.0.1, [::1] or localhost, or https and `penstock login --paste`", v.what, bad)
		return ""
	}
	return s.value
}

func refreshGrace(v value) time.Duration {
	if s, ok := v.scalar(); ok && s.value == "always" {
		return wire.GraceAlways
	}
	return period(v)
}

// scopes reads the scopes to request. It rejects a scope whose name says that it allows changes. // Invariant 9
func scopes(v value) []string {
	var all []string
	for _, s := range v.texts() {
		if wire.ScopePermitsWriting(s.value) {
			v.fault(s.at, "%s: %q allows more than reading; penstock only reads", v.what, s.raw)
			continue
		}
		all = append(all, wire.ScopeWords(s.value)...)
	}
	return all
}
