//go:build cgo && duckdb_arrow

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/failure"
)

// TestHeaderCredentials reads lists of two hosts. The first host needs a key in a custom header, and its responses
// have the media type of JSON:API. The second host needs no key. Each host gets only the headers that are configured
// for it. If a response contains values of request headers, penstock does not print them. // Invariants 5, 10
func TestHeaderCredentials(t *testing.T) {
	const key, team = "key_canary_0123456789", "team-canary-98765"
	var mu sync.Mutex
	got := map[string][]http.Header{}
	serve := func(name string, h http.HandlerFunc) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			got[name] = append(got[name], r.Header.Clone())
			mu.Unlock()
			w.Header().Set("Content-Type", "application/vnd.api+json")
			h(w, r)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	list := `{"data":[{"type":"things","id":"1","attributes":{"n":1}},{"type":"things","id":"2","attributes":{"n":2}}],"meta":{"total":2}}`
	strict := serve("strict", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.Contains(r.Header.Get("Accept"), "application/vnd.api+json"):
			w.WriteHeader(http.StatusNotAcceptable)
		case r.Header.Get("X-Api-Key") != key || r.Header.Get("X-Team") != team:
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"errors":[{"detail":"who are %v?"}]}`, r.Header)
		case r.URL.Path == "/broken":
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"message":"no such thing for %v"}`, r.Header)
		default:
			fmt.Fprint(w, list)
		}
	})
	other := serve("other", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, list) })
	dir := t.TempDir()
	file := filepath.Join(dir, "pipelines.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `version: 1
sources:
  main:
    app: {base_url: %q, auth: {token: "${CANARY_KEY}", header: X-Api-Key}, headers: {X-Team: "${CANARY_TEAM}"}, rate: 200/s}
destinations: {warehouse: %q}
pipelines: {all: {from: main, to: warehouse, streams: [own.strict, own.other, own.broken]}}
streams:
  own.strict: {path: /things}
  own.broken: {path: /broken}
  own.other: {path: %q, headers: {X-Region: eu}}
state: %q
`, strict, "duckdb:"+filepath.Join(dir, "w.duckdb"), other+"/things", filepath.Join(dir, "state")), 0o600))
	t.Setenv("CANARY_KEY", key)
	t.Setenv("CANARY_TEAM", team)
	run := func(args ...string) (code int, out string) {
		var text bytes.Buffer
		a := &app{out: &text, err: &text}
		code = a.execute(t.Context(), append(args, "-c", file))
		return code, text.String()
	}
	code, out := run("sync", "-v")
	require.Equal(t, failure.ExitPartial, code, out)
	require.Regexp(t, `(?m)^own\.strict +complete`, out)
	require.Regexp(t, `(?m)^own\.other +complete`, out)
	require.Contains(t, out, "own.broken")
	require.Contains(t, out, "[redacted]")
	for _, args := range [][]string{{"runs", "--json"}, {"status", "--json"}, {"explain", "own.other"}, {"query", "--json", "SELECT * FROM _penstock_runs, _penstock_conventions"}} {
		_, more := run(args...)
		out += more
	}
	require.NotContains(t, out, "canary")

	mu.Lock()
	defer mu.Unlock()
	for _, h := range got["strict"] {
		require.Empty(t, h.Get("Authorization"))
		require.Empty(t, h.Get("X-Region"))
	}
	require.NotEmpty(t, got["other"])
	for _, h := range got["other"] {
		require.Equal(t, "eu", h.Get("X-Region"))
		for _, name := range []string{"X-Api-Key", "X-Team", "Authorization"} {
			require.Empty(t, h.Get(name), name)
		}
	}
}
