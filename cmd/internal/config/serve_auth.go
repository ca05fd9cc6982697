package config

import (
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/extract/wire"
)

// minServeToken is the least length of a token in bytes. It also applies if the daemon listens only on this
// machine, because other users of the machine and clients of a proxy could guess a short token.
const minServeToken = 16

// ownerToken is the name of the token under `serve: {auth: {token: …}}`.
const ownerToken = "owner"

func (r *reader) serveAuth(n ast.Node) []ServeToken {
	var all []ServeToken
	given := 0
	ok := r.mapping(n, "serve auth", fields{
		"token": func(n ast.Node) {
			given++
			if s := r.serveSecret(n, "serve auth token"); s != "" {
				all = append(all, ServeToken{Name: ownerToken, Secret: s, Role: "operate"})
			}
		},
		"tokens": func(n ast.Node) {
			for _, v := range r.list(n, "serve auth tokens") {
				given++
				if t, ok := r.serveToken(v, all); ok {
					all = append(all, t)
				}
			}
		},
	})
	opens := func(t ServeToken) bool { return t.Role != "metrics" }
	switch {
	case !ok:
	case given == 0:
		r.fault(posOf(n), "serve auth has no token; want token: ${PENSTOCK_DASHBOARD_TOKEN}, or tokens: [{name: …, token: …, role: read}]")
	case given == len(all) && !slices.ContainsFunc(all, opens):
		r.fault(posOf(n), "serve auth: no token opens the dashboard; add token: ${PENSTOCK_DASHBOARD_TOKEN}, or one with role: read or operate")
	}
	return all
}

// serveToken reads one named token. Its name and its secret must differ from those of the others.
func (r *reader) serveToken(n ast.Node, others []ServeToken) (t ServeToken, ok bool) {
	const what = "serve auth tokens"
	t.Role = "read"
	ok = r.mapping(n, what, fields{
		"name": func(n ast.Node) {
			if s, ok := r.text(n, what+" name"); ok {
				t.Name = s.value
			}
		},
		"token": func(n ast.Node) { t.Secret = r.serveSecret(n, what+" token") },
		"role":  func(n ast.Node) { t.Role = r.choice(n, what+" role", ServeRoles()...) },
	})
	if ok {
		r.require(n, what, "name", "token")
	}
	if !ok || t.Secret == "" || t.Role == "" || t.Name == "" {
		return t, false
	}
	for _, o := range others {
		if o.Name == t.Name || o.Secret == t.Secret && t.Secret != unread {
			r.fault(posOf(n), "%s: %s and %s have the same name or the same token", what, o.Name, t.Name)
			return t, false
		}
	}
	return t, true
}

func (r *reader) serveSecret(n ast.Node, what string) wire.Secret {
	s := r.secret(n, what)
	if s == unread {
		return s // its length is unknown
	}
	if has := len(s.Reveal()); has > 0 && has < minServeToken {
		r.fault(posOf(n), "%s has %d bytes; want %d or more, such as `openssl rand -hex 16` prints", what, has, minServeToken)
		return ""
	}
	return s
}
