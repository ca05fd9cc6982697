package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// Client is a client that a run needs: the options it is made with and what it
// is for, a surface or one stream that has an origin or a credential of its own.
type Client struct {
	Name string // v2, app, or the stream's name
	wire.Options
}

// Clients are the clients that reading these streams of a source takes, those
// for their parents included. What each may request is the routes of its
// streams, and of those that say whether a record of theirs is still there, and
// nothing else. // Invariant 9
func (c *Config) Clients(source string, streams []Stream) ([]Client, error) {
	src, _ := c.Source(source)
	all := c.withParents(streams)
	shared := governors{}
	var clients []Client
	for _, surface := range []schemas.Surface{schemas.SurfaceV2, schemas.SurfaceApp} {
		from := src.Surface(surface)
		own := routes(append(c.details(streams), all...), func(s Stream) bool { return s.Surface == surface && !s.apart() })
		if from == nil || len(own) == 0 {
			continue
		}
		cred, account := from.Auth.credential()
		clients = append(clients, Client{string(surface), wire.Options{
			Name: src.Name, BaseURL: from.BaseURL, Credential: cred, Governor: shared.of(account, from.Rate), Allow: own,
		}})
	}
	for _, s := range all {
		if !s.apart() {
			continue
		}
		o, err := src.options(s, shared)
		if err != nil {
			return nil, err
		}
		clients = append(clients, Client{s.Name, o})
	}
	return clients, nil
}

// governors has one for each account that the server counts by. // Invariant 4
type governors map[wire.Secret]*wire.Governor

// of is the account's governor, made with this rate if it is the first; one of
// its own for requests without a credential.
func (g governors) of(account wire.Secret, r wire.Rate) *wire.Governor {
	if account == "" {
		return wire.NewGovernor(r)
	}
	if g[account] == nil {
		g[account] = wire.NewGovernor(r)
	}
	return g[account]
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

// apart reports whether a stream cannot go through its surface's client.
func (s Stream) apart() bool { return s.Origin != "" || s.Credential.set() }

func (a Auth) set() bool { return a.APIKey != "" || a.Token != "" || a.Login != nil }

// credential makes what authorises requests, and a word that is the same for
// two credentials which the server would count as one.
func (a Auth) credential() (wire.Credential, wire.Secret) {
	switch {
	case a.APIKey != "":
		return wire.Bearer(a.APIKey), a.APIKey
	case a.Token != "":
		return wire.Bearer(a.Token), a.Token
	case a.Login != nil:
		return wire.NewLogin(a.Login.Email, a.Login.Password), wire.Secret(a.Login.Email)
	}
	return wire.None(), ""
}

// options are those of a stream with a client of its own. An origin that is a
// surface's gets that surface's credential, any other none but the stream's
// own. // Invariant 10
func (s Source) options(st Stream, shared governors) (wire.Options, error) {
	o := wire.Options{Name: s.Name + " " + st.Name, BaseURL: st.Origin, Allow: []wire.Route{{Method: st.Method, Path: st.Path}}}
	surface := s.Surface(st.Surface)
	if st.Origin != "" {
		surface = s.at(st.Origin)
	}
	var auth Auth
	var rate wire.Rate
	switch {
	case surface != nil:
		auth, rate = surface.Auth, surface.Rate
		if st.Origin == "" {
			o.BaseURL = surface.BaseURL
		}
	case st.Origin == "":
		return o, fmt.Errorf("open stream %s: source %s has no surface %s", st.Name, s.Name, st.Surface)
	}
	if st.Credential.set() {
		auth = st.Credential
	}
	var account wire.Secret
	o.Credential, account = auth.credential()
	o.Governor = shared.of(account, rate)
	return o, nil
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
