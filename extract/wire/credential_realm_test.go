package wire

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

// realm is a server with strict rotation. A refresh of a login's token ends the old token. A refresh token that is
// used twice ends its grant. realm runs on real sockets, for processes that may be killed.
type realm struct {
	mu        sync.Mutex
	access    string
	session   string // the login's token, which can be refreshed after it has expired
	refresh   string
	codes     map[string]string
	used      map[string]bool // refresh tokens used before
	issued    int
	logins    int
	refreshes int
	answer    http.HandlerFunc    // answers the requests for tokens; nil: the real answers
	at        func(moment string) // called before and after a request takes effect
	life      int                 // expires_in of access tokens
	reuse     reuse               // what happens if a refresh token is used twice
	answered  map[string]int
	calls     sync.WaitGroup
}

type reuse int

const (
	detected  reuse = iota // the grant ends
	graced                 // the token is valid once more
	unrotated              // the token stays valid, and the server never issues another refresh token
)

func newRealm() *realm {
	return &realm{codes: map[string]string{}, used: map[string]bool{}, answered: map[string]int{}, at: func(string) {}, life: 3600}
}

func (r *realm) serve(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	return srv.URL
}

func (r *realm) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.calls.Add(1)
	defer r.calls.Done()
	if req.URL.Path == "/v2/contacts" {
		r.mu.Lock()
		ok := req.Header.Get("Authorization") == "Bearer "+r.access && r.access != ""
		r.mu.Unlock()
		if ok {
			good(w, req)
		} else {
			jsonText(401, `{"message":"Unauthenticated."}`)(w, req)
		}
		return
	}
	r.mu.Lock()
	at := r.at
	r.mu.Unlock()
	at("received")
	r.mu.Lock()
	body, status := r.call(req)
	answer := r.answer
	r.mu.Unlock()
	at("done")
	if answer != nil {
		answer(w, req)
		return
	}
	jsonText(status, body)(w, req)
}

func (r *realm) call(req *http.Request) (string, int) {
	_ = req.ParseForm()
	bearer := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
	kind := req.URL.Path + " " + req.PostForm.Get("grant_type")
	switch kind {
	case "/api/login ":
		r.logins++
	default:
		r.refreshes++
	}
	if r.answer != nil {
		return "", 0
	}
	switch kind {
	case "/api/login ":
	case "/api/refresh ":
		if bearer != r.session || bearer == "" {
			return `{"message":"Unauthenticated."}`, 401
		}
	case "/oauth/token refresh_token":
		have := req.PostForm.Get("refresh_token")
		r.answered[have]++
		if r.used[have] && r.reuse == detected {
			r.access, r.refresh = "", ""
		}
		if have != r.refresh && !(r.used[have] && r.reuse == graced) || have == "" {
			return `{"error":"invalid_grant","error_description":"The refresh token has ended."}`, 400
		}
		r.used[have] = true
	case "/oauth/token authorization_code":
		delete(r.codes, req.PostForm.Get("code"))
	}
	r.issued++
	r.access = fmt.Sprintf("access-%04d", r.issued)
	if r.reuse != unrotated || kind != "/oauth/token refresh_token" {
		r.refresh = fmt.Sprintf("refresh-%04d", r.issued)
	}
	r.session = r.access
	if strings.HasPrefix(kind, "/api/") {
		return fmt.Sprintf(newLogin, r.access), 200
	}
	return fmt.Sprintf(`{"access_token":%q,"refresh_token":%q,"token_type":"Bearer","expires_in":%d}`, r.access, r.refresh, r.life), 200
}

func (r *realm) watch(at func(string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = at
}

func (r *realm) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.access = "expired"
}

func (r *realm) respond(h http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = h
}

func (r *realm) counts() (logins, refreshes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.logins, r.refreshes
}

var keepers = []string{"login", "oauth"}

func keeper(t *testing.T, kind, base, dir string, step func(string)) Keeper {
	t.Helper()
	v := state.NewVault(dir, nil)
	if step != nil {
		v.Observe(step)
	}
	if kind == "login" {
		return NewLogin("demo@example.test", "p4ssword", v.Entry("login"))
	}
	o, err := NewOAuth(OAuthOptions{
		ClientID: "penstock", ClientSecret: "client-secret", AuthorizeURL: base + "/oauth/authorize", TokenURL: base + "/oauth/token",
		Scopes: []string{"crm.read"}, Entry: v.Entry("oauth"), Patience: 5 * time.Second,
	})
	require.NoError(t, err)
	return o
}

func signedIn(t *testing.T, k Keeper, base string) {
	t.Helper()
	if o, ok := k.(*OAuth); ok {
		require.NoError(t, o.signIn(t.Context(), Session{}, SignInMethod{Show: browser(t, nil)}))
		return
	}
	_, err := clientWith(t, k, base).Read(t.Context(), contacts)
	require.NoError(t, err)
}

func clientWith(t *testing.T, k Keeper, base string) *Client {
	t.Helper()
	return client(t, base, func(o *Options) { o.Credential, o.MaxAttempts, o.MaxWait = k, 3, time.Second })
}

func kept(t *testing.T, k Keeper) string {
	t.Helper()
	text, err := holderOf(k).entry.Secret()
	require.NoError(t, err)
	return string(text)
}

func holderOf(k Keeper) *holder {
	if o, ok := k.(*OAuth); ok {
		return o.hold
	}
	return k.(*Login).hold
}
