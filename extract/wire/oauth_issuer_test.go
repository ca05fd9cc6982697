package wire

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

type issuer struct {
	*realm
	url string

	mu       sync.Mutex
	at       string
	metadata map[string]any
	polls    []time.Time
	pending  []string // answers to the first requests with the device code
	revoked  []string
	auths    []string // how clients sent their secret
	down     bool
	refuses  string // kind of token that the server does not revoke
	note     func()
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{realm: newRealm(), at: "/.well-known/openid-configuration", metadata: map[string]any{}}
	srv := httptest.NewServer(i)
	t.Cleanup(srv.Close)
	i.url = srv.URL
	return i
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _, basic := r.BasicAuth()
	i.mu.Lock()
	defer i.mu.Unlock()
	if r.Method == http.MethodPost {
		_ = r.ParseForm()
		how := "none"
		if basic {
			how = "basic"
		} else if r.PostForm.Get("client_secret") != "" {
			how = "post"
		}
		i.auths = append(i.auths, r.URL.Path+" "+how)
	}
	switch {
	case r.URL.Path == i.at && i.note != nil:
		i.note()
		jsonText(503, `{}`, "Retry-After", "3600")(w, r)
	case r.URL.Path == i.at:
		m := map[string]any{
			"issuer": i.url, "authorization_endpoint": i.url + "/oauth/authorize", "token_endpoint": i.url + "/oauth/token",
			"revocation_endpoint": i.url + "/oauth/revoke", "device_authorization_endpoint": i.url + "/oauth/device",
		}
		for name, value := range i.metadata {
			m[name] = value
		}
		_ = json.NewEncoder(w).Encode(m)
	case strings.HasPrefix(r.URL.Path, "/.well-known/openid"):
		w.WriteHeader(http.StatusInternalServerError) // as Django OAuth Toolkit does with DEBUG and without OpenID Connect
	case strings.HasPrefix(r.URL.Path, "/.well-known/"):
		w.WriteHeader(http.StatusNotFound)
	case r.URL.Path == "/oauth/device":
		jsonText(200, `{"device_code":"dc-1","user_code":"ABCD-EFGH","verification_uri":"`+i.url+`/device","expires_in":60,"interval":1}`)(w, r)
	case r.URL.Path == "/oauth/revoke" && i.down:
		jsonText(503, `{}`)(w, r)
	case r.URL.Path == "/oauth/revoke" && r.PostForm.Get("token_type_hint") == i.refuses:
		jsonText(400, `{"error":"unsupported_token_type"}`)(w, r)
	case r.URL.Path == "/oauth/revoke":
		i.revoked = append(i.revoked, r.PostForm.Get("token_type_hint")+" "+r.PostForm.Get("token"))
	case r.URL.Path == "/oauth/token" && strings.HasSuffix(r.PostForm.Get("grant_type"), ":device_code"):
		i.polls = append(i.polls, time.Now())
		if len(i.pending) > 0 {
			code := i.pending[0]
			i.pending = i.pending[1:]
			if code == "cut" {
				panic(http.ErrAbortHandler)
			}
			jsonText(400, `{"error":"`+code+`"}`)(w, r)
			return
		}
		i.realm.ServeHTTP(w, r)
	default:
		i.realm.ServeHTTP(w, r)
	}
}

func (i *issuer) grant(t *testing.T, change func(*OAuthOptions)) *OAuth {
	t.Helper()
	o := OAuthOptions{
		ClientID: "penstock", Issuer: i.url, Scopes: []string{"crm.read"},
		Entry: state.NewVault(t.TempDir(), nil).Entry("oauth"), Patience: 20 * time.Second,
	}
	if change != nil {
		change(&o)
	}
	c, err := NewOAuth(o)
	require.NoError(t, err)
	return c
}

func TestDiscovery(t *testing.T) {
	for _, at := range []string{"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"} {
		i := newIssuer(t)
		i.at = at
		o := i.grant(t, nil)
		require.NoError(t, o.signIn(t.Context(), Session{}, SignInMethod{Show: browser(t, func(q url.Values) { q.Del("iss") })}))
		i.expire()
		_, err := clientWith(t, o, i.url).Read(t.Context(), contacts)
		require.NoError(t, err)
	}
}

