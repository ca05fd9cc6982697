package config

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/extract/wire"
)

// baseURL reads the base URL of a surface. The surface's credential is sent only to this address. // Invariant 10
func (r *reader) baseURL(n ast.Node, what string) string {
	s, ok := r.urlText(n, what)
	if !ok {
		return ""
	}
	u, bad := origin(s.value)
	if bad == "" {
		u.Path = strings.TrimRight(u.Path, "/")
		if last := u.Path[strings.LastIndexByte(u.Path, '/')+1:]; last == "v2" || last == "api" {
			bad = "ends in /" + last + "; remove that, penstock adds it"
		}
	}
	if bad == "" && (u.RawQuery != "" || u.ForceQuery) {
		bad = "contains a query"
	}
	if bad != "" {
		r.fault(s.at, "%s %s", what, bad)
		return ""
	}
	if !r.hostFits(u, what) {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

// origin parses a URL to which a credential will be sent. If it must not be sent there, origin returns the
// reason. The reason does not quote the URL, which may contain a secret.
func origin(s string) (*url.URL, string) {
	u, err := url.Parse(strings.TrimSpace(s))
	if err != nil {
		return nil, "is not a URL"
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	switch host := u.Hostname(); {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, "has no http or https scheme; want https://host"
	case u.User != nil:
		return nil, "contains a user or password; put credentials under auth"
	case host == "":
		return nil, "has no host"
	case !isASCII(host):
		return nil, "has a host with non-ASCII letters; write its xn-- form"
	case strings.HasSuffix(host, "."):
		return nil, "has a host that ends in a dot"
	case !isPort(u):
		return nil, "has an invalid port; want 1 to 65535"
	case u.Fragment != "" || strings.HasSuffix(s, "#"):
		return nil, "contains a fragment"
	case u.Scheme == "http" && !isLoopback(host):
		return nil, "is http, which would send credentials in clear text; use https, or http only for localhost"
	}
	return u, ""
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' })
}

func isPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	p, err := strconv.Atoi(u.Port())
	return err == nil && p > 0 && p < 1<<16
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

func (r *reader) hosts(n ast.Node, what string) []string {
	var all []string
	for _, s := range r.texts(n, what) {
		if strings.ContainsAny(s.value, "/:*@ ") {
			r.fault(s.at, "%s %q: want only a host name, such as penstock.example.org", what, s.raw)
			continue
		}
		all = append(all, s.value)
	}
	return all
}

// state reads a directory, the URL of a database, or a mapping.
func (r *reader) state(n ast.Node) State {
	if _, block := r.resolve(n).(ast.MapNode); !block {
		return r.stateKey(r.statePath(n), "")
	}
	st := State{At: posOf(n), Dir: DefaultState}
	tokens := ""
	var key wire.Secret
	r.mapping(n, "state", fields{
		"path":   func(n ast.Node) { st = r.statePath(n) },
		"tokens": func(n ast.Node) { tokens = r.choice(n, "state tokens", "file", "keyring") },
		"key":    func(n ast.Node) { key = r.identity(n, "state key") },
	})
	st.Keyring = tokens == "keyring"
	if st.Keyring && st.URL != "" {
		r.fault(st.At, "state tokens: a shared database stores tokens itself, encrypted; remove keyring")
	}
	return r.stateKey(st, key)
}

// StateKeyName is the default environment variable with the key of the state.
const StateKeyName = "PENSTOCK_STATE_KEY"

func (r *reader) stateKey(st State, key wire.Secret) State {
	if text, set := r.Env(StateKeyName); set && key == "" {
		key = wire.Secret(strings.TrimSpace(text))
		r.secrets = append(r.secrets, key)
	}
	st.Key = key
	return st
}

func (r *reader) identity(n ast.Node, what string) wire.Secret {
	s, ok := r.text(n, what)
	if !ok {
		return ""
	}
	key := strings.TrimSpace(s.value)
	for line := range strings.Lines(key) {
		r.secrets = append(r.secrets, wire.Secret(strings.TrimSpace(line)))
	}
	return wire.Secret(key)
}

func (r *reader) statePath(n ast.Node) State {
	s, ok := r.text(n, "state")
	if !ok {
		return State{At: posOf(n)}
	}
	scheme, _, isURL := strings.Cut(s.value, "://")
	switch {
	case !isURL:
		return State{At: s.at, Dir: s.value}
	case scheme == "postgres" || scheme == "postgresql":
		if u, err := url.Parse(s.value); err == nil {
			if password, set := u.User.Password(); set && password != "" {
				r.secrets = append(r.secrets, wire.Secret(password))
			}
		}
		return State{At: s.at, URL: wire.Secret(s.value)}
	}
	r.fault(s.at, "state is neither a directory nor a postgres:// URL")
	return State{At: s.at}
}
