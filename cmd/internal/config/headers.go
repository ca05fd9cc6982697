package config

import (
	"maps"
	"net/textproto"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/extract/wire"
)

var secretName = regexp.MustCompile(`(?i)key|token|secret|auth|session|passw|sign`)

// headers reads names and values of HTTP headers. A value from ${…} is a secret. So is every value whose header
// has a name that suggests a secret, such as X-Api-Key. // Invariant 5
func (r *reader) headers(n ast.Node, what string) map[string]wire.Secret {
	es, ok := r.entries(n, what)
	if !ok {
		return nil
	}
	all := map[string]wire.Secret{}
	for _, e := range es {
		r.asSecret = true
		v, ok := r.text(e.value, what+" "+e.key)
		r.asSecret = false
		if !ok {
			continue
		}
		name, value := textproto.CanonicalMIMEHeaderKey(e.key), wire.Secret(strings.TrimSpace(v.value))
		if bad := wire.HeaderFault(e.key, value); bad != "" {
			r.fault(e.at, "%s: %s %s", what, e.key, bad)
			continue
		}
		if _, twice := all[name]; twice {
			r.fault(e.at, "%s: %s is set twice", what, name)
			continue
		}
		if value != unread && (v.raw != v.value || secretName.MatchString(name)) {
			r.secrets = append(r.secrets, value)
		}
		all[name] = value
	}
	return all
}

func (r *reader) authHeader(n ast.Node, what string) *scalar {
	s, ok := r.text(n, what)
	if !ok {
		return nil
	}
	if bad := wire.AuthHeaderFault(s.value); bad != "" {
		r.fault(s.at, "%s %q %s", what, s.raw, bad)
		return nil
	}
	return &s
}

func (r *reader) authScheme(n ast.Node, what string) *scalar {
	s, ok := r.scalar(n, what)
	if !ok {
		return nil
	}
	if strings.ContainsFunc(s.value, func(c rune) bool { return c <= ' ' || c > '~' }) {
		r.fault(s.at, "%s %q: want one word, or \"\" for none", what, s.raw)
		return nil
	}
	return &s
}

// placeAuth sets how a token or key is sent. The default is "Authorization: Bearer TOKEN", and in another header
// only the token.
func (r *reader) placeAuth(a *Auth, header, scheme *scalar, what string) {
	if header == nil && scheme == nil {
		return
	}
	if a.Login != nil || a.OAuth != nil {
		r.fault(a.At, "%s: header and scheme are only for a token or key", what)
		return
	}
	a.Header = "Authorization"
	if header != nil {
		a.Header = textproto.CanonicalMIMEHeaderKey(header.value)
	}
	switch {
	case scheme != nil:
		a.Scheme = scheme.value
	case a.Header == "Authorization":
		a.Scheme = "Bearer"
	}
}

// checkHeaders reports a header that would replace the one with the credential.
func (r *reader) checkHeaders(n ast.Node, what string, headers map[string]wire.Secret, a Auth) {
	if _, both := headers[a.Header]; both {
		r.fault(posOf(n), "%s: header %s is already used for the credential", what, a.Header)
	}
}

// joinHeaders returns the headers of a stream's requests. Headers of the stream replace those of its surface. The
// parameter credential is the name of the header for the credential; this header is left out.
func joinHeaders(surface, stream map[string]wire.Secret, credential string) map[string]wire.Secret {
	all := maps.Clone(surface)
	if all == nil {
		all = map[string]wire.Secret{}
	}
	maps.Copy(all, stream)
	maps.DeleteFunc(all, func(name string, _ wire.Secret) bool { return name == credential })
	return all
}
