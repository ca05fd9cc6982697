package wire

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseBase(t *testing.T) {
	for raw, want := range map[string]string{
		"https://API.Example.test":        "https://api.example.test:443",
		"https://api.example.test.:443/":  "https://api.example.test:443",
		"https://api.example.test:8443/x": "https://api.example.test:8443/x",
		"http://localhost:8787":           "http://localhost:8787",
		"http://127.0.0.5":                "http://127.0.0.5:80",
		"http://[::1]:1":                  "http://[::1]:1",
	} {
		u, err := parseBase(raw, false)
		require.NoError(t, err, raw)
		require.Equal(t, want, u.String())
	}
	for _, raw := range []string{
		"", "api.example.test", "http://api.example.test", "ftp://api.example.test", "https://", "https://:443", "https:api",
		"https://api@evil.test", "https://x.test?key=1", "https://x.test#a", "https://u:secretpass@x.test:bad",
	} {
		_, err := parseBase(raw, false)
		require.Error(t, err, raw)
		require.NotContains(t, err.Error(), "secretpass")
	}
	_, err := parseBase("http://api.example.test", true)
	require.NoError(t, err)
}

func TestSameOrigin(t *testing.T) {
	base, err := parseBase("https://api.test", false)
	require.NoError(t, err)
	for raw, want := range map[string]bool{
		"https://api.test/x": true, "https://API.test:443/x": true, "https://api.test./x": true,
		"http://api.test/x": false, "https://api.test:8443/": false, "https://api.test.evil.test/": false,
		"https://evil.test/": false, "https://api.test@evil.test/": false, "https://u@api.test/": false, "//api.test/": false,
	} {
		u, err := url.Parse(raw)
		require.NoError(t, err)
		require.Equal(t, want, sameOrigin(base, u), raw)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, r := range []Route{
		{"DELETE", "/a"}, {"PUT", "/a"}, {"PATCH", "/a"}, {"POST", "/api/login"}, {"POST", "/api/refresh"}, {"GET", "/api/logout/"},
		{"GET", "a"}, {"GET", "/a/../b"}, {"GET", "/a?x=1"}, {"GET", "/a/{id"}, {"GET", "/a/x{id}"}, {"GET", "/a/{}"}, {"GET", "/a/%2e"},
	} {
		_, err := New(Options{Name: "main", BaseURL: "https://api.test", Allow: []Route{r}})
		require.ErrorContains(t, err, "open source main: allow", "%v", r)
	}
}

func TestTLS(t *testing.T) {
	requests := 0
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		good(w, r)
	}))
	defer srv.Close()
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	_, err := client(t, srv.URL, nil).Read(t.Context(), contacts)
	require.Equal(t, 1, faultOf(t, err, Refused).Attempts)
	require.ErrorContains(t, err, "certificate")
	require.Zero(t, requests)

	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	resp, err := client(t, srv.URL, func(o *Options) { o.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12} }).Read(t.Context(), contacts)
	require.NoError(t, err)
	require.Equal(t, page, string(resp.Body))
}
