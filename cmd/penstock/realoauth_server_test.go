//go:build cgo && duckdb_arrow

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/failure"
)

// authKind describes how to start and use an authorization server. The program of the server comes from a public
// package registry.
type authKind struct {
	name, program     string
	command           func(dir, folder, issuer, port string) *exec.Cmd
	token, introspect string // paths
	revoke            string
	device            func(*authServer) string // returns the oauth block of pipelines.yaml for a sign-in with a device code
	lenient           []string                 // environment variables that make the server accept a refresh token a second time
	grace             string                   // the value of refresh_grace for a server that runs with these variables
	noRefresh         string                   // id of the client that gets no refresh token; "" if there is none
}

var authKinds = []authKind{
	{
		name: "node-oidc-provider", program: "npm/node_modules/oidc-provider/package.json",
		command: func(dir, _, issuer, port string) *exec.Cmd {
			return exec.Command("node", "testdata/oauth/oidc-provider.mjs", filepath.Join(dir, "npm", "node_modules"), issuer, port)
		},
		token: "/token", introspect: "/token/introspection", revoke: "/token/revocation",
		device:    func(*authServer) string { return "client_id: public" },
		lenient:   []string{"ROTATE=no"},
		grace:     "always",
		noRefresh: "norefresh",
	},
	{
		name: "django-oauth-toolkit", program: "oauth/bin/django-admin",
		command: func(dir, folder, issuer, port string) *exec.Cmd {
			return exec.Command(filepath.Join(dir, "oauth", "bin", "python"), "testdata/oauth/django_oauth.py", folder, issuer, port)
		},
		token: "/token/", introspect: "/introspect/", revoke: "/revoke_token/",
		device: func(s *authServer) string {
			return "client_id: device, device_url: '" + s.url + "/device-authorization/'"
		},
		lenient: []string{"GRACE=120"},
		grace:   "1m",
	},
}

// realPeople is the number of lists that the API has.
const realPeople = 6

// authServer is a running authorization server behind a proxy. The proxy also serves the API, and asks the server
// about each access token. The proxy can make requests to the token endpoint fail.
type authServer struct {
	kind authKind
	url  string
	back *url.URL // the server itself

	renewals, codes, reads atomic.Int64
	revokeDown             atomic.Bool
	deadStatus             atomic.Int64 // status of responses to an expired token; 0 means 401
	needs                  atomic.Value // the scope that the API requires

	mu      sync.Mutex
	instead http.HandlerFunc // answers requests to the token endpoint in place of the server
	times   int
	spent   map[string]bool                // access tokens that the API treats as expired
	seen    map[string]bool                // access tokens that have reached the API
	refresh int                            // how many refresh tokens have reached the server
	after   func(http.ResponseWriter) bool // called after the token endpoint has made a response, and before the response is sent
}

// startAuth starts a server and waits until it answers.
func startAuth(t *testing.T, dir string, kind authKind, env ...string) *authServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	s := &authServer{kind: kind, back: &url.URL{Scheme: "http", Host: address}}
	s.reset()
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.url = srv.URL
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	cmd := kind.command(dir, t.TempDir(), s.url, port)
	cmd.Env = append(os.Environ(), env...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	require.Eventually(t, func() bool {
		resp, err := http.Get(s.back.String() + "/.well-known/oauth-authorization-server")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return true
	}, time.Minute, 100*time.Millisecond, "%s", &log)
	return s
}

// anew() undoes what the previous test has done.
func (s *authServer) anew(t *testing.T) *authServer {
	t.Helper()
	s.reset()
	return s
}

func (s *authServer) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewals.Store(0)
	s.codes.Store(0)
	s.reads.Store(0)
	s.revokeDown.Store(false)
	s.deadStatus.Store(http.StatusUnauthorized)
	s.needs.Store("crm.read")
	s.instead, s.times, s.after, s.refresh = nil, 0, nil, 0
	s.spent, s.seen = map[string]bool{}, map[string]bool{}
}

