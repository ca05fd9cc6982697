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
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Client is a client that a run needs: the options it is made with and what it
// is for, a surface or one stream that has an origin or a credential of its own.
type Client struct {
	Name    string      // v2, app, or the stream's name
	Account wire.Secret // what the server counts by: the same for clients with one governor
	wire.Options
}

// Clients are the clients that reading these streams of a source takes, those
// for their parents included. What each may request is the routes of its
// streams, and of those that say whether a record of theirs is still there, and
// nothing else. // Invariant 9
//
// Tokens that change by themselves are kept in the vault.
func (c *Config) Clients(source string, streams []Stream, vault *state.Vault) ([]Client, error) {
	src, _ := c.Source(source)
	if src.Faults != nil {
		return nil, src.Faults
	}
	all := c.withParents(streams)
	shared := &accounts{c: c, source: src, vault: vault, byWord: map[wire.Secret]*account{}}
	var clients []Client
	for _, surface := range []schemas.Surface{schemas.SurfaceV2, schemas.SurfaceApp} {
		from := src.Surface(surface)
		own := routes(append(c.details(streams), all...), func(s Stream) bool { return s.Surface == surface && !s.Apart() })
		if from == nil || len(own) == 0 {
			continue
		}
		a, err := shared.of(from.Auth, from, from.BaseURL)
		if err != nil {
			return nil, err
		}
		clients = append(clients, Client{string(surface), a.word, wire.Options{
			Name: src.Name, BaseURL: from.BaseURL, Credential: a.credential, Governor: a.governor, MaxWait: from.MaxWait, Allow: own,
			AuthHeader: from.Auth.Header, AuthScheme: from.Auth.Scheme, Headers: from.Headers,
		}})
	}
	for _, s := range all {
		if !s.Apart() {
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

// SignIn is what signing in to one surface of a source takes.
type SignIn struct {
	Surface schemas.Surface
	Account wire.Secret // as of a Client
	wire.Options
}

// SignIns are the surfaces of a source whose credential somebody signs in with.
func (c *Config) SignIns(source string, vault *state.Vault) ([]SignIn, error) {
	src, _ := c.Source(source)
	shared := &accounts{c: c, source: src, vault: vault, byWord: map[wire.Secret]*account{}}
	var all []SignIn
	for _, surface := range []schemas.Surface{schemas.SurfaceV2, schemas.SurfaceApp} {
		from := src.Surface(surface)
		if from == nil || !from.Auth.kept() {
			continue
		}
		a, err := shared.of(from.Auth, from, from.BaseURL)
		if err != nil {
			return nil, err
		}
		all = append(all, SignIn{surface, a.word, wire.Options{
			Name: src.Name, BaseURL: from.BaseURL, Credential: a.credential, Governor: a.governor, Headers: from.Headers, MaxWait: from.MaxWait,
		}})
	}
	return all, nil
}

// account is what the server counts requests by, and whom it lets in.
type account struct {
	word       wire.Secret // the same for two that the server would count as one
	credential wire.Credential
	governor   *wire.Governor
}

// accounts has one for each that the server tells apart. Two that sign in with
// the same user would end each other's tokens. // Invariant 4
type accounts struct {
	c      *Config
	source Source
	vault  *state.Vault
	byWord map[wire.Secret]*account
}

// of is the account of a credential at a surface, or at none, made as the
// surface says if it is the first. Requests without a credential are counted by
// where they go.
func (as *accounts) of(a Auth, at *Surface, base string) (*account, error) {
	cred, word, err := as.credential(a, at)
	if err != nil {
		return nil, err
	}
	if word == "" {
		word = wire.Secret("nobody at " + base)
	}
	if as.byWord[word] == nil {
		var b wire.Budget
		if at != nil {
			b = wire.Budget{Rate: at.Rate, Reserve: at.Reserve}
		}
		as.byWord[word] = &account{word, cred, wire.NewGovernor(b)}
	}
	return as.byWord[word], nil
}

// credential makes what authorises requests, and a word that is the same for
// two credentials which the server would count as one.
func (as *accounts) credential(a Auth, at *Surface) (wire.Credential, wire.Secret, error) {
	switch {
	case a.APIKey != "":
		return wire.Rotating(a.APIKey, a.again), a.APIKey, nil
	case a.Token != "":
		return wire.Rotating(a.Token, a.again), a.Token, nil
	case a.Login != nil:
		// One user has one token, whatever the source is called.
		slot := as.vault.Slot("login-" + digest(at.BaseURL, a.Login.Email)).For(originOf(at))
		return wire.NewLogin(a.Login.Email, a.Login.Password, slot), wire.Secret(a.Login.Email), nil
	case a.OAuth != nil:
		return as.oauth(a.OAuth, at)
	}
	return wire.None(), "", nil
}

// oauth makes the grant of a surface. Each surface has one of its own: they are other
// servers, or take other scopes.
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
		Slot: as.vault.Slot("oauth-" + as.source.Name + "-" + digest(words...)).For(originOf(at)),
	})
	if err != nil {
		return nil, "", fmt.Errorf("open source %s: %w", as.source.Name, err)
	}
	return cred, wire.Secret(strings.Join(append([]string{"oauth", server, o.ClientID}, words[3:]...), " ")), nil
}

// originOf is the scheme and host of a surface, "" of none.
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

// digest tells apart what words cannot, in the name of a file.
func digest(words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// withParents adds the parents that are read for their keys alone.
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

// details are the streams that say of one record of a list whether it is there:
// a run asks them about rows that the list lacks.
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

// Stream is the stream named name.
func (c *Config) Stream(name string) (Stream, bool) {
	return find(c.Streams, func(s Stream) bool { return s.Name == name })
}

// Surface is how one of the source's two APIs is reached; nil where it is not.
func (s Source) Surface(which schemas.Surface) *Surface {
	if which == schemas.SurfaceV2 {
		return s.V2
	}
	return s.App
}

// Apart reports whether a stream cannot go through its surface's client: it has an
// origin, a credential or headers of its own.
func (s Stream) Apart() bool { return s.Origin != "" || s.Credential.set() || s.Headers != nil }

func (a Auth) set() bool { return a.APIKey != "" || a.Token != "" || a.Login != nil || a.OAuth != nil }

// kept reports whether somebody signs in with it, and its tokens are kept.
func (a Auth) kept() bool { return a.Login != nil || a.OAuth != nil }

// client is that of a stream which has one of its own. An origin that is a
// surface's gets that surface's credential and headers, any other none but the
// stream's own. // Invariant 10
func (s Source) client(st Stream, shared *accounts) (Client, error) {
	o := wire.Options{Name: s.Name + " " + st.Name, BaseURL: st.Origin, Allow: []wire.Route{{Method: st.Method, Path: st.Path}}}
	surface := s.Surface(st.Surface)
	if st.Origin != "" {
		surface = s.at(st.Origin)
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
	a, err := shared.of(auth, surface, o.BaseURL)
	if err != nil {
		return Client{}, err
	}
	o.Credential, o.Governor = a.credential, a.governor
	o.AuthHeader, o.AuthScheme, o.Headers = auth.Header, auth.Scheme, joinHeaders(o.Headers, st.Headers, auth.Header)
	return Client{st.Name, a.word, o}, nil
}

// at is the surface with this origin, if any.
func (s Source) at(origin string) *Surface {
	for _, f := range []*Surface{s.V2, s.App} {
		if f != nil && (f.BaseURL == origin || strings.HasPrefix(f.BaseURL, origin+"/")) {
			return f
		}
	}
	return nil
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