// Metadata must name the issuer from which it was requested. If it names an endpoint at another host, penstock sends
// nothing there. The configuration may name the endpoint instead.
func TestDiscoveryRefuses(t *testing.T) {
	other := newIssuer(t)
	for name, tt := range map[string]struct {
		metadata map[string]any
		want     string
	}{
		"another issuer":                      {map[string]any{"issuer": other.url}, "they must be equal"},
		"an additional slash":                 {map[string]any{"issuer": "SELF/"}, "they must be equal"},
		"token endpoint at another host":      {map[string]any{"token_endpoint": other.url + "/oauth/token"}, "at another host, " + other.url + "; to allow that host, set token_url: \"" + other.url + "/oauth/token\""},
		"sign-in page at another host":        {map[string]any{"authorization_endpoint": other.url + "/oauth/authorize"}, "to allow that host, set authorize_url"},
		"token endpoint without TLS":          {map[string]any{"token_endpoint": "http://auth.example.com/token"}, "token_url is not https"},
		"no token endpoint":                   {map[string]any{"token_endpoint": ""}, "has no token_endpoint; set token_url"},
		"the answer does not name the issuer": {map[string]any{"authorization_response_iss_parameter_supported": true}, "does not come from the issuer"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIssuer(t)
			for key, value := range tt.metadata {
				if s, ok := value.(string); ok {
					value = strings.Replace(s, "SELF", i.url, 1)
				}
				i.metadata[key] = value
			}
			o := i.grant(t, nil)
			err := o.signIn(t.Context(), Session{}, SignInMethod{Show: browser(t, nil)})
			require.ErrorContains(t, err, tt.want)
			_, n := i.counts()
			require.Zero(t, n, "requests for a token")
		})
	}
	i := newIssuer(t)
	i.metadata["token_endpoint"] = other.url + "/oauth/token"
	o := i.grant(t, func(o *OAuthOptions) { o.TokenURL = other.url + "/oauth/token" })
	require.NoError(t, o.signIn(t.Context(), Session{}, SignInMethod{Show: browser(t, nil)}))
}

func TestClientAuth(t *testing.T) {
	for _, tt := range []struct {
		methods []string
		auth    string
		want    string
	}{
		{nil, "", "basic"},
		{[]string{"client_secret_post"}, "", "post"},
		{[]string{"client_secret_post", "client_secret_basic"}, "", "basic"},
		{nil, ClientPost, "post"},
		{[]string{"client_secret_post"}, ClientBasic, "basic"},
	} {
		i := newIssuer(t)
		if tt.methods != nil {
			i.metadata["token_endpoint_auth_methods_supported"] = tt.methods
		}
		o := i.grant(t, func(o *OAuthOptions) { o.ClientSecret, o.ClientAuth = "client-secret", tt.auth })
		require.NoError(t, o.signIn(t.Context(), Session{}, SignInMethod{Show: browser(t, nil)}))
		require.NoError(t, o.signIn(t.Context(), Session{}, SignInMethod{Device: func(DeviceCode) error { return nil }}))
		_, err := clientWith(t, o, i.url).SignOut(t.Context(), false)
		require.NoError(t, err)
		for _, how := range i.auths {
			require.True(t, strings.HasSuffix(how, " "+tt.want), "%v", i.auths)
		}
		require.GreaterOrEqual(t, len(i.auths), 5)
	}
}

func TestRedirectAddress(t *testing.T) {
	i := newIssuer(t)
	o := i.grant(t, func(o *OAuthOptions) { o.RedirectURI = "http://localhost/oauth/back" })
	var asked *url.URL
	require.NoError(t, o.signIn(t.Context(), Session{}, SignInMethod{Show: func(address string) error {
		asked, _ = url.Parse(address)
		return browser(t, nil)(address)
	}}))
	require.Regexp(t, `^http://localhost:\d+/oauth/back$`, asked.Query().Get("redirect_uri"))
	st, err := o.State()
	require.NoError(t, err)
	require.Equal(t, "http://localhost/oauth/back (with any port)", st.Redirect)

	o = i.grant(t, func(o *OAuthOptions) { o.Patience = 100 * time.Millisecond })
	err = o.signIn(t.Context(), Session{}, SignInMethod{Show: func(string) error { return nil }})
	require.ErrorContains(t, err, "no sign-in within 100ms; the redirect address to register for client penstock is http://127.0.0.1/callback (with any port)")

	o = i.grant(t, func(o *OAuthOptions) { o.RedirectURI = "https://app.example.com/back" })
	err = o.signIn(t.Context(), Session{}, SignInMethod{Show: func(string) error { return nil }})
	require.ErrorContains(t, err, "use --paste, and paste the last address in the browser")
}

