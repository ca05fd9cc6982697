package serve_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/access"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/cmd/internal/serve/facts"
	"github.com/penstock-data/penstock/cmd/internal/serve/receive"
	"github.com/penstock-data/penstock/cmd/internal/serve/signal"
	"github.com/penstock-data/penstock/cmd/internal/signature"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state"
)

// surface is the daemon with its real handlers. It counts what requests change.
type surface struct {
	handler http.Handler
	facts   *facts.Facts
	journal *state.JournalFile
	inbox   *state.InboxFile
	effects atomic.Int64
}

// visitor is the sender of a request. Each process makes its own tokens and sessions, so no fuzz input contains a valid
// token or session.
type visitor struct {
	name    string
	role    access.Role
	header  http.Header
	session bool
}

const canary = "canary-of-the-data"

type counted struct{ s *surface }

func (c counted) Start(context.Context, string, ...string) error { c.s.effects.Add(1); return nil }
func (c counted) Pause(context.Context, string) error            { c.s.effects.Add(1); return nil }
func (c counted) Resume(context.Context, string) error           { c.s.effects.Add(1); return nil }
func (c counted) PauseSource(context.Context, string) error      { c.s.effects.Add(1); return nil }
func (c counted) ResumeSource(context.Context, string) error     { c.s.effects.Add(1); return nil }

func newSurface(t testing.TB) (*surface, []visitor) {
	t.Helper()
	s := &surface{}
	dir := t.TempDir()
	var err error
	s.journal, err = state.OpenJournal(t.Context(), dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.journal.Close()) })
	s.inbox, err = state.OpenInbox(t.Context(), dir, state.InboxOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.inbox.Close()) })

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	d := serve.New(serve.Config{Journal: s.journal, Listener: listener})
	log := slog.New(slog.DiscardHandler)
	guard := access.New(access.Options{})
	var tokens []access.Token
	for _, role := range []access.Role{access.Metrics, access.Read, access.Operate} {
		tokens = append(tokens, access.Token{Name: string(role), Secret: wire.Secret(rand.Text()), Role: role})
	}
	guard.Define(tokens)
	feed := &board.Feed{}
	f := facts.New(facts.Config{
		Destinations: func() []facts.DestinationPart { return nil },
		Webhooks:     func() []facts.Receiver { return []facts.Receiver{{Source: canary, Scheme: "stripe"}} },
		Journal:      s.journal, Inbox: s.inbox, Log: log,
	}, feed)
	b, err := board.New(board.Config{Facts: f, Control: counted{s}, Feed: feed, Access: guard, Record: f.Record, Version: "1", Log: log})
	require.NoError(t, err)
	b.Close()
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	f.Attach(d)
	working.Go(func() { f.Refresh(ctx) })
	t.Cleanup(func() { cancel(); working.Wait() })

	scheme, ok := signature.Preset("stripe", "Service-Signature")
	require.True(t, ok)
	verifier, err := signature.Compile([]signature.Scheme{scheme}, []signature.Key{{Secret: wire.Secret(rand.Text()), Label: "now"}})
	require.NoError(t, err)
	hooks := receive.New(receive.Options{Inbox: s.inbox})
	hooks.Define(receive.Sources{"main": verifier})
	health := signal.NewHealth(func() error { return nil }, log)
	health.Ready()
	metrics := signal.NewMetrics(signal.Build{Version: canary}, func() signal.Reading { return signal.Reading{} })
	d.Handlers = serve.Handlers{Webhooks: hooks, Health: health, Metrics: guard.Require(access.Metrics, metrics.Handler(log)), Events: b, API: b, Board: b}
	s.handler, s.facts = d.Handler(), f

	bearer := func(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
	all := []visitor{{name: "nobody"}, {name: "wrong token", header: bearer("wrong-" + rand.Text())}}
	for _, k := range tokens {
		all = append(all, visitor{name: "token " + k.Name, role: k.Role, header: bearer(k.Secret.Reveal())})
	}
	for _, k := range tokens[1:] {
		all = append(all, visitor{name: "session " + k.Name, role: k.Role, header: s.signIn(t, k.Secret.Reveal()), session: true})
	}
	return s, all
}

var formMark = regexp.MustCompile(`name="mark" value="([^"]+)"`)

