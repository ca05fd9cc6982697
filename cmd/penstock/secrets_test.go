package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/extract/wire"
)

// gossip is a proxy in front of the sandbox. It records every secret in requests and responses. It answers some
// requests itself, and puts the secrets of the current process into every part of the response.
type gossip struct {
	behind http.Handler

	mu     sync.Mutex
	heard  map[string]bool
	now    map[string]bool // secrets that the current process has sent or received
	status int             // status of the responses that repeat the secrets; 0 if there are no such responses
	turn   int
}

func (g *gossip) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	g.hear(r, string(body))
	if g.repeats(w) {
		return
	}
	answer := httptest.NewRecorder()
	if strings.HasPrefix(r.URL.Path, "/oauth/") || strings.HasPrefix(r.URL.Path, "/api/login") || strings.HasPrefix(r.URL.Path, "/api/refresh") {
		g.behind.ServeHTTP(answer, r)
		g.listen(answer.Body.Bytes())
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
		return
	}
	g.behind.ServeHTTP(w, r)
}

// hear records the secrets of a request.
func (g *gossip) hear(r *http.Request, body string) {
	form, _ := url.ParseQuery(body)
	g.note(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "),
		form.Get("code"), form.Get("code_verifier"), form.Get("refresh_token"), form.Get("client_secret"))
	if _, secret, ok := r.BasicAuth(); ok {
		g.note(secret)
	}
	g.listen([]byte(body))
}

// listen records the secrets of a JSON body: passwords and tokens.
func (g *gossip) listen(body []byte) {
	var v struct {
		Password     string
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
		Data         struct{ Token string }
	}
	if json.Unmarshal(body, &v) == nil {
		g.note(v.Password, v.AccessToken, v.RefreshToken, v.Data.Token)
	}
}

func (g *gossip) note(secrets ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range secrets {
		if len(s) > len(sandbox.LoginPassword) && // the password is also a word in many addresses, so it is not recorded
			!strings.HasPrefix(s, "Basic ") {
			g.heard[s], g.now[s] = true, true
		}
	}
}

// forget forgets the secrets of the previous process. It is called before each new process, which cannot know them.
func (g *gossip) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now = map[string]bool{}
}

// repeats() answers every third request if a status is set, and reports whether it has answered. The response has all
// secrets that the process under test has sent or received.
func (g *gossip) repeats(w http.ResponseWriter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turn++
	if g.status == 0 || g.turn%3 != 0 {
		return false
	}
	var all []string
	for s := range g.now {
		all = append(all, shapes(s)...)
	}
	words := strings.Join(all, " ")
	w.Header().Set("X-Echo", words)
	w.Header().Set("Location", "https://elsewhere.example/"+url.PathEscape(words))
	w.Header().Set("Retry-After", "0")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(g.status)
	_ = json.NewEncoder(w).Encode(map[string]any{"message": words, "error": words, "error_description": words, "token_type": words})
	return true
}

// shapes returns the forms in which a secret could leak.
func shapes(secret string) []string {
	raw := []byte(secret)
	quoted, _ := json.Marshal(secret)
	return []string{
		secret, hex.EncodeToString(raw), base64.RawStdEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
		url.QueryEscape(secret), strings.Trim(string(quoted), `"`),
	}
}

// kinds has one secret of each kind that the configuration can have. The password is left out, because it is also a
// word in many addresses.
var kinds = map[string]string{
	"CANARY_KEY": sandbox.ReadOnlyKey, "CANARY_TOKEN": sandbox.ReadOnlyToken, "CANARY_WL": sandbox.WhiteLabelToken + "_canary",
	"CANARY_CLIENT": sandbox.OAuthSecret, "CANARY_MASK": "mask-canary-0123456789", "CANARY_HOOK": "whsec_canary_0123456789",
	"CANARY_DASH": "dash-canary-0123456789", "CANARY_DSN": "dsn-canary-0123456789", "CANARY_FEED": "feed-canary-0123456789",
}

