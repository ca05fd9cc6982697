package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func granting(oauth string) string {
	return `version: 1
sources:
  main:
    v2:
      base_url: https://api.example.com
      auth:
        oauth: ` + oauth + `
    app: {base_url: "https://app.example.com", auth: {login: {email: a@b.test, password: hush}}}
destinations: {warehouse: "duckdb:w.duckdb"}
pipelines:
  all: {from: main, to: warehouse}
`
}

const oauthBlock = `{client_id: c, authorize_url: "https://auth.example.com/authorize?tenant=1", token_url: "https://auth.example.com/token"}`

func TestOAuth(t *testing.T) {
	c := parsed(t, granting(oauthBlock))
	require.Equal(t, &OAuth{
		ClientID: "c", AuthorizeURL: "https://auth.example.com/authorize?tenant=1", TokenURL: "https://auth.example.com/token",
	}, c.Sources[0].V2.Auth.OAuth)
	c = parsed(t, granting(strings.TrimSuffix(oauthBlock, "}")+`, client_secret: s, issuer: "https://auth.example.com", scopes: [a.read], client_auth: post, revoke_url: "https://auth.example.com/revoke", device_url: "https://auth.example.com/device", redirect_uri: "http://localhost:8400/back", authorize_params: {access_type: offline}, refresh_grace: 30s}`))
	o := c.Sources[0].V2.Auth.OAuth
	require.Equal(t, "s", o.ClientSecret.Reveal())
	require.Equal(t, "https://auth.example.com", o.Issuer)
	require.Equal(t, []string{"a.read"}, o.Scopes)
	require.Equal(t, "post", o.ClientAuth)
	require.Equal(t, "https://auth.example.com/revoke", o.RevokeURL)
	require.Equal(t, "https://auth.example.com/device", o.DeviceURL)
	require.Equal(t, "http://localhost:8400/back", o.RedirectURI)
	require.Equal(t, map[string]string{"access_type": "offline"}, o.AuthorizeParams)
	require.Equal(t, 30*time.Second, o.RefreshGrace)
	c = parsed(t, granting(`{client_id: c, issuer: "https://auth.example.com/tenant/", scopes: ["a.read,b.read", "c.read d.read"], refresh_grace: always}`))
	o = c.Sources[0].V2.Auth.OAuth
	require.Equal(t, "https://auth.example.com/tenant/", o.Issuer, "the issuer stays exactly as configured, with the slash at its end")
	require.Equal(t, []string{"a.read", "b.read", "c.read", "d.read"}, o.Scopes)
	require.Equal(t, wire.GraceAlways, o.RefreshGrace)
}

func TestOAuthFaults(t *testing.T) {
	for _, tt := range []struct{ from, to, want string }{
		{"client_id: c, ", "", "7:16: source main v2 auth oauth has no client_id"},
		{"client_id: c", "client: c", `7:17: unknown key "client" in source main v2 auth oauth`},
		{"https://auth.example.com/token", "http://auth.example.com/token", "source main v2 auth oauth token_url is http, which would send credentials in clear text"},
		{"https://auth.example.com/token", "https://u:hush@auth.example.com/token", "token_url contains a user or password"},
		{"https://auth.example.com/authorize", "auth", "authorize_url has no http or https scheme"},
		{"client_id: c", "client_id: c, scopes: [crm.read, crm.write]", `7:50: source main v2 auth oauth scopes: "crm.write" allows more than reading; penstock only reads`},
		{"client_id: c", "client_id: c, scopes: ['*']", `"*" allows more than reading`},
		{"client_id: c", "client_id: c, scopes: ['crm.write crm.read']", `"crm.write crm.read" allows more than reading`},
		{"client_id: c", "client_id: c, scopes: ['crm.write,crm.read']", `"crm.write,crm.read" allows more than reading`},
		{"client_id: c", "client_id: c, redirect_uri: 'http://vm.example.com/back'", "redirect_uri is http to another machine; a code would travel in clear text"},
		{"client_id: c", "client_id: c, redirect_uri: 'http://127.0.0.1/back#x'", "redirect_uri is not a plain URL"},
		{"client_id: c", "client_id: c, authorize_params: {state: x}", "authorize_params: penstock sets state itself"},
		{"client_id: c", "client_id: c, client_auth: jwt", `client_auth "jwt" is unknown`},
		{"client_id: c", "client_id: c, refresh_grace: soon", `refresh_grace "soon": want a length of time`},
		{`authorize_url: "https://auth.example.com/authorize?tenant=1", `, `issuer: "http://auth.example.com", `, "issuer is http, which would send credentials in clear text"},
		{`authorize_url: "https://auth.example.com/authorize?tenant=1", `, "", "oauth has no authorize_url"},
		{"client_id: c", `client_id: c, client_secret: "${NOPE}"`, "environment variable NOPE is not set"},
	} {
		_, err := Parse([]byte(granting(strings.Replace(oauthBlock, tt.from, tt.to, 1))), input())
		require.ErrorContains(t, err, tt.want)
		require.NotContains(t, err.Error(), "hush")
	}
}