func (s *surface) signIn(t testing.TB, token string) http.Header {
	t.Helper()
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1/signin", nil))
	mark := formMark.FindStringSubmatch(w.Body.String())
	require.Len(t, mark, 2, w.Body.String())
	r := httptest.NewRequest("POST", "http://127.0.0.1/signin", strings.NewReader(url.Values{"token": {token}, "mark": {mark[1]}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, c := range w.Result().Cookies() {
		r.AddCookie(c)
	}
	w = httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body.String())
	header := http.Header{}
	for _, c := range w.Result().Cookies() {
		header.Add("Cookie", c.Name+"="+c.Value)
	}
	r = httptest.NewRequest("GET", "http://127.0.0.1/", nil)
	r.Header = header.Clone()
	w = httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code)
	mark = formMark.FindStringSubmatch(w.Body.String())
	require.Len(t, mark, 2, w.Body.String())
	header.Set("X-CSRF-Token", mark[1])
	return header
}

func FuzzSurface(f *testing.F) {
	s, visitors := newSurface(f)
	targets := []string{
		"/", "/webhooks/main", "/webhooks/other", "//webhooks//main", "/healthz", "/readyz", "/metrics", "/events", "/signin?next=//evil.example", "/signin?next=/\\evil.example", "/signout", "/favicon.ico",
		"/assets/board.css", "/assets/..%2f..%2fboard.go", "/pipelines", "/pipelines/x/run", "/pipelines/x/streams/y/retry", "/sources/x/pause", "/api/v1/status", "/api/v1/openapi.json", "/api/v1/audit?limit=-1",
		"/api/v1/runs?limit=99999999999999999999&offset=x", "/api/v1/pipelines/x/run", "/api/v1/pipelines/x/pause", "/api/v1/sources/x/resume", "/runs/%3czq%20onload=1%3e", "/streams?stream=<zq>", "/%00", "/%", "/nothing?x=<zq>",
		"http://evil.example/", "*", "/.././../etc/passwd", "//evil.example/..", "/pipelines/<zq>/streams/<zq>", "/runs/a/../../b",
	}
	for i, target := range targets {
		for _, method := range []string{"GET", "POST"} {
			f.Add(method, target, "X-A: <zq>\r\nContent-Type: application/x-www-form-urlencoded", "back=//evil.example&next=<zq>&token=<zq>", byte(i))
		}
	}
	f.Add("POST", "/api/v1/pipelines/x/run", "Sec-Fetch-Site: cross-site\r\nOrigin: http://evil.example", "{}", byte(6))
	f.Add("POST", "/pipelines/x/run", "Content-Type: multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=mark\r\n\r\n<zq>\r\n--x--", byte(endless+6))
	f.Add("PUT", "/", "Host: evil.example\r\nCookie: penstock_session=<zq>; __Host-penstock_form=y\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https", "", byte(0))
	f.Add("DELETE", "/webhooks/main", "Content-Encoding: gzip\r\nService-Signature: t=1,v1=00", "<zq>", byte(endless))
	f.Fuzz(func(t *testing.T, method, target, header, body string, who byte) {
		v := visitors[int(who)%endless%len(visitors)]
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + header + "\r\n\r\n")))
		if err != nil || strings.Contains(target+header+body, canary) {
			return
		}
		if host := strings.Split(header, "Host:"); len(host) > 1 {
			r.Host = strings.TrimSpace(strings.SplitN(host[1], "\r\n", 2)[0])
		}
		for name, values := range v.header {
			r.Header[name] = values
		}
		in := &counting{text: body, endless: who >= endless}
		r.Body, r.ContentLength = io.NopCloser(in), int64(len(body))
		if in.endless {
			r.ContentLength = -1
		}
		r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", int(who)%endless%len(visitors))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		before := s.standing(t)
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r.WithContext(ctx))
		s.judge(t, v, r, w)
		require.LessOrEqual(t, in.read, receive.MaxBody+64<<10, "the server must stop reading a body that is too large")
		after := s.standing(t)
		if v.role != access.Operate || v.session && r.Header.Get("Sec-Fetch-Site") == "cross-site" || r.Method == "GET" || r.Method == "HEAD" {
			require.Equal(t, before.effects, after.effects, "a request of %s must change nothing", v.name)
		}
		if v.role == "" {
			require.Equal(t, before, after, "a request of %s must leave no record", v.name)
		}
	})
}