// canaries returns a folder with a configuration that has a secret of every kind. Its sources use keys and tokens, a
// password, or an OAuth grant.
func canaries(t *testing.T, base string) string {
	t.Helper()
	dir := t.TempDir()
	for name, secret := range kinds {
		t.Setenv(name, secret)
	}
	text := fmt.Sprintf(`version: 1
sources:
  keys:
    v2: {base_url: %[1]s, auth: {api_key: "${CANARY_KEY}"}, rate: 100000/s}
    app: {base_url: %[1]s, auth: {token: "${CANARY_TOKEN}"}, rate: 100000/s}
    webhooks: {secret: "${CANARY_HOOK}"}
  user:
    app: {base_url: %[1]s, auth: {login: {email: demo@example.test, password: sandbox}}, rate: 100000/s}
  grant:
    v2: {base_url: %[1]s, rate: 100000/s, auth: {oauth: {client_id: penstock-sandbox-server, client_secret: "${CANARY_CLIENT}", authorize_url: "%[1]s/oauth/authorize", token_url: "%[1]s/oauth/token"}}}
destinations:
  lake: "parquet:%[2]s/lake"
  pond: "parquet:%[2]s/pond"
  pool: "parquet:%[2]s/pool"
  bi: "postgres://user:${CANARY_DSN}@127.0.0.1:1/none"
pipelines:
  keys: {from: keys, to: [lake], streams: [v2.contacts, crm.pipelines, wl.plans, my.feed], mask: {"*.email": hmac}, mask_key: "${CANARY_MASK}"}
  user: {from: user, to: [pond], streams: [crm.pipelines]}
  grant: {from: grant, to: [pool], streams: [v2.contacts]}
  down: {from: keys, to: [bi], streams: [crm.pipelines]}
streams:
  wl.plans: {auth: {token: "${CANARY_WL}"}}
  my.feed: {path: "%[1]s/feed", auth: {token: "${CANARY_FEED}"}}
serve: {auth: {token: "${CANARY_DASH}"}}
state: %[2]s/state
`, base, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pipelines.yaml"), []byte(text), 0o600))
	return dir
}

// troubles are the faults to inject, one at a time.
func troubles() []string {
	all := []string{
		"nothing", "expired", "revoked", "lost", sandbox.FaultSlow, sandbox.FaultTruncate, sandbox.FaultCut, sandbox.FaultReset, sandbox.FaultHTML,
		sandbox.FaultMalformed, sandbox.FaultModuleOff, sandbox.FaultRedirect, sandbox.FaultEmpty, sandbox.FaultStuck,
	}
	for _, status := range []int{200, 302, 400, 401, 403, 404, 422, 429, 500, 503} {
		all = append(all, fmt.Sprintf("echo %d", status))
	}
	return all
}

// Whatever goes wrong, no secret leaks to the output, to a table or to a file. Only the token files contain secrets.
func TestNoSecretEscapes(t *testing.T) {
	platform, err := sandbox.New(sandbox.Options{NoLimits: true})
	require.NoError(t, err)
	g := &gossip{behind: platform, heard: map[string]bool{}, now: map[string]bool{}}
	srv := httptest.NewServer(g)
	t.Cleanup(srv.Close)
	dir := canaries(t, srv.URL)
	var told bytes.Buffer
	signInGrant(t, dir)
	for i, trouble := range troubles() {
		if testing.Short() && i%4 != 0 {
			continue
		}
		g.upset(t, platform, trouble)
		for _, line := range []string{
			"sync keys", "sync user --json", "sync grant", "check keys --json", "check user", "check grant", "login --status", "preview v2.contacts -n 1", "sync down",
		} {
			if line == "sync down" && i > 0 || strings.HasPrefix(line, "preview") && i > 4 {
				continue
			}
			g.forget()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			runCommand(ctx, append(strings.Fields(line), "-v", "-c", filepath.Join(dir, "pipelines.yaml"), "--no-progress"), &told, &told)
			cancel()
		}
		g.upset(t, platform, "nothing")
		signInGrant(t, dir) // the grant may have expired
	}
	for _, secret := range kinds {
		g.note(secret)
	}
	require.Greater(t, len(g.heard), 20, "enough secrets must have been sent or received")
	g.search(t, "output", told.Bytes())
	files := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		own := filepath.Base(filepath.Dir(path)) == "tokens" && strings.HasSuffix(path, ".json")
		if d.Type().IsRegular() && !own && filepath.Base(path) != "pipelines.yaml" {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			g.search(t, path, text)
			files++
		}
		return nil
	}))
	t.Logf("%d secrets, %d bytes of output, %d files", len(g.heard), told.Len(), files)
	require.Contains(t, told.String(), "[redacted]", "something must be redacted")
}

// search searches text for all recorded secrets.
func (g *gossip) search(t *testing.T, where string, text []byte) {
	t.Helper()
	for secret := range g.heard {
		for _, shape := range shapes(secret) {
			if i := bytes.Index(text, []byte(shape)); i >= 0 {
				t.Errorf("%s contains %q: …%q…", where, secret, text[max(0, i-200):min(len(text), i+len(shape)+60)])
				return
			}
		}
	}
}

// upset removes the previous fault and injects the given fault, which troubles() has returned.
func (g *gossip) upset(t *testing.T, platform *sandbox.Server, trouble string) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.status = 0
	require.NoError(t, platform.SetFaults())
	control := func(path string) {
		platform.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, nil))
	}
	switch {
	case trouble == "nothing":
	case trouble == "expired":
		control("/_sandbox/expire")
	case trouble == "revoked":
		control("/_sandbox/revoke")
	case trouble == "lost":
		control("/_sandbox/expire")
		require.NoError(t, platform.SetFaults(sandbox.Fault{Kind: sandbox.FaultLost, Count: 1}))
	case strings.HasPrefix(trouble, "echo "):
		control("/_sandbox/expire")
		_, err := fmt.Sscanf(trouble, "echo %d", &g.status)
		require.NoError(t, err)
	default:
		require.NoError(t, platform.SetFaults(sandbox.Fault{Kind: trouble, Count: 3}))
	}
}

// signInGrant signs in like a person with a browser.
func signInGrant(t *testing.T, dir string) {
	t.Helper()
	c, err := (&app{open: open.Opener{File: filepath.Join(dir, "pipelines.yaml"), Kinds: destinationKinds()}}).open.Load()
	require.NoError(t, err)
	all, err := c.SignIns("grant", (&app{}).open.State(c).Vault())
	require.NoError(t, err)
	require.NoError(t, allow(t, all[0]))
}

func allow(t *testing.T, s config.SignIn) error {
	client, err := wire.New(s.Options)
	require.NoError(t, err)
	defer client.Close()
	return client.SignIn(t.Context(), wire.SignInMethod{Show: func(address string) error {
		var wg sync.WaitGroup
		wg.Go(func() {
			if resp, err := http.Get(address); err == nil {
				_ = resp.Body.Close()
			}
		})
		t.Cleanup(wg.Wait)
		return nil
	}})
}
