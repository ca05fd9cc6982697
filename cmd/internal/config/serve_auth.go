package config

import (
	"slices"

	"github.com/penstock-data/penstock/extract/wire"
)

// minServeToken is the least length of a token in bytes. It applies even if the daemon listens only on this machine,
// because other users of the machine, or clients of a proxy, could guess a short token.
const minServeToken = 16

// ownerToken is the name of the token under `serve: {auth: {token: …}}`.
const ownerToken = "owner"

func readServeAuth(v value) []ServeToken {
	var all []ServeToken
	given := 0
	ok := v.mapping(fields{
		"token": func(v value) {
			given++
			if s := serveSecret(v); s != "" {
				all = append(all, ServeToken{Name: ownerToken, Secret: s, Role: "operate"})
			}
		},
		"tokens": func(v value) {
			for _, item := range v.list() {
				given++
				if t, ok := readServeToken(item, all); ok {
					all = append(all, t)
				}
			}
		},
	})
	opens := func(t ServeToken) bool { return t.Role != "metrics" }
	switch {
	case !ok:
	case given == 0:
		v.fault(v.pos(), "serve auth has no token; want token: ${PENSTOCK_DASHBOARD_TOKEN}, or tokens: [{name: …, token: …, role: read}]")
	case given == len(all) && !slices.ContainsFunc(all, opens):
		v.fault(v.pos(), "serve auth: no token opens the dashboard; add token: ${PENSTOCK_DASHBOARD_TOKEN}, or one with role: read, query or operate")
	}
	return all
}

// readServeToken reads one named token. Its name and its secret must differ from those of the other tokens.
func readServeToken(v value, others []ServeToken) (t ServeToken, ok bool) {
	t.Role = "read"
	ok = v.mapping(fields{
		"name":  text(&t.Name),
		"token": set(&t.Secret, serveSecret),
		"role":  choice(&t.Role, ServeRoles()...),
	}, "name", "token")
	if !ok || t.Secret == "" || t.Role == "" || t.Name == "" {
		return t, false
	}
	for _, o := range others {
		if o.Name == t.Name || o.Secret == t.Secret && t.Secret != unread {
			v.fault(v.pos(), "%s: %s and %s have the same name or the same token", v.what, o.Name, t.Name)
			return t, false
		}
	}
	return t, true
}

func serveSecret(v value) wire.Secret {
	s := secret(v)
	if s == unread {
		return s // the command was not run, so the length is unknown
	}
	if has := len(s.Reveal()); has > 0 && has < minServeToken {
		v.fault(v.pos(), "%s has %d bytes; want %d or more, such as `openssl rand -hex 16` prints", v.what, has, minServeToken)
		return ""
	}
	return s
}
