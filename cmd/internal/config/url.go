package config

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// baseURL reads the base URL of a surface. The surface's credential is sent only to this address. // Invariant 10
func baseURL(v value) string {
	u := credentialURL(v, func(u *url.URL) string {
		u.Path = strings.TrimRight(u.Path, "/")
		last := u.Path[strings.LastIndexByte(u.Path, '/')+1:]
		switch {
		case last == "v2" || last == "api":
			return "ends in /" + last + "; remove that, penstock adds it"
		case u.RawQuery != "" || u.ForceQuery:
			return "contains a query"
		}
		return ""
	})
	if u == nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

// address reads an absolute URL to which secrets can be sent safely.
func address(v value) string {
	if u := credentialURL(v, func(*url.URL) string { return "" }); u != nil {
		return u.String()
	}
	return ""
}

// credentialURL reads a URL to which credentials are sent. The function `check` may find further errors in the URL.
func credentialURL(v value, check func(*url.URL) string) *url.URL {
	s, ok := v.url()
	if !ok {
		return nil
	}
	u, bad := origin(s.value)
	if bad == "" {
		bad = check(u)
	}
	if bad != "" {
		v.fault(s.at, "%s %s", v.what, bad)
		return nil
	}
	if !v.hostFits(u) {
		return nil
	}
	return u
}

// origin parses a URL to which a credential will be sent. If it is not safe to send a credential there, origin returns
// the reason. The reason does not quote the URL, because the URL may contain a secret.
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
		return nil, "contains a user or password; put credentials under `auth`"
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

func hosts(v value) []string {
	var all []string
	for _, s := range v.texts() {
		if strings.ContainsAny(s.value, "/:*@ ") {
			v.fault(s.at, "%s %q: want only a host name, such as penstock.example.org", v.what, s.raw)
			continue
		}
		all = append(all, s.value)
	}
	return all
}
