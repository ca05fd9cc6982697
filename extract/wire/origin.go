package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
)

const maxRedirects = 3

// parseBase parses a base URL. Its errors never quote the URL, which may hold a password.
func parseBase(raw string, plaintext bool) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case err != nil:
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		return nil, fmt.Errorf("read base URL: %w", err)
	case u.User != nil:
		return nil, errors.New("base URL contains a user name or password: credentials belong under auth")
	case u.Host == "" || u.Hostname() == "" || u.Opaque != "":
		return nil, errors.New("base URL has no host: want https://host")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("base URL has a query or fragment")
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), hostPort(u)
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	switch {
	case u.Scheme == "https":
	case u.Scheme != "http":
		return nil, fmt.Errorf("base URL has scheme %q: want https", u.Scheme)
	case !plaintext && !loopback(u.Hostname()):
		return nil, errors.New("base URL is http://: the credential would travel in clear text; use https")
	}
	return u, nil
}

// hostPort returns a URL's host and port in normal form: lower case, no trailing dot, always with the port.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return net.JoinHostPort(strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), port)
}

func loopback(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// sameOrigin reports whether u has the scheme, host and port of base. // Invariant 10
func sameOrigin(base, u *url.URL) bool {
	return u.User == nil && u.Opaque == "" && strings.EqualFold(base.Scheme, u.Scheme) && base.Host == hostPort(u)
}

// newTransport returns a transport for HTTP/1.1. Several HTTP/1.1 connections transfer a few large pages twice as fast
// as one HTTP/2 connection.
func newTransport(o Options, base *url.URL) *http.Transport {
	dial := o.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: o.Timeouts.Connect, KeepAlive: 30 * time.Second}).DialContext
	}
	t := &http.Transport{
		TLSClientConfig:        o.TLS.Clone(),
		TLSHandshakeTimeout:    o.Timeouts.Handshake,
		ResponseHeaderTimeout:  o.Timeouts.Header,
		IdleConnTimeout:        60 * time.Second,
		MaxIdleConnsPerHost:    1024, // the governor limits the requests in flight
		MaxResponseHeaderBytes: 256 << 10,
		DisableCompression:     true, // readBody decompresses, with a limit
		Protocols:              new(http.Protocols),
		ReadBufferSize:         64 << 10,
	}
	t.Protocols.SetHTTP1(true)
	target := base.Host
	if o.Proxy != nil && base.Scheme == "https" {
		t.Proxy = http.ProxyURL(o.Proxy)
		target = hostPort(o.Proxy)
	}
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !strings.EqualFold(addr, target) {
			return nil, fmt.Errorf("dial %s: not the configured host", addr) // Invariant 10
		}
		return dial(ctx, network, addr)
	}
	return t
}

func (k *call) redirected(resp *http.Response) (*url.URL, *Error) {
	location, err := resp.Request.URL.Parse(resp.Header.Get("Location"))
	if err != nil || resp.Header.Get("Location") == "" {
		k.malformed = maxMalformed
		return nil, k.fault(Malformed, resp, "redirect without a usable Location")
	}
	if loginPath(location.Path) {
		return nil, k.fault(Auth, resp, "redirect to a login page")
	}
	k.hops++
	target := strings.TrimPrefix(strings.TrimSuffix(location.Path, "/"), k.c.base.Path)
	switch {
	case !sameOrigin(k.c.base, location):
		return nil, k.fault(Refused, resp, "redirect to another origin")
	case k.method != http.MethodGet:
		return nil, k.fault(Refused, resp, "redirect of a POST")
	case k.hops > maxRedirects:
		return nil, k.fault(Refused, resp, fmt.Sprintf("more than %d redirects", maxRedirects))
	case !k.c.allow.permits(target): // Invariant 9
		return nil, k.fault(Refused, resp, "redirect to a path outside the read list")
	}
	// A redirect may omit the query. Without the query, the server would answer with the first page again and again.
	query := location.Query()
	for name, values := range k.url.Query() {
		query[name] = values
	}
	location.RawQuery, location.Fragment = query.Encode(), ""
	return location, nil
}

func loginPath(p string) bool {
	switch path.Base(strings.ToLower(p)) {
	case "login", "signin", "sign-in", "sign_in", "log-in", "auth", "authorize", "sso":
		return true
	}
	return false
}