func TestPaste(t *testing.T) {
	for name, tt := range map[string]struct {
		end  string // STATE stands for the state
		want string
	}{
		"as it is":         {"http://127.0.0.1/callback?code=c&state=STATE", ""},
		"with a line feed": {" http://127.0.0.1/callback?code=c&state=STATE\n", ""},
		"https":            {"https://127.0.0.1/callback?code=c&state=STATE", "the server sends the browser to http://127.0.0.1"},
		"another host":     {"http://evil.example/callback?code=c&state=STATE", "the server sends the browser to http://127.0.0.1"},
		"another path":     {"http://127.0.0.1/?code=c&state=STATE", "the server sends the browser to http://127.0.0.1"},
		"another state":    {"http://127.0.0.1/callback?code=c&state=x", "its state differs; nothing was exchanged"},
		"no state":         {"http://127.0.0.1/callback?code=c", "its state differs; nothing was exchanged"},
		"two states":       {"http://127.0.0.1/callback?code=c&state=STATE&state=x", "its state differs; nothing was exchanged"},
		"only the code":    {"c", "paste all that the browser shows"},
		"a denial":         {"http://127.0.0.1/callback?error=access_denied&state=STATE", "the server says access_denied"},
		"another issuer":   {"http://127.0.0.1/callback?code=c&state=STATE&iss=https://evil.example", "does not come from the issuer"},
		"nothing":          {"", "no address was given"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIssuer(t)
			o := i.grant(t, nil)
			var asked *url.URL
			err := o.signIn(t.Context(), Session{}, SignInMethod{
				Show: func(address string) error { asked, _ = url.Parse(address); return nil },
				Paste: func(context.Context) (string, error) {
					return strings.Replace(tt.end, "STATE", asked.Query().Get("state"), 1), nil
				},
			})
			_, n := i.counts()
			if tt.want == "" {
				require.NoError(t, err)
				require.Equal(t, 1, n)
				require.Equal(t, "S256", asked.Query().Get("code_challenge_method"))
				return
			}
			require.ErrorContains(t, err, tt.want)
			require.Zero(t, n, "requests for a token")
		})
	}
}

func TestDeviceCode(t *testing.T) {
	for name, tt := range map[string]struct {
		pending []string
		least   time.Duration
		want    string
	}{
		"at once":        {nil, time.Second, ""},
		"after a while":  {[]string{"authorization_pending", "authorization_pending"}, 3 * time.Second, ""},
		"slow down":      {[]string{"slow_down"}, 6 * time.Second, ""},
		"a cut answer":   {[]string{"cut"}, 2 * time.Second, ""},
		"a denial":       {[]string{"access_denied"}, time.Second, "access_denied"},
		"it has expired": {[]string{"expired_token"}, time.Second, "the code expired"},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && tt.least > 3*time.Second {
				t.Skip("takes too long")
			}
			t.Parallel()
			i := newIssuer(t)
			i.pending = tt.pending
			o := i.grant(t, nil)
			var shown DeviceCode
			start := time.Now()
			err := o.signIn(t.Context(), Session{}, SignInMethod{Device: func(c DeviceCode) error { shown = c; return nil }})
			require.GreaterOrEqual(t, time.Since(start), tt.least-100*time.Millisecond)
			require.Equal(t, "ABCD-EFGH", shown.Code)
			require.Equal(t, i.url+"/device", shown.Address)
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			_, err = clientWith(t, o, i.url).Read(t.Context(), contacts)
			require.NoError(t, err)
		})
	}
	i := newIssuer(t)
	i.metadata["device_authorization_endpoint"] = ""
	err := i.grant(t, nil).signIn(t.Context(), Session{}, SignInMethod{Device: func(DeviceCode) error { return nil }})
	require.ErrorContains(t, err, "set device_url, or sign in with --paste")
}