func TestScopesAreTheLeast(t *testing.T) {
	cat, err := schemas.Load()
	require.NoError(t, err)
	in := input()
	in.Catalogue = cat.Streams()
	for streams, want := range map[string][]string{
		`"*"`:                         {"crm.read", "deals.read", "helpdesk.read", "invoicing.read"},
		`v2.contacts`:                 {"crm.read"},
		`[v2.contact, v2.tickets]`:    {"crm.read", "helpdesk.read"},
		`["v2.*", "!v2.contact*"]`:    {"helpdesk.read", "invoicing.read"},
		`crm.leads`:                   nil,
		`[blog.posts, v2.tickets]`:    {"helpdesk.read"},
		`[deals.archive, v2.tickets]`: {"deals.read", "helpdesk.read"},
	} {
		text := strings.Replace(granting(oauthBlock), "to: warehouse", "to: warehouse, streams: "+streams, 1) +
			"streams:\n  blog.posts: {path: \"https://blog.example/posts\"}\n  deals.archive: {surface: v2, path: /v2/deals/archive}\n"
		c, err := Parse([]byte(text), in)
		require.NoError(t, err)
		got := c.Scopes("main", schemas.SurfaceV2)
		require.Equal(t, want, got, streams)
		for _, scope := range got {
			require.False(t, wire.ScopePermitsWriting(scope))
		}
	}
	c := parsed(t, granting(strings.TrimSuffix(oauthBlock, "}")+`, scopes: [everything.read]}`))
	require.Equal(t, []string{"everything.read"}, c.Scopes("main", schemas.SurfaceV2), "the scopes in the file replace the others")
	require.Nil(t, parsed(t, both).Scopes("main", schemas.SurfaceV2))
}

// All clients of a user share one credential, because each sign-in ends the user's other sessions.
func TestClientsShareLogin(t *testing.T) {
	vault := state.NewVault(t.TempDir(), nil)
	c := parsed(t, granting(oauthBlock)+`streams: {my.extra: {path: "https://app.example.com/api/extra"}}`)
	streams, err := c.Select(Pipeline{From: []Ref{{Text: "main"}}, Streams: []Ref{{Text: "crm.leads"}, {Text: "my.extra"}, {Text: "v2.contacts"}}}, nil)
	require.NoError(t, err)
	clients, err := c.Clients("main", streams, vault)
	require.NoError(t, err)
	by := map[string]Client{}
	for _, cl := range clients {
		by[cl.Name] = cl
	}
	require.IsType(t, &wire.OAuth{}, by["v2"].Credential)
	require.IsType(t, &wire.Login{}, by["app"].Credential)
	require.Same(t, by["app"].Credential, by["my.extra"].Credential)

	all, err := c.SignIns("main", vault)
	require.NoError(t, err)
	require.Len(t, all, 2)
	all, err = parsed(t, both).SignIns("main", vault)
	require.NoError(t, err)
	require.Empty(t, all, "keys and tokens need no sign-in")
}

func TestStateBlock(t *testing.T) {
	c := parsed(t, both+"state: {path: elsewhere, tokens: keyring}\n")
	require.Equal(t, "elsewhere", c.State.Dir)
	require.True(t, c.State.Keyring)
	c = parsed(t, both+"state: {tokens: file}\n")
	require.Equal(t, DefaultState, c.State.Dir)
	require.False(t, c.State.Keyring)
	_, err := Parse([]byte(both+"state: {tokens: keychain}\n"), input())
	require.ErrorContains(t, err, `state tokens "keychain" is unknown`)
}

func TestOAuthOnBothSurfaces(t *testing.T) {
	text := `version: 1
sources:
  main:
    v2: {base_url: "https://api.example.com", auth: {oauth: {client_id: c, issuer: "https://auth.example.com"}}}
    app: {base_url: "https://app.example.com", auth: {oauth: {client_id: c, issuer: "https://auth.example.com", scopes: [leads.read]}}}
destinations: {warehouse: "duckdb:w.duckdb"}
pipelines: {all: {from: main, to: warehouse}}
`
	c := parsed(t, text)
	require.Equal(t, []string{"leads.read"}, c.Scopes("main", schemas.SurfaceApp))
	require.NotContains(t, c.Scopes("main", schemas.SurfaceV2), "leads.read")
	all, err := c.SignIns("main", state.NewVault(t.TempDir(), nil))
	require.NoError(t, err)
	require.Len(t, all, 2)
	kept := map[string]bool{}
	for _, s := range all {
		st, err := s.Credential.(wire.Keeper).State()
		require.NoError(t, err)
		kept[st.Where] = true
	}
	require.Len(t, kept, 2, "each surface stores its own tokens")
	require.NotEqual(t, all[0].Account, all[1].Account)
	require.NotSame(t, all[0].Governor, all[1].Governor)

	c = parsed(t, strings.Replace(text, ", scopes: [leads.read]", "", 1))
	require.Nil(t, c.Scopes("main", schemas.SurfaceApp), "the application surface documents no scopes")
}