// endless is added to the visitor's number if the body of the request never ends.
const endless = 128

type counting struct {
	text    string
	endless bool
	read    int
}

func (c *counting) Read(p []byte) (int, error) {
	if c.endless {
		for i := range p {
			p[i] = "<zq onload=1>&"[(c.read+i)%14]
		}
		c.read += len(p)
		return len(p), nil
	}
	if c.read == len(c.text) {
		return 0, io.EOF
	}
	n := copy(p, c.text[c.read:])
	c.read += n
	return n, nil
}

type slotState struct {
	effects int64
	audited int
	events  string
}

func (s *surface) standing(t testing.TB) slotState {
	t.Helper()
	audited, err := s.facts.Audit(t.Context(), board.Query{Limit: 1})
	require.NoError(t, err)
	events, err := s.inbox.Backlogs(t.Context())
	require.NoError(t, err)
	return slotState{s.effects.Load(), audited.Total, fmt.Sprint(events)}
}

var (
	reflected = regexp.MustCompile(`(?i)<zq`)
	ownPath   = regexp.MustCompile(`^/([^/\\]|$)`)
)

// judge checks a response. The response must not be an internal error, contain data that the visitor has no permission
// to see, contain markup from the request, or redirect to another site.
func (s *surface) judge(t *testing.T, v visitor, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	about := fmt.Sprintf("%s: %s %s: %d", v.name, r.Method, r.URL, w.Code)
	require.Less(t, w.Code, 500, about)
	require.LessOrEqual(t, w.Body.Len(), 1<<20, about)
	if strings.Contains(w.Body.String(), canary) {
		require.True(t, v.role.Includes(access.Read) || v.role == access.Metrics && r.URL.Path == "/metrics", "%s shows data", about)
	}
	h := w.Result().Header
	kind := h.Get("Content-Type")
	if strings.HasPrefix(kind, "text/html") || kind == "" || strings.Contains(kind, "xml") || strings.Contains(kind, "script") {
		require.NotRegexp(t, reflected, w.Body.String(), about)
	}
	for name, want := range map[string]string{"X-Content-Type-Options": "^nosniff$", "Content-Security-Policy": "^default-src 'none'", "Referrer-Policy": "^(no-referrer|same-origin)$"} {
		require.Len(t, h.Values(name), 1, "%s: %s", about, name)
		require.Regexp(t, want, h.Get(name), about)
	}
	if to := h.Get("Location"); to != "" {
		require.Regexp(t, ownPath, to, about)
	}
	for _, c := range w.Result().Cookies() {
		require.True(t, c.HttpOnly && c.SameSite >= http.SameSiteLaxMode && c.Path == "/", "%s: %s", about, c)
		require.Equal(t, access.Encrypted(r), c.Secure && strings.HasPrefix(c.Name, "__Host-"), "%s: %s", about, c)
	}
}

// TestSurfaceLetsVisitorsIn is the opposite of FuzzSurface: each visitor can do everything that its role allows.
func TestSurfaceLetsVisitorsIn(t *testing.T) {
	s, visitors := newSurface(t)
	for i, v := range visitors {
		ask := func(method, target string) int {
			r := httptest.NewRequest(method, "http://127.0.0.1"+target, nil)
			r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", i)
			for name, values := range v.header {
				r.Header[name] = values
			}
			w := httptest.NewRecorder()
			s.handler.ServeHTTP(w, r)
			s.judge(t, v, r, w)
			if w.Code == 200 && target != "/healthz" {
				require.Contains(t, w.Body.String(), canary, "%s: %s", v.name, target)
			}
			return w.Code
		}
		require.Equal(t, 200, ask("GET", "/healthz"), v.name)
		require.Equal(t, v.role.Includes(access.Read), ask("GET", "/api/v1/webhooks") == 200, v.name)
		require.Equal(t, v.role.Includes(access.Read), ask("GET", "/webhooks") == 200, v.name)
		require.Equal(t, v.role != "" && !v.session, ask("GET", "/metrics") == 200, v.name)
		before := s.effects.Load()
		require.Equal(t, v.role == access.Operate, ask("POST", "/api/v1/pipelines/x/run") == 202, v.name)
		ask("POST", "/pipelines/x/pause") // strangers are redirected to the sign-in
		require.Equal(t, v.role == access.Operate, s.effects.Load() == before+2, v.name)
	}
}