func TestSignOut(t *testing.T) {
	i := newIssuer(t)
	o := i.grant(t, nil)
	done, err := clientWith(t, o, i.url).SignOut(t.Context(), false)
	require.NoError(t, err)
	require.True(t, done.Nothing)
	require.NoError(t, o.signIn(t.Context(), Session{}, SignInMethod{Show: browser(t, nil)}))
	before := kept(t, o)
	i.down = true
	_, err = clientWith(t, o, i.url).SignOut(t.Context(), false)
	require.ErrorIs(t, err, ErrOutage)
	require.Equal(t, before, kept(t, o))
	i.down = false
	done, err = clientWith(t, o, i.url).SignOut(t.Context(), false)
	require.NoError(t, err)
	require.Equal(t, SignedOut{Revoked: true}, done)
	require.Equal(t, []string{"refresh_token refresh-0001", "access_token access-0001"}, i.revoked)
	require.Empty(t, kept(t, o))
	_, asked := i.counts()
	_, err = clientWith(t, o, i.url).Read(t.Context(), contacts)
	require.ErrorIs(t, err, ErrSignIn)
	require.ErrorContains(t, err, "signed out at")
	_, after := i.counts()
	require.Equal(t, asked, after)
	require.NoError(t, o.signIn(t.Context(), Session{}, SignInMethod{Show: browser(t, nil)}))
	_, err = clientWith(t, o, i.url).Read(t.Context(), contacts)
	require.NoError(t, err, "after another sign-in")

	i.metadata["revocation_endpoint"] = ""
	o = i.grant(t, nil)
	require.NoError(t, o.signIn(t.Context(), Session{}, SignInMethod{Show: browser(t, nil)}))
	_, err = clientWith(t, o, i.url).SignOut(t.Context(), false)
	require.ErrorIs(t, err, ErrNotRevocable)
	done, err = clientWith(t, o, i.url).SignOut(t.Context(), true)
	require.NoError(t, err)
	require.Equal(t, SignedOut{}, done)
	require.Empty(t, kept(t, o))
}

// If the server refuses to revoke access tokens, the sign-out still ends the grant. If the server refuses to revoke the
// refresh token, the sign-out fails.
func TestSignOutRefreshTokenOnly(t *testing.T) {
	for kind, want := range map[string]SignedOut{"access_token": {Revoked: true, AccessLasts: true}, "refresh_token": {}} {
		i := newIssuer(t)
		i.refuses = kind
		o := i.grant(t, nil)
		require.NoError(t, o.signIn(t.Context(), Session{}, SignInMethod{Show: browser(t, nil)}))
		done, err := clientWith(t, o, i.url).SignOut(t.Context(), false)
		require.Equal(t, want, done)
		require.Equal(t, want.Revoked, err == nil, "%v", err)
		require.Equal(t, want.Revoked, kept(t, o) == "")
	}
}

func TestSignOutOfLogin(t *testing.T) {
	r := newRealm()
	base := r.serve(t)
	k := keeper(t, "login", base, t.TempDir(), nil)
	signedIn(t, k, base)
	_, err := clientWith(t, k, base).SignOut(t.Context(), false)
	require.NoError(t, err)
	require.Empty(t, kept(t, k))
	_, n, err := holderOf(k).load()
	require.NoError(t, err)
	require.Len(t, n.Recent, 1)
	_, err = clientWith(t, k, base).Read(t.Context(), contacts)
	require.NoError(t, err, "it signs in again")
}

func TestFailedSignInKeepsGrant(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"refused": jsonText(400, `{"error":"invalid_grant"}`),
		"down":    jsonText(503, `{}`),
	} {
		i := newIssuer(t)
		o := i.grant(t, nil)
		c := client(t, i.url, func(opts *Options) { opts.Credential, opts.MaxWait = o, time.Millisecond })
		require.NoError(t, c.SignIn(t.Context(), SignInMethod{Show: browser(t, nil)}))
		i.respond(answer)
		require.Error(t, c.SignIn(t.Context(), SignInMethod{Show: browser(t, nil)}), name)
		st, err := o.State()
		require.NoError(t, err)
		require.Zero(t, st.Failing, name)
		require.Empty(t, st.Trouble, name)
		i.respond(nil)
		i.expire()
		_, err = c.Read(t.Context(), contacts)
		require.NoError(t, err, name)
	}
}

func TestNoRefreshToken(t *testing.T) {
	i := newIssuer(t)
	o := i.grant(t, nil)
	i.respond(jsonText(200, `{"access_token":"a-token","expires_in":3600}`))
	require.NoError(t, o.signIn(t.Context(), Session{}, SignInMethod{Show: browser(t, nil)}))
	st, err := o.State()
	require.NoError(t, err)
	require.True(t, st.NoRefresh)
	require.Empty(t, st.Trouble, "the token still works")
	i.respond(nil)
	require.NoError(t, o.signIn(t.Context(), Session{}, SignInMethod{Show: browser(t, nil)}))
	st, err = o.State()
	require.NoError(t, err)
	require.False(t, st.NoRefresh)
}

