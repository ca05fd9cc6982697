package wire

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"github.com/penstock-data/penstock/state"
)

func browser(t *testing.T, change func(url.Values)) func(string) error {
	t.Helper()
	return func(address string) error {
		u, err := url.Parse(address)
		require.NoError(t, err)
		back := u.Query().Get("redirect_uri")
		q := url.Values{"code": {"code-1"}, "state": {u.Query().Get("state")}}
		if change != nil {
			change(q)
		}
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = visit(back + "?" + q.Encode()) })
		t.Cleanup(wg.Wait)
		return nil
	}
}

func visit(address string) (int, string) {
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(address)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text) + fmt.Sprint(resp.Header)
}

func TestAuthorize(t *testing.T) {
	r := newRealm()
	base := r.serve(t)
	dir := t.TempDir()
	o := keeper(t, "oauth", base, dir, nil).(*OAuth)
	var asked *url.URL
	require.NoError(t, o.signIn(t.Context(), Session{}, SignInMethod{Show: func(address string) error {
		asked, _ = url.Parse(address)
		return browser(t, nil)(address)
	}}))
	q := asked.Query()
	require.Equal(t, "code", q.Get("response_type"))
	require.Equal(t, "S256", q.Get("code_challenge_method"))
	require.Len(t, q.Get("code_challenge"), 43)
	require.Equal(t, "crm.read", q.Get("scope"))
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/callback$`, q.Get("redirect_uri"))
	require.GreaterOrEqual(t, len(q.Get("state")), 26)
	back, _ := url.Parse(q.Get("redirect_uri"))
	_, err := net.DialTimeout("tcp", back.Host, time.Second)
	require.Error(t, err, "the port is closed when the sign-in is over")

	for range 2 {
		_, err = clientWith(t, keeper(t, "oauth", base, dir, nil), base).Read(t.Context(), contacts)
		require.NoError(t, err)
	}
	require.Equal(t, 1, r.refreshes, "only the code was to be exchanged")
	st, err := o.State()
	require.NoError(t, err)
	require.Empty(t, st.Trouble)
	require.Empty(t, st.MissingScopes)
	require.WithinDuration(t, time.Now().Add(time.Hour), st.Expires, time.Minute)
}

func redirectAt(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	return u
}

func TestAuthorizeRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		issuer string
		change func(url.Values)
		want   string
	}{
		"no state":                    {"", func(q url.Values) { q.Del("state") }, "no sign-in"},
		"another state":               {"", func(q url.Values) { q.Set("state", "x") }, "no sign-in"},
		"two states":                  {"", func(q url.Values) { q.Add("state", q.Get("state")) }, "no sign-in"},
		"no issuer":                   {"https://issuer.example", func(q url.Values) { q.Del("iss") }, "does not come from the issuer"},
		"another issuer":              {"https://issuer.example", func(q url.Values) { q.Set("iss", "https://issuer.example.evil") }, "does not come from the issuer"},
		"two issuers":                 {"https://issuer.example", func(q url.Values) { q["iss"] = []string{"https://issuer.example", "https://evil.example"} }, "does not come from the issuer"},
		"no code":                     {"", func(q url.Values) { q.Del("code") }, "no authorization code"},
		"two codes":                   {"", func(q url.Values) { q.Add("code", "b") }, "no authorization code"},
		"an error":                    {"", func(q url.Values) { q.Set("error", "access_denied") }, "the server says access_denied"},
		"an error with a description": {"", func(q url.Values) { q.Set("error", "x"); q.Set("error_description", "a\x1b[2Jb client-secret") }, "x: a [2Jb [redacted]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRealm()
			base := r.serve(t)
			o := keeper(t, "oauth", base, t.TempDir(), nil).(*OAuth)
			o.opts.Issuer, o.opts.Patience = tt.issuer, 200*time.Millisecond
			err := o.signIn(t.Context(), Session{}, SignInMethod{Show: browser(t, tt.change)})
			require.ErrorContains(t, err, tt.want)
			_, n := r.counts()
			require.Zero(t, n, "requests for a token")
		})
	}
}

func TestCallback(t *testing.T) {
	c, err := listen(redirectAt(t, DefaultRedirect), "right", issuerName{})
	require.NoError(t, err)
	defer c.close()
	host, _, err := net.SplitHostPort(c.redirect.Host)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", host)

	at := c.redirect.String() + "?code=canary-code&state="
	status, _ := visit(at + "wrong")
	require.Equal(t, 400, status)
	status, _ = visit("http://" + c.redirect.Host + "/?state=right&code=x")
	require.Equal(t, 404, status)
	status, _ = visit(strings.Replace(at, "127.0.0.1", "localhost", 1) + "right")
	require.Equal(t, 400, status, "another name of this host")
	resp, err := http.Post(at+"right", "text/plain", nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 404, resp.StatusCode)
	http.DefaultClient.CloseIdleConnections()

	status, page := visit(at + "right&error_description=<script>")
	require.Equal(t, 200, status)
	require.NotContains(t, page, "canary-code")
	require.NotContains(t, page, "<script>")
	require.Contains(t, page, "no-store")
	require.Contains(t, page, "default-src 'none'")
	status, _ = visit(at + "right")
	require.Equal(t, 410, status, "a second answer")
	code, err := c.wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, "canary-code", code.Reveal())

	c.close()
	c.close()
	status, _ = visit(at + "right")
	require.Zero(t, status, "closed")
}

func TestAuthorizeTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &callback{answer: make(chan callbackResult, 1)}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Minute, errors.New("no sign-in within 10m0s"))
		defer cancel()
		start := time.Now()
		_, err := c.wait(ctx)
		require.EqualError(t, err, "no sign-in within 10m0s")
		require.Equal(t, 10*time.Minute, time.Since(start))
	})
	o, err := NewOAuth(OAuthOptions{ClientID: "c", AuthorizeURL: "https://a.example/", TokenURL: "https://a.example/"})
	require.NoError(t, err)
	require.Equal(t, 10*time.Minute, o.opts.Patience)
}

func TestAuthorizeTwice(t *testing.T) {
	r := newRealm()
	base := r.serve(t)
	o := keeper(t, "oauth", base, t.TempDir(), nil).(*OAuth)
	var first string
	var wg sync.WaitGroup
	wg.Add(1)
	ready := make(chan struct{})
	go func() {
		defer wg.Done()
		_ = o.signIn(t.Context(), Session{}, SignInMethod{Show: func(address string) error {
			first = address
			close(ready)
			return errors.New("left open")
		}})
	}()
	<-ready
	wg.Wait()
	u, _ := url.Parse(first)
	o.opts.Patience = 200 * time.Millisecond
	err := o.signIn(t.Context(), Session{}, SignInMethod{Show: browser(t, func(q url.Values) { q.Set("state", u.Query().Get("state")) })})
	require.ErrorContains(t, err, "no sign-in")
	_, n := r.counts()
	require.Zero(t, n)
}

func TestVerifiersAreUnique(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 1_000
	}
	seen := make(map[string]bool, n)
	for range n {
		v := oauth2.GenerateVerifier()
		require.True(t, len(v) >= 43 && len(v) <= 128, v)
		_, err := base64.RawURLEncoding.DecodeString(v)
		require.NoError(t, err)
		require.False(t, seen[v])
		seen[v] = true
	}
}

func TestNewOAuthRefuses(t *testing.T) {
	good := OAuthOptions{ClientID: "c", AuthorizeURL: "https://a.example/authorize", TokenURL: "https://a.example/token"}
	for _, tt := range []struct {
		change func(*OAuthOptions)
		want   string
	}{
		{func(o *OAuthOptions) { o.TokenURL = "http://a.example/token" }, "open oauth: token_url is not https"},
		{func(o *OAuthOptions) { o.AuthorizeURL = "http://a.example/" }, "open oauth: authorize_url is not https"},
		{func(o *OAuthOptions) { o.TokenURL = "https://u:hush@a.example/token" }, "open oauth: token_url is not a plain URL"},
		{func(o *OAuthOptions) { o.TokenURL = "/token" }, "open oauth: token_url is not a plain URL"},
		{func(o *OAuthOptions) { o.Scopes = []string{"crm.read", "crm.write"} }, `open oauth: scope "crm.write" is not read-only`},
		{func(o *OAuthOptions) { o.Scopes = []string{"*"} }, `open oauth: scope "*" is not read-only`},
	} {
		o := good
		tt.change(&o)
		_, err := NewOAuth(o)
		require.EqualError(t, err, tt.want)
	}
	good.Scopes = []string{"crm.read", "offline_access"}
	_, err := NewOAuth(good)
	require.NoError(t, err)
}

// Some answers of a token endpoint end a grant. The stored grant never changes.
func TestGrantOutlivesFaults(t *testing.T) {
	elsewhere := httptestURL(t, func(w http.ResponseWriter, r *http.Request) { t.Error("a redirect was followed: " + r.URL.Path) })
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		class  Class
		ended  string // why the grant is not used again; "" if it is used again
	}{
		"500":                  {jsonText(500, `{"error":"server_error"}`), Throttled, ""},
		"502 html":             {text(502, "text/html", `<html>bad gateway</html>`), Throttled, ""},
		"503":                  {jsonText(503, `{}`), Throttled, ""},
		"unavailable":          {jsonText(400, `{"error":"temporarily_unavailable"}`), Throttled, ""},
		"200 that is not JSON": {jsonText(200, `{"access_token":`), Auth, "the answer to the renewal at .* was lost .*ends early"},
		"200 without a token":  {jsonText(200, `{}`), Throttled, ""},
		"200 login page":       {text(200, "text/html", `<html><form action="/login">`), Throttled, ""},
		"200 empty":            {jsonText(200, ``), Throttled, ""},
		"403 html":             {text(403, "text/html", `<html><title>Just a moment...</title>`), Throttled, ""},
		"504":                  {text(504, "text/html", `<html>gateway timeout</html>`), Auth, "the answer to the renewal at .* was lost .*504"},
		"broken line":          {func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, Auth, "the answer to the renewal at .* was lost .*EOF"},
		"429":                  {jsonText(429, `{}`), Throttled, ""},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
		}, Throttled, ""},
		"404 of a proxy":              {text(404, "text/html", `<html><title>404 Not Found</title>`), Throttled, ""},
		"404 without a body":          {text(404, "text/plain", ``), Throttled, ""},
		"400 of a proxy":              {jsonText(400, `{"error":"Bad Request"}`), Throttled, ""},
		"401 of a proxy":              {text(401, "text/plain", `Authorization Required`), Throttled, ""},
		"wrong client":                {jsonText(401, `{"error":"invalid_client"}`), Auth, ""},
		"unknown scope":               {jsonText(400, `{"error":"invalid_scope"}`), Auth, ""},
		"wrong address":               {jsonText(404, `{"message":"Not found"}`), Throttled, ""},
		"refused, with status 200":    {jsonText(200, `{"error":"incorrect_client_credentials"}`), Auth, ""},
		"ended, as GitHub reports it": {jsonText(200, `{"error":"bad_refresh_token"}`), Auth, "bad_refresh_token"},
		"ended":                       {jsonText(400, `{"error":"invalid_grant"}`), Auth, "invalid_grant"},
		"ended, with status 200":      {jsonText(200, `{"error":"invalid_grant"}`), Auth, "invalid_grant"},
		"ended, with an echo":         {jsonText(400, `{"error":"invalid_grant","error_description":"refresh-0001 client-secret"}`), Auth, "invalid_grant"},
		"an error that echoes":        {jsonText(400, `{"error":"invalid_client","error_description":"refresh-0001 client-secret"}`), Auth, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRealm()
			base := r.serve(t)
			place := shifted{offsetStore{t.TempDir(), 0}, new(atomic.Int64)}
			open := func() *OAuth {
				o := keeper(t, "oauth", base, place.dir, nil).(*OAuth)
				o.hold = newHolder(state.NewVaultIn(place).Entry("oauth"), "client-secret")
				return o
			}
			k := open()
			signedIn(t, k, base)
			before := kept(t, k)
			r.expire()
			r.respond(tt.answer)
			impatient := func(o *Options) { o.Credential, o.MaxAttempts, o.MaxWait = k, 3, time.Millisecond }
			_, err := client(t, base, impatient).Read(t.Context(), contacts)
			e := faultOf(t, err, tt.class)
			require.Equal(t, tt.ended != "", errors.Is(e, ErrSignIn), "%v", err)
			require.Equal(t, tt.class == Throttled, errors.Is(e, ErrOutage), "%v", err)
			require.NotContains(t, err.Error(), "refresh-0001")
			require.NotContains(t, err.Error(), "client-secret")
			require.Equal(t, before, kept(t, k))

			r.respond(nil)
			if tt.class == Throttled {
				place.by.Store(int64(time.Minute)) // no process calls the endpoint before this time
			}
			_, asked := r.counts()
			next := open()
			_, err = clientWith(t, next, base).Read(t.Context(), contacts)
			_, askedAgain := r.counts()
			if tt.ended != "" {
				require.ErrorIs(t, err, ErrSignIn)
				require.Regexp(t, tt.ended, err.Error())
				require.Equal(t, asked, askedAgain, "a grant that has ended is not used again")
				signedIn(t, next, base)
				_, err = clientWith(t, next, base).Read(t.Context(), contacts)
			}
			require.NoError(t, err)
		})
	}
}

func httptestURL(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	r := newRealm()
	r.respond(h)
	return r.serve(t) + "/elsewhere"
}

func TestGrantPatience(t *testing.T) {
	for kind, class := range map[string]Class{"login": Transient, "oauth": Throttled} {
		r := newRealm()
		base := r.serve(t)
		k := keeper(t, kind, base, t.TempDir(), nil)
		signedIn(t, k, base)
		r.expire()
		r.respond(jsonText(500, `{}`))
		_, before := r.counts()
		c := clientWith(t, k, base)
		for range 5 {
			_, err := c.Read(t.Context(), contacts)
			faultOf(t, err, class)
		}
		_, after := r.counts()
		require.LessOrEqual(t, after-before, 3, kind)
	}
}

func TestGrantLacksScopes(t *testing.T) {
	r := newRealm()
	base := r.serve(t)
	o := keeper(t, "oauth", base, t.TempDir(), nil).(*OAuth)
	r.respond(jsonText(200, `{"access_token":"a-token","refresh_token":"r-token","scope":"crm.read"}`))
	signedIn(t, o, base)
	o.opts.Scopes = []string{"crm.read", "helpdesk.read"} // the user has selected another stream
	st, err := o.State()
	require.NoError(t, err)
	require.Equal(t, []string{"helpdesk.read"}, st.MissingScopes)
	require.Empty(t, st.Trouble)
}

func TestOneRenewal(t *testing.T) {
	for _, kind := range keepers {
		t.Run(kind, func(t *testing.T) {
			r := newRealm()
			base := r.serve(t)
			dir := t.TempDir()
			signedIn(t, keeper(t, kind, base, dir, nil), base)
			logins, before := r.counts()
			r.expire()
			var wg sync.WaitGroup
			var requests atomic.Int64
			for range 4 {
				c := clientWith(t, keeper(t, kind, base, dir, nil), base)
				for range 16 {
					wg.Go(func() {
						resp, err := c.Read(t.Context(), contacts)
						if err != nil {
							t.Error(err)
							return
						}
						requests.Add(int64(resp.Attempts))
					})
				}
			}
			wg.Wait()
			loginsAfter, after := r.counts()
			require.Equal(t, 1, after-before, "renewals")
			require.Equal(t, logins, loginsAfter, "sign-ins")
			require.LessOrEqual(t, requests.Load(), int64(2*64))
		})
	}
}
