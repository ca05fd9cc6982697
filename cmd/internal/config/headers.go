package config

import (
	"maps"
	"net/textproto"
	"regexp"
	"strings"

	"github.com/penstock-data/penstock/extract/wire"
)

var secretName = regexp.MustCompile(`(?i)key|token|secret|auth|session|passw|sign`)

// headers reads names and values of HTTP headers. If a value contains ${…}, it is a secret. It is also a secret if the
// name of the header suggests one, such as X-Api-Key. // Invariant 5
func headers(v value) map[string]wire.Secret {
	es, ok := v.entries()
	if !ok {
		return nil
	}
	all := map[string]wire.Secret{}
	for _, e := range es {
		s, ok := e.credential().text()
		if !ok {
			continue
		}
		name, of := textproto.CanonicalMIMEHeaderKey(e.key), wire.Secret(strings.TrimSpace(s.value))
		if bad := wire.HeaderFault(e.key, of); bad != "" {
			v.fault(e.at, "%s: %s %s", v.what, e.key, bad)
			continue
		}
		if _, twice := all[name]; twice {
			v.fault(e.at, "%s: %s is set twice", v.what, name)
			continue
		}
		if of != unread && (s.raw != s.value || secretName.MatchString(name)) {
			v.r.secrets = append(v.r.secrets, of)
		}
		all[name] = of
	}
	return all
}

func authHeader(v value) *scalar {
	s, ok := v.text()
	if !ok {
		return nil
	}
	if bad := wire.AuthHeaderFault(s.value); bad != "" {
		v.fault(s.at, "%s %q %s", v.what, s.raw, bad)
		return nil
	}
	return &s
}

func authScheme(v value) *scalar {
	s, ok := v.scalar()
	if !ok {
		return nil
	}
	if strings.ContainsFunc(s.value, func(c rune) bool { return c <= ' ' || c > '~' }) {
		v.fault(s.at, "%s %q: want one word, or \"\" for none", v.what, s.raw)
		return nil
	}
	return &s
}

// setHeader sets the header in which a token or key is sent, and the word before the token. The default is
// "Authorization: Bearer TOKEN". In any other header, there is no word before the token by default.
func (a *Auth) setHeader(v value, header, scheme *scalar) {
	if header == nil && scheme == nil {
		return
	}
	if a.Login != nil || a.OAuth != nil {
		v.fault(a.At, "%s: `header` and `scheme` are only for a token or key", v.what)
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

// checkHeaders reports an error if one of the headers has the name of the header in which the credential is sent.
func checkHeaders(v value, headers map[string]wire.Secret, a Auth) {
	if _, both := headers[a.Header]; both {
		v.fault(v.pos(), "%s: header %s is already used for the credential", v.what, a.Header)
	}
}

// joinHeaders returns the headers of a stream's requests. If the stream and its surface set the same header, the
// stream's value is used. The argument `credential` is the name of the header in which the credential is sent. This
// header is left out.
func joinHeaders(surface, stream map[string]wire.Secret, credential string) map[string]wire.Secret {
	all := maps.Clone(surface)
	if all == nil {
		all = map[string]wire.Secret{}
	}
	maps.Copy(all, stream)
	maps.DeleteFunc(all, func(name string, _ wire.Secret) bool { return name == credential })
	return all
}
