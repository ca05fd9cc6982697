package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/extract/wire/budget"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Client has the options of one HTTP client for reading a source. A run needs a client for each surface, and another
// client for each stream that has an origin, a credential or headers of its own.
type Client struct {
	Name    string      // v2, app, or the stream's name
	Account wire.Secret // identifies the credential; the server counts all requests with it together, so clients with the same Account share a governor
	wire.Options
}

// Clients returns the clients for reading the streams of a source and their parents. Each client may send only two
// kinds of requests: for the routes of its streams, and for the routes that check whether a single record still
// exists. // Invariant 9
//
// The clients store renewed tokens in the vault.
func (c *Config) Clients(source string, streams []Stream, vault *state.Vault) ([]Client, error) {
	src, _ := c.Source(source)
	if src.Faults != nil {
		return nil, src.Faults
	}
	all := c.withParents(streams)
	shared := &accounts{c: c, source: src, vault: vault, byIdentity: map[wire.Secret]*account{}}
	var clients []Client
	for _, surface := range []schemas.Surface{schemas.SurfaceV2, schemas.SurfaceApp} {
		from := src.Surface(surface)
		own := routes(append(c.details(streams), all...), func(s Stream) bool { return s.Surface == surface && !s.NeedsClient() })
		if from == nil || len(own) == 0 {
			continue
		}
		a, err := shared.accountOf(from.Auth, from, from.BaseURL)
		if err != nil {
			return nil, err
		}
		clients = append(clients, Client{string(surface), a.identity, wire.Options{
			Name: src.Name, BaseURL: from.BaseURL, Credential: a.credential, Governor: a.governor, MaxWait: from.MaxWait, Allow: own,
			AuthHeader: from.Auth.Header, AuthScheme: from.Auth.Scheme, Headers: from.Headers,
		}})
	}
	for _, s := range all {
		if !s.NeedsClient() {
			continue
		}
		cl, err := src.client(s, shared)
		if err != nil {
			return nil, err
		}
		clients = append(clients, cl)
	}
	return clients, nil
}

// SignIn has the options for signing in to one surface of a source.
type SignIn struct {
	Surface schemas.Surface
	Account wire.Secret // see [Client]
	wire.Options
}

// SignIns returns the surfaces of a source that need a sign-in.
func (c *Config) SignIns(source string, vault *state.Vault) ([]SignIn, error) {
	src, _ := c.Source(source)
	shared := &accounts{c: c, source: src, vault: vault, byIdentity: map[wire.Secret]*account{}}
	var all []SignIn
	for _, surface := range []schemas.Surface{schemas.SurfaceV2, schemas.SurfaceApp} {
		from := src.Surface(surface)
		if from == nil || !from.Auth.needsSignIn() {
			continue
		}
		a, err := shared.accountOf(from.Auth, from, from.BaseURL)
		if err != nil {
			return nil, err
		}
		all = append(all, SignIn{surface, a.identity, wire.Options{
			Name: src.Name, BaseURL: from.BaseURL, Credential: a.credential, Governor: a.governor, Headers: from.Headers, MaxWait: from.MaxWait,
		}})
	}
	return all, nil
}

type account struct {
	identity   wire.Secret // equal for credentials whose requests the server counts together
	credential wire.Credential
	governor   *budget.Governor
}

// accounts makes one account for each identity, so that all clients with this identity share one governor and one
// credential. Otherwise two credentials could sign in as the same user, and each sign-in would end the session of the
// other. // Invariant 4
type accounts struct {
	c          *Config
	source     Source
	vault      *state.Vault
	byIdentity map[wire.Secret]*account
}

// accountOf returns the account of a credential. If there is no credential, the base URL identifies the account.
func (as *accounts) accountOf(a Auth, at *Surface, base string) (*account, error) {
	cred, word, err := as.credential(a, at)
	if err != nil {
		return nil, err
	}
	if word == "" {
		word = wire.Secret("no credential at " + base)
	}
	if as.byIdentity[word] == nil {
		var b budget.Plan
		if at != nil {
			b = budget.Plan{Rate: at.Rate, Reserve: at.Reserve}
		}
		as.byIdentity[word] = &account{word, cred, budget.New(b)}
	}
	return as.byIdentity[word], nil
}

// credential returns a credential and its identity. Credentials have the same identity if the server counts their
// requests together.
func (as *accounts) credential(a Auth, at *Surface) (wire.Credential, wire.Secret, error) {
	switch {
	case a.APIKey != "":
		return wire.Rotating(a.APIKey, a.reread), a.APIKey, nil
	case a.Token != "":
		return wire.Rotating(a.Token, a.reread), a.Token, nil
	case a.Login != nil:
		// Sources that sign in as the same user share one token, because each sign-in ends the user's other sessions.
		entry := as.vault.Entry("login-" + digest(at.BaseURL, a.Login.Email)).For(originOf(at))
		return wire.NewLogin(a.Login.Email, a.Login.Password, entry), wire.Secret("login " + originOf(at) + " " + a.Login.Email), nil
	case a.OAuth != nil:
		return as.oauth(a.OAuth, at)
	}
	return wire.None(), "", nil
}