func TestOfflineAccess(t *testing.T) {
	for _, has := range []bool{false, true} {
		i := newIssuer(t)
		if has {
			i.metadata["scopes_supported"] = []string{"openid", "offline_access"}
		}
		o := i.grant(t, func(o *OAuthOptions) { o.AuthorizeParams = map[string]string{"access_type": "offline"} })
		var asked *url.URL
		_ = o.signIn(t.Context(), Session{}, SignInMethod{Show: func(address string) error {
			asked, _ = url.Parse(address)
			return errors.New("seen")
		}})
		require.Equal(t, has, strings.Contains(asked.Query().Get("scope"), "offline_access"))
		require.Equal(t, has, asked.Query().Get("prompt") == "consent")
		require.Equal(t, "offline", asked.Query().Get("access_type"))
	}
}

func TestScopesAreSets(t *testing.T) {
	for given, lacking := range map[string][]string{
		"crm.read helpdesk.read":    nil,
		"helpdesk.read,crm.read":    nil,
		"helpdesk.read, crm.read ,": nil,
		"crm.read":                  {"helpdesk.read"},
		"crm.reader,helpdesk.read":  {"crm.read"},
		"CRM.READ helpdesk.read":    {"crm.read"},
	} {
		i := newIssuer(t)
		o := i.grant(t, func(o *OAuthOptions) { o.Scopes = []string{"crm.read", "helpdesk.read", "offline_access"} })
		i.respond(jsonText(200, `{"access_token":"a","refresh_token":"r","scope":"`+given+`"}`))
		require.NoError(t, o.signIn(t.Context(), Session{}, SignInMethod{Show: browser(t, nil)}))
		st, err := o.State()
		require.NoError(t, err)
		require.Equal(t, lacking, st.MissingScopes, given)
	}
	for scopes, writes := range map[string]bool{
		"crm.read": false, "crm.write": true, "crm.write crm.read": true, "crm.write,crm.read": true, "crm:admin": true, "*": true,
		"crm.read helpdesk.read": false, "rewrite": false, "Contacts.Manage": true,
	} {
		require.Equal(t, writes, ScopePermitsWriting(scopes), scopes)
	}
}

func TestForbiddenToken(t *testing.T) {
	for name, tt := range map[string]struct {
		header, body string
		renews       int
		class        Class
		challenge    string
		scope        string
	}{
		"an invalid token":                 {`Bearer realm="x", error="invalid_token"`, `{}`, 1, Auth, ChallengeToken, ""},
		"an invalid token, in the body":    {"", `{"error":"invalid_token"}`, 1, Auth, ChallengeToken, ""},
		"an expired token, in the message": {"", `{"message":"The access token expired"}`, 1, Auth, "", ""},
		"a missing scope":                  {`Bearer error="insufficient_scope", scope="crm.read deals.read"`, `{}`, 0, NotEntitled, ChallengeScope, "crm.read deals.read"},
		"a missing scope, in the body":     {"", `{"error":"insufficient_scope","scope":"crm.read"}`, 0, NotEntitled, ChallengeScope, "crm.read"},
		"a missing permission":             {"", `{"message":"This action is unauthorized."}`, 0, NotEntitled, "", ""},
		"a challenge of another kind":      {`Basic realm="error=invalid_token"`, `{"message":"Forbidden"}`, 0, NotEntitled, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIssuer(t)
			o := i.grant(t, nil)
			signedIn(t, o, i.url)
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tt.header != "" {
					w.Header().Set("WWW-Authenticate", tt.header)
				}
				jsonText(403, tt.body)(w, r)
			}))
			defer api.Close()
			_, before := i.counts()
			c := clientWith(t, o, api.URL)
			for range 3 {
				_, err := c.Read(t.Context(), contacts)
				e := faultOf(t, err, tt.class)
				require.Equal(t, tt.challenge, e.Challenge)
				require.Equal(t, tt.scope, e.Scope)
			}
			_, after := i.counts()
			require.Equal(t, tt.renews, after-before, "renewals")
		})
	}
}
