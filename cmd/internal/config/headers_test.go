package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state"
)

const withHeaders = `version: 1
sources:
  main:
    app:
      base_url: "https://app.example.com"
      auth: {token: "${PENSTOCK_APP_TOKEN}", header: x-api-key}
      headers: {X-Tenant: "42"}
destinations: {warehouse: "duckdb:w.duckdb"}
pipelines: {all: {from: main, to: warehouse}}
streams:
  own.same: {path: /same}
  own.more: {path: /more, headers: {X-Team: "${PENSTOCK_API_KEY}", X-Tenant: "43"}}
  own.away: {path: "https://other.example/list", auth: {token: "${PENSTOCK_API_KEY}", scheme: Token}, headers: {X-Region: eu}}
  own.bare: {path: "https://third.example/list", auth: {api_key: "${PENSTOCK_API_KEY}", scheme: ""}}
  own.open: {path: "https://fourth.example/list"}
`

// Configured headers are sent only to the origin for which they are configured. This also holds for a header from
// `auth: {header, scheme}`. // Invariants 5, 10
func TestHeaders(t *testing.T) {
	c := parsed(t, withHeaders)
	clients, err := c.Clients("main", c.Streams, state.NewVault(t.TempDir(), nil))
	require.NoError(t, err)
	got := map[string]Client{}
	for _, cl := range clients {
		got[cl.Name] = cl
	}
	for name, want := range map[string]struct {
		header, scheme string
		headers        map[string]wire.Secret
	}{
		"app":      {"X-Api-Key", "", map[string]wire.Secret{"X-Tenant": "42"}},
		"own.more": {"X-Api-Key", "", map[string]wire.Secret{"X-Tenant": "43", "X-Team": "sk_hush"}},
		"own.away": {"Authorization", "Token", map[string]wire.Secret{"X-Region": "eu"}},
		"own.bare": {"Authorization", "", map[string]wire.Secret{}},
		"own.open": {"", "", map[string]wire.Secret{}},
	} {
		cl, ok := got[name]
		require.True(t, ok, name)
		require.Equal(t, want.header, cl.AuthHeader, name)
		require.Equal(t, want.scheme, cl.AuthScheme, name)
		require.Equal(t, want.headers, cl.Headers, name)
		require.NotContains(t, fmt.Sprintf("%+v", cl), "hush")
	}
	require.NotContains(t, got, "own.same", "this stream has no client of its own, because the client of the surface reads it")
	require.Contains(t, c.Secrets, wire.Secret("sk_hush"))
	require.NotContains(t, c.Secrets, wire.Secret("eu"))
}

func TestHeaderFaults(t *testing.T) {
	for _, tt := range []struct{ old, new, want string }{
		{`{X-Tenant: "42"}`, `{Host: a.example}`, "7:17: source main app headers: Host cannot be set: it follows from the address"},
		{`{X-Tenant: "42"}`, `{authorization: Basic x}`, "7:17: source main app headers: authorization cannot be set: it is a credential; put it under auth"},
		{`{X-Tenant: "42"}`, `{Cookie: a=b}`, "7:17: source main app headers: Cookie cannot be set: it is a credential"},
		{`{X-Tenant: "42"}`, `{Transfer-Encoding: chunked}`, "7:17: source main app headers: Transfer-Encoding cannot be set: it belongs to the connection"},
		{`{X-Tenant: "42"}`, `{"X Tenant": "42"}`, "7:17: source main app headers: X Tenant is not a header name"},
		{`{X-Tenant: "42"}`, `{X-Tenant: "4\n2"}`, "7:17: source main app headers: X-Tenant holds a control character or a line break"},
		{`{X-Tenant: "42"}`, `{X-Tenant: "42", x-tenant: "43"}`, "7:33: source main app headers: X-Tenant is set twice"},
		{`{X-Tenant: "42"}`, `{X-Tenant: ""}`, "7:27: source main app headers X-Tenant is empty"},
		{`{X-Tenant: "42"}`, `{X-Tenant: "${NOWHERE}"}`, "7:27: "},
		{`{X-Tenant: "42"}`, `{X-Api-Key: "42"}`, "5:7: source main app: header X-Api-Key is already used for the credential"},
		{`{X-Tenant: "42"}`, `[X-Tenant]`, "7:16: "},
		{`header: x-api-key`, `header: Content-Length`, `6:54: source main app auth header "Content-Length" cannot be set: it follows from the body`},
		{`header: x-api-key`, `scheme: a b`, `6:54: source main app auth scheme "a b": want one word, or "" for none`},
		{`{token: "${PENSTOCK_APP_TOKEN}", header: x-api-key}`, `{login: {email: a@b.example, password: p}, scheme: Token}`, "6:13: source main app auth: `header` and `scheme` are only for a token or key"},
		{`{X-Region: eu}`, `{Authorization: x}`, "13:113: stream own.away headers: Authorization cannot be set: it is a credential; put it under auth"},
	} {
		text := strings.Replace(withHeaders, tt.old, tt.new, 1)
		require.NotEqual(t, withHeaders, text)
		_, err := Parse([]byte(text), input())
		require.ErrorContains(t, err, "pipelines.yaml:"+tt.want, tt.new)
		require.NotContains(t, err.Error(), "hush")
	}
}