// oauth makes a credential for each surface of a source, because the surfaces differ in their server or scopes. Sources
// with the same OAuth client may be different accounts, so each source has an identity of its own.
func (as *accounts) oauth(o *OAuth, at *Surface) (wire.Credential, wire.Secret, error) {
	surface, server := schemas.SurfaceV2, cmp.Or(o.TokenURL, o.Issuer)
	words := []string{as.source.Name, server, o.ClientID}
	if at != nil && at == as.source.App {
		surface = schemas.SurfaceApp
		words = append(words, string(surface))
	}
	cred, err := wire.NewOAuth(wire.OAuthOptions{
		ClientID: o.ClientID, ClientSecret: o.ClientSecret, ClientAuth: o.ClientAuth,
		Issuer: o.Issuer, AuthorizeURL: o.AuthorizeURL, TokenURL: o.TokenURL, RevokeURL: o.RevokeURL, DeviceURL: o.DeviceURL,
		AuthorizeParams: o.AuthorizeParams, RedirectURI: o.RedirectURI, Grace: o.RefreshGrace, Scopes: as.c.Scopes(as.source.Name, surface),
		Entry: as.vault.Entry("oauth-" + as.source.Name + "-" + digest(words...)).For(originOf(at)),
	})
	if err != nil {
		return nil, "", fmt.Errorf("open source %s: %w", as.source.Name, err)
	}
	return cred, wire.Secret(strings.Join(append([]string{"oauth"}, words...), " ")), nil
}

func originOf(at *Surface) string {
	if at == nil {
		return ""
	}
	u, err := url.Parse(at.BaseURL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

func digest(words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// withParents adds the parents of the streams, because the requests of a child stream need keys of its parent's
// records.
func (c *Config) withParents(streams []Stream) []Stream {
	all := slices.Clone(streams)
	for i := 0; i < len(all); i++ {
		up := all[i].Parent
		if up == "" || slices.ContainsFunc(all, func(s Stream) bool { return s.Name == up }) {
			continue
		}
		if s, ok := c.Stream(up); ok {
			all = append(all, s)
		}
	}
	return all
}

// details returns the streams that read a single record of one of the lists.
func (c *Config) details(lists []Stream) []Stream {
	var all []Stream
	for _, s := range c.Streams {
		isParent := func(l Stream) bool { return l.Name == s.Parent && l.Surface == s.Surface }
		if s.Class == schemas.ClassDetail && s.Method == "GET" && s.Enabled && slices.ContainsFunc(lists, isParent) {
			all = append(all, s)
		}
	}
	return all
}

// client returns the client of a stream that has an origin, a credential or headers of its own. If the origin of the
// stream is that of a surface, the client also uses the headers of this surface. It uses the surface's credential if
// the stream has none. For any other origin, it uses no headers and no credential of a surface. // Invariant 10
func (s Source) client(st Stream, shared *accounts) (Client, error) {
	o := wire.Options{Name: s.Name + " " + st.Name, BaseURL: st.Origin, Allow: []wire.Route{{Method: st.Method, Path: st.Path}}}
	surface := s.Surface(st.Surface)
	if st.Origin != "" {
		surface = s.surfaceAt(st.Origin)
	}
	var auth Auth
	switch {
	case surface != nil:
		auth, o.MaxWait, o.Headers = surface.Auth, surface.MaxWait, surface.Headers
		if st.Origin == "" {
			o.BaseURL = surface.BaseURL
		}
	case st.Origin == "":
		return Client{}, fmt.Errorf("open stream %s: source %s has no surface %s", st.Name, s.Name, st.Surface)
	}
	if st.Credential.set() {
		auth = st.Credential
	}
	a, err := shared.accountOf(auth, surface, o.BaseURL)
	if err != nil {
		return Client{}, err
	}
	o.Credential, o.Governor = a.credential, a.governor
	o.AuthHeader, o.AuthScheme, o.Headers = auth.Header, auth.Scheme, joinHeaders(o.Headers, st.Headers, auth.Header)
	return Client{st.Name, a.identity, o}, nil
}

func routes(streams []Stream, want func(Stream) bool) []wire.Route {
	var all []wire.Route
	for _, s := range streams {
		if r := (wire.Route{Method: s.Method, Path: s.Path}); want(s) && !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	return all
}

// Scopes returns the scopes to request for a surface of a source. If the file has a list of scopes, Scopes returns it.
// Otherwise the result for v2 is the scopes that the streams of the pipelines need. For app it is nil, because that
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

// scope returns the scope that is needed to read a stream. If the catalogue has no scope for this stream, the result is
// a guess: MODULE.read, such as crm.read.
func (s Stream) scope() string {
	if s.Scope != "" {
		return s.Scope
	}
	return s.Module + ".read"
}