// expire makes the API treat every token seen so far as expired.
func (s *authServer) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for token := range s.seen {
		s.spent[token] = true
	}
}

// intercept lets h answer the next requests to the token endpoint, as many as the argument `times` says.
func (s *authServer) intercept(h http.HandlerFunc, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instead, s.times = h, times
}

// presented() returns how many refresh tokens have reached the server.
func (s *authServer) presented() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refresh
}

// ServeHTTP answers requests to the API, and forwards other requests to the server.
func (s *authServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/people"):
		s.people(w, r)
	case r.URL.Path == s.kind.token && r.Method == http.MethodPost:
		s.tokenEndpoint(w, r)
	case r.URL.Path == s.kind.revoke && s.revokeDown.Load():
		refuseWith(503, "text/html", "<html>down", "")(w, r)
	default:
		s.forward(w, r)
	}
}

func (s *authServer) forward(w http.ResponseWriter, r *http.Request) {
	(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(s.back)
		p.Out.Host = p.In.Host
	}}).ServeHTTP(w, r)
}

func (s *authServer) tokenEndpoint(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	instead := s.instead
	if s.times--; s.times < 0 {
		instead = nil
	}
	after := s.after
	s.mu.Unlock()
	if instead != nil {
		instead(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	form, _ := url.ParseQuery(string(body))
	switch form.Get("grant_type") {
	case "refresh_token":
		s.mu.Lock()
		s.refresh++
		s.mu.Unlock()
	case "authorization_code":
		s.codes.Add(1)
	}
	answer := httptest.NewRecorder()
	s.forward(answer, r)
	if form.Get("grant_type") == "refresh_token" && answer.Code == http.StatusOK {
		s.renewals.Add(1)
	}
	if after != nil && form.Get("grant_type") == "refresh_token" && after(w) {
		return
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// people serves a list of the API.
func (s *authServer) people(w http.ResponseWriter, r *http.Request) {
	s.reads.Add(1)
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	scope, ok := s.ask(token)
	s.mu.Lock()
	s.seen[token] = true
	ok = ok && !s.spent[token]
	s.mu.Unlock()
	needs := s.needs.Load().(string)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case !ok:
		w.Header().Set("WWW-Authenticate", `Bearer realm="api", error="invalid_token", error_description="The token has expired"`)
		w.WriteHeader(int(s.deadStatus.Load()))
		fmt.Fprint(w, `{"error":"invalid_token"}`)
	case !strings.Contains(" "+scope+" ", " "+needs+" "):
		w.Header().Set("WWW-Authenticate", `Bearer realm="api", error="insufficient_scope", scope="`+needs+`"`)
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"error":"insufficient_scope"}`)
	default:
		fmt.Fprint(w, `{"data":[{"id":1,"name":"a"},{"id":2,"name":"b"}],"total":2}`)
	}
}

func (s *authServer) active(token string) bool {
	_, ok := s.ask(token)
	return ok
}

// ask asks the server for a token's scope, and whether the token is active.
func (s *authServer) ask(token string) (scope string, active bool) {
	r, err := http.NewRequest(http.MethodPost, s.back.String()+s.kind.introspect, strings.NewReader(url.Values{"token": {token}}.Encode()))
	if err != nil {
		return "", false
	}
	r.Host = strings.TrimPrefix(s.url, "http://")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("basic", "oauth-client-secret")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", false
	}
	defer resp.Body.Close()
	var answer struct {
		Active bool   `json:"active"`
		Scope  string `json:"scope"`
	}
	_ = json.NewDecoder(resp.Body).Decode(&answer)
	return answer.Scope, answer.Active
}

// home is a folder with a configuration that reads the API of an authServer.
type home struct {
	t   *testing.T
	s   *authServer
	dir string
}

func (s *authServer) home(t *testing.T, oauth, surface string) *home {
	t.Helper()
	if surface == "" {
		surface = "v2"
	}
	h := &home{t, s, t.TempDir()}
	var streams, named []string
	for i := range realPeople {
		streams = append(streams, fmt.Sprintf("real.people%d", i))
		named = append(named, fmt.Sprintf("real.people%d: {surface: %s, path: /people%[1]d}", i, surface))
	}
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "pipelines.yaml"), fmt.Appendf(nil, `version: 1
sources: {main: {%s: {base_url: %q, max_wait: 4s, auth: {oauth: {%s, issuer: %q, scopes: [crm.read]}}}}}
destinations: {warehouse: "duckdb:warehouse.duckdb"}
pipelines: {all: {from: main, to: warehouse, streams: [%s]}}
streams: {%s}
`, surface, s.url, oauth, s.url, strings.Join(streams, ", "), strings.Join(named, ", ")), 0o600))
	return h
}

func (h *home) command(args ...string) *exec.Cmd {
	self, err := os.Executable()
	require.NoError(h.t, err)
	cmd := exec.CommandContext(h.t.Context(), self)
	cmd.Args, cmd.Dir = append([]string{"penstock", "--no-progress"}, args...), h.dir
	return cmd
}

func (h *home) run(args ...string) (int, string) {
	cmd := h.command(args...)
	out, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(out)
}

// start starts penstock, and returns a function that waits until it ends. Its output can be read while it runs.
func (h *home) start(args ...string) (wait func() error, out *printedLines) {
	cmd := h.command(args...)
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	require.NoError(h.t, cmd.Start())
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		_ = w.Close()
		ended <- err
	}()
	return func() error { return <-ended }, readOutput(r)
}

var loginLine = regexp.MustCompile(`^(http\S+)$`)

// login signs in with a browser on this machine.
func (h *home) login(d decision) (asked *url.URL, code int, out string) {
	cmd := h.command("login", "--no-browser")
	stderr, err := cmd.StderrPipe()
	require.NoError(h.t, err)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	require.NoError(h.t, cmd.Start())
	lines := readOutput(stderr)
	address := lines.find(h.t, loginLine)[1]
	asked, err = url.Parse(address)
	require.NoError(h.t, err)
	newPerson(h.t, h.s.url).visit(address, d)
	out = lines.String()
	_ = cmd.Wait()
	return asked, cmd.ProcessState.ExitCode(), out + stdout.String()
}

func (h *home) signIn(t *testing.T) {
	t.Helper()
	_, code, out := h.login(accept)
	require.Equal(t, failure.ExitDone, code, out)
	code, out = h.run("sync", "--stream", "real.people0") // the API has now seen the token, so that expire() applies to it
	require.Equal(t, failure.ExitDone, code, out)
}

// paste signs in with a browser on another machine.
func (h *home) paste(change func(*url.URL)) (int, string) {
	cmd := h.command("login", "--paste")
	in, err := cmd.StdinPipe()
	require.NoError(h.t, err)
	stderr, err := cmd.StderrPipe()
	require.NoError(h.t, err)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	require.NoError(h.t, cmd.Start())
	lines := readOutput(stderr)
	address := lines.find(h.t, loginLine)[1]
	end := newPerson(h.t, h.s.url).walk(address, accept)
	u, err := url.Parse(end)
	require.NoError(h.t, err)
	if change != nil {
		change(u)
	}
	_, err = fmt.Fprintln(in, u)
	require.NoError(h.t, err)
	out := lines.String()
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode(), out + stdout.String()
}

// metrics starts a daemon, waits until it has checked the sign-ins, and returns its metrics.
func (h *home) metrics(t *testing.T) (text string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	file := filepath.Join(h.dir, "pipelines.yaml")
	conf, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, fmt.Appendf(conf, "serve: {listen: %q}\n", address), 0o600))
	defer func() { require.NoError(t, os.WriteFile(file, conf, 0o600)) }()
	cmd := h.command("serve")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	require.Eventually(t, func() bool {
		resp, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		text = string(body)
		return strings.Contains(text, "penstock_grant_usable{")
	}, 30*time.Second, 100*time.Millisecond, "%s", &log)
	return text
}

// tokens returns the path of the token file.
func (h *home) tokens(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(h.dir, ".penstock", "tokens", "*.json"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	return files[0]
}

// settle waits until runs may send requests again: the last run has stored a pause of less than five seconds.
func (h *home) settle() { time.Sleep(5 * time.Second) }

// decision is what a person does on the server's pages: accept or deny.
type decision bool

const (
	accept decision = true
	deny   decision = false
)

// person walks through the pages of a server with a separate browser.
type person struct {
	t      *testing.T
	issuer string
	client *http.Client
	fields map[string]string // what the person types into a form, by the name of the field
}

func newPerson(t *testing.T, issuer string) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &person{t, issuer, &http.Client{
		Jar:           jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, map[string]string{"login": "demo", "password": "demo"}}
}

// visit walks through the pages, and follows the final redirect.
func (p *person) visit(address string, d decision) {
	resp, err := http.Get(p.walk(address, d))
	require.NoError(p.t, err)
	_ = resp.Body.Close()
}

var (
	formTag   = regexp.MustCompile(`(?is)<form\b[^>]*>`)
	fieldTag  = regexp.MustCompile(`(?is)<(?:input|button)\b[^>]*>`)
	attribute = regexp.MustCompile(`(?is)([a-z_-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')`)
	abortLink = regexp.MustCompile(`(?i)href="([^"]*/abort)"`)
)

func attributes(tag string) map[string]string {
	all := map[string]string{}
	for _, m := range attribute.FindAllStringSubmatch(tag, -1) {
		all[strings.ToLower(m[1])] = html.UnescapeString(m[2] + m[3])
	}
	return all
}

// walk goes through the server's pages until a page redirects to another host, and returns the address of this
// redirect. If no page redirects to another host, walk returns the address of the last page.
func (p *person) walk(address string, d decision) string {
	resp, err := p.client.Get(address)
	for range 20 {
		require.NoError(p.t, err)
		body, err2 := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		require.NoError(p.t, err2)
		at := resp.Request.URL
		if to := resp.Header.Get("Location"); to != "" {
			next, err2 := at.Parse(to)
			require.NoError(p.t, err2)
			if !strings.HasPrefix(next.String(), p.issuer+"/") {
				return next.String()
			}
			resp, err = p.client.Get(next.String())
			continue
		}
		if m := abortLink.FindSubmatch(body); m != nil && d == deny {
			next, err2 := at.Parse(string(m[1]))
			require.NoError(p.t, err2)
			resp, err = p.client.Get(next.String())
			continue
		}
		form := formTag.Find(body)
		require.Less(p.t, resp.StatusCode, 400, "%s: %s", at, body)
		if form == nil {
			return at.String()
		}
		resp, err = p.submit(at, attributes(string(form)), body, d)
	}
	require.FailNow(p.t, "the pages do not end")
	return ""
}

// submit fills in the only form of a page.
func (p *person) submit(at *url.URL, form map[string]string, body []byte, d decision) (*http.Response, error) {
	values := url.Values{}
	for _, tag := range fieldTag.FindAllString(string(body), -1) {
		a := attributes(tag)
		typed, known := p.fields[a["name"]]
		switch {
		case a["name"] == "", a["name"] == "abort":
		case a["name"] == "action": // the two buttons of the form
			values.Set("action", map[decision]string{accept: "accept", deny: "deny"}[d])
		case a["name"] == "allow" && d == deny:
		case known:
			values.Set(a["name"], typed)
		default:
			values.Set(a["name"], a["value"])
		}
	}
	to, err := at.Parse(form["action"])
	require.NoError(p.t, err)
	r, err := http.NewRequest(http.MethodPost, to.String(), strings.NewReader(values.Encode()))
	require.NoError(p.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", p.issuer)
	r.Header.Set("Referer", at.String())
	return p.client.Do(r)
}
