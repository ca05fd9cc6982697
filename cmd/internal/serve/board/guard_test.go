package board_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/access"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
)

const token = "tok_correct-horse-battery"

var markOf = regexp.MustCompile(`name="mark" value="([^"]+)"`)

func (s *served) page(t *testing.T, path, cookies string) (body, mark, got string) {
	t.Helper()
	resp := s.do(t, "GET", path, "", "Cookie", cookies)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode, "%s: %s", path, text)
	if m := markOf.FindSubmatch(text); m != nil {
		mark = string(m[1])
	}
	return string(text), mark, cookiesOf(resp, cookies)
}

func cookiesOf(resp *http.Response, before string) string {
	all := []string{}
	if before != "" {
		all = append(all, before)
	}
	for _, c := range resp.Cookies() {
		all = append(all, c.Name+"="+c.Value)
	}
	return strings.Join(all, "; ")
}

const form = "application/x-www-form-urlencoded"

func (s *served) signIn(t *testing.T) string {
	t.Helper()
	_, mark, cookies := s.page(t, "/signin", "")
	resp := s.do(t, "POST", "/signin", "mark="+mark+"&token="+token+"&next=/runs", "Cookie", cookies, "Content-Type", form)
	require.Equal(t, 303, resp.StatusCode)
	require.Equal(t, "/runs", resp.Header.Get("Location"))
	for _, c := range resp.Cookies() {
		require.True(t, c.HttpOnly)
		require.Equal(t, http.SameSiteStrictMode, c.SameSite)
	}
	return cookiesOf(resp, "")
}

func TestSignIn(t *testing.T) {
	s := boardOf(t, telling(1, plain), token)
	for _, path := range pages(s.facts) {
		resp := s.do(t, "GET", path, "")
		require.Equal(t, 303, resp.StatusCode, path)
		require.Contains(t, resp.Header.Get("Location"), "/signin?next=")
	}
	for _, path := range []string{"/api/v1/status", "/events", "/api/v1/openapi.json"} {
		resp := s.do(t, "GET", path, "")
		require.Equal(t, 401, resp.StatusCode, path)
		require.Contains(t, resp.Header.Get("WWW-Authenticate"), "Bearer")
		require.Equal(t, 200, s.do(t, "GET", "/api/v1/status", "", "Authorization", "Bearer "+token).StatusCode)
		require.Equal(t, 401, s.do(t, "GET", path, "", "Authorization", "Bearer "+token+"x").StatusCode)
	}
	cookies := s.signIn(t)
	body, mark, _ := s.page(t, "/", cookies)
	require.Contains(t, body, "Sign out")
	require.NotContains(t, body, token)

	require.Equal(t, 403, s.do(t, "POST", "/signout", "", "Cookie", cookies, "Content-Type", form).StatusCode)
	require.Equal(t, 303, s.do(t, "POST", "/signout", "mark="+mark, "Cookie", cookies, "Content-Type", form).StatusCode)
	require.Equal(t, 303, s.do(t, "GET", "/runs", "", "Cookie", cookies).StatusCode, "the session has ended")
}

// After ten wrong tokens, not even the correct token is compared for a while. Existing sessions continue.
func TestSignInIsHeldBack(t *testing.T) {
	s := boardOf(t, telling(1, plain), token)
	session := s.signIn(t)
	_, mark, cookies := s.page(t, "/signin", "")
	wrong := 0
	for i := range 12 {
		code := s.do(t, "POST", "/signin", fmt.Sprintf("mark=%s&token=guess%d", mark, i), "Cookie", cookies, "Content-Type", form).StatusCode
		if code == 401 {
			wrong++
			continue
		}
		require.Equal(t, 429, code)
	}
	require.Equal(t, 10, wrong)
	require.Equal(t, 429, s.do(t, "GET", "/api/v1/status", "", "Authorization", "Bearer "+token+"x").StatusCode)
	require.Equal(t, 429, s.do(t, "POST", "/signin", "mark="+mark+"&token="+token, "Cookie", cookies, "Content-Type", form).StatusCode)
	held := s.do(t, "GET", "/api/v1/status", "", "Authorization", "Bearer "+token)
	require.Equal(t, 429, held.StatusCode)
	require.NotEmpty(t, held.Header.Get("Retry-After"))
	_, mark, _ = s.page(t, "/pipelines", session)
	require.Equal(t, 303, s.do(t, "POST", "/pipelines/nightly/run", "mark="+mark, "Cookie", session, "Content-Type", form).StatusCode)
}

// Of 10,000 guesses from 100 addresses within a minute, fewer than 100 are compared. The session of the owner
// keeps working.
func TestGuessesFromManyAddresses(t *testing.T) {
	var evaluated, all atomic.Int64
	at := time.Now()
	var now atomic.Int64
	guard := access.New(access.Options{
		Now: func() time.Time { return at.Add(time.Duration(now.Load())) },
		Observe: func(n serve.AccessRefused) {
			all.Add(1)
			if !n.Limited {
				evaluated.Add(1)
			}
		},
	})
	guard.Define([]access.Token{{Name: "owner", Secret: token, Role: access.Operate}})
	s := guardedBoard(t, telling(1, plain), guard)
	session := s.signIn(t)
	_, mark, cookies := s.page(t, "/signin", "")
	metrics := guard.Require(access.Metrics, http.NotFoundHandler())
	for i := range 10_000 {
		now.Add(int64(time.Minute / 10_000))
		r := httptest.NewRequest("GET", "/api/v1/status", nil)
		h := http.Handler(s.board)
		switch i % 3 {
		case 0:
			r = httptest.NewRequest("POST", "/signin", strings.NewReader("mark="+mark+"&token=guess"))
			r.Header.Set("Content-Type", form)
			r.Header.Set("Cookie", cookies)
		case 1:
			h = metrics
			fallthrough
		default:
			r.Header.Set("Authorization", "Bearer guess")
		}
		r.RemoteAddr = fmt.Sprintf("203.0.113.%d:4711", i%100)
		r.Host = s.Listener.Addr().String() // the names of cookies have the port
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Contains(t, []int{401, 429}, w.Code)
		if i%500 == 0 {
			require.Equal(t, 200, s.do(t, "GET", "/pipelines", "", "Cookie", session).StatusCode)
		}
	}
	require.EqualValues(t, 10_000, all.Load())
	require.Less(t, evaluated.Load(), int64(100))
	t.Logf("%d of 10,000 wrong tokens were evaluated", evaluated.Load())
}

// The sessions of a removed token end.
func TestRoles(t *testing.T) {
	const reader, scraper = "reader-token-0123456789", "scraper-token-0123456789"
	guard := access.New(access.Options{})
	tokens := []access.Token{{Name: "owner", Secret: token, Role: access.Operate}, {Name: "ann", Secret: reader, Role: access.Read}, {Name: "prometheus", Secret: scraper, Role: access.Metrics}}
	guard.Define(tokens)
	s := guardedBoard(t, telling(1, plain), guard)
	sign := func(with string) (int, string) {
		_, mark, cookies := s.page(t, "/signin", "")
		resp := s.do(t, "POST", "/signin", "mark="+mark+"&token="+with, "Cookie", cookies, "Content-Type", form)
		return resp.StatusCode, cookiesOf(resp, "")
	}
	code, _ := sign(scraper)
	require.Equal(t, 403, code)
	require.Equal(t, 403, s.do(t, "GET", "/api/v1/status", "", "Authorization", "Bearer "+scraper).StatusCode)
	code, session := sign(reader)
	require.Equal(t, 303, code)
	for _, path := range pages(s.facts) {
		body, _, _ := s.page(t, path, session)
		require.NotRegexp(t, `action="[^"]*/(run|pause|resume|retry)"`, body, path)
	}
	body, mark, _ := s.page(t, "/pipelines", session)
	require.Contains(t, body, "Sign out")
	for _, path := range []string{"/pipelines/nightly/run", "/pipelines/nightly/pause"} {
		require.Equal(t, 403, s.do(t, "POST", path, "mark="+mark, "Cookie", session, "Content-Type", form).StatusCode)
		require.Equal(t, 403, s.do(t, "POST", "/api/v1"+path, "", "Authorization", "Bearer "+reader).StatusCode)
	}
	require.Empty(t, s.facts.noted())
	require.Equal(t, 200, s.do(t, "GET", "/api/v1/status", "", "Authorization", "Bearer "+reader).StatusCode)
	require.Equal(t, 202, s.do(t, "POST", "/api/v1/pipelines/nightly/pause", "", "Authorization", "Bearer "+token).StatusCode)

	bySession, _ := s.follow(t, "Cookie", session)
	byToken, _ := s.follow(t, "Authorization", "Bearer "+reader)
	byOwner, _ := s.follow(t, "Authorization", "Bearer "+token)
	guard.Define(tokens[:1])
	require.Equal(t, 303, s.do(t, "GET", "/runs", "", "Cookie", session).StatusCode, "the token is gone")
	s.feed.Publish(board.Update{Pipeline: "nightly"})
	require.Contains(t, event(t, byOwner), "nightly")
	for _, r := range []*bufio.Reader{bySession, byToken} {
		_, err := io.Copy(io.Discard, r)
		require.NoError(t, err, "its live updates end")
	}
}

func TestAudit(t *testing.T) {
	const reader = "reader-token-0123456789"
	guard := access.New(access.Options{})
	guard.Define([]access.Token{{Name: "owner", Secret: token, Role: access.Operate}, {Name: "ann", Secret: reader, Role: access.Read}, {Name: "prometheus", Secret: "scraper-token-0123456789", Role: access.Metrics}})
	s := guardedBoard(t, telling(1, plain), guard)
	session := s.signIn(t)
	_, mark, _ := s.page(t, "/pipelines", session)
	s.do(t, "POST", "/pipelines/nightly/run", "mark="+mark, "Cookie", session, "Content-Type", form)
	s.do(t, "POST", "/api/v1/sources/acme/pause", "", "Authorization", "Bearer "+token)
	s.do(t, "POST", "/api/v1/pipelines/nightly/pause", "", "Authorization", "Bearer "+reader)
	s.do(t, "POST", "/api/v1/pipelines/nightly/run", "", "Authorization", "Bearer scraper-token-0123456789")
	s.do(t, "POST", "/signout", "mark="+mark, "Cookie", session, "Content-Type", form)
	s.facts.err = errBusy
	s.do(t, "POST", "/api/v1/pipelines/nightly/streams/crm.leads/retry", "", "Authorization", "Bearer "+token, "X-Forwarded-For", "192.0.2.7")

	var all []string
	for _, a := range s.facts.recorded {
		require.WithinDuration(t, time.Now(), a.At, time.Minute)
		all = append(all, fmt.Sprintf("%s | %s %s | %s | %s %v", a.Who, a.What, a.Object, a.From, a.Outcome, a.Refused))
	}
	require.Equal(t, []string{
		"owner | sign in  | 127.0.0.1 | done false",
		"owner | run pipeline nightly | 127.0.0.1 | done false",
		"owner | pause-source source acme | 127.0.0.1 | done false",
		"ann | POST /api/v1/pipelines/nightly/pause  | 127.0.0.1 | the role of this token does not allow it true",
		"prometheus | POST /api/v1/pipelines/nightly/run  | 127.0.0.1 | the role of this token does not allow it true",
		"owner | sign out  | 127.0.0.1 | done false",
		"owner | retry pipeline nightly, stream crm.leads | 127.0.0.1 for 192.0.2.7 | " + errBusy.Error() + " false",
	}, all)
	require.NotContains(t, strings.Join(all, ""), token)
}

// Behind a proxy with TLS, cookies are valid only for this host and with TLS. A board without tokens refuses
// requests that come through a proxy.
func TestBehindProxy(t *testing.T) {
	s := boardOf(t, telling(1, plain), token)
	const proto, secure = "X-Forwarded-Proto", "https"
	resp := s.do(t, "GET", "/signin", "", proto, secure)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	mark := string(markOf.FindSubmatch(text)[1])
	resp = s.do(t, "POST", "/signin", "mark="+mark+"&token="+token, "Cookie", cookiesOf(resp, ""), "Content-Type", form, proto, secure)
	require.Equal(t, 303, resp.StatusCode)
	for _, c := range resp.Cookies() {
		require.True(t, c.Secure && strings.HasPrefix(c.Name, "__Host-") && c.Path == "/" && c.Domain == "", c.Name)
	}
	session := cookiesOf(resp, "")
	require.Equal(t, 200, s.do(t, "GET", "/runs", "", "Cookie", session, proto, secure).StatusCode)
	planted := strings.ReplaceAll(session, "__Host-", "")
	require.Equal(t, 303, s.do(t, "GET", "/runs", "", "Cookie", planted, proto, secure).StatusCode, "a cookie that another host could have set")

	open := boardOf(t, telling(1, plain), "")
	for _, path := range append(pages(open.facts), "/api/v1/status", "/events") {
		require.Equal(t, 403, open.do(t, "GET", path, "", "X-Forwarded-For", "192.0.2.1").StatusCode, path)
	}
	require.Equal(t, 200, open.do(t, "GET", "/", "").StatusCode)
}

// A request from another site changes nothing, with and without configured tokens.
func TestOnlyOwnPages(t *testing.T) {
	for _, with := range []string{"", token} {
		s := boardOf(t, telling(1, plain), with)
		cookies := ""
		if with != "" {
			cookies = s.signIn(t)
		}
		_, mark, cookies := s.page(t, "/pipelines", cookies)
		_, other, _ := s.page(t, map[string]string{"": "/pipelines", token: "/signin"}[with], "")
		cross := [][]string{
			{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
			{"Origin", "http://127.0.0.1:1"}, {"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"},
		}
		for _, path := range []string{"/pipelines/nightly/run", "/pipelines/nightly/pause", "/pipelines/nightly/resume", "/pipelines/nightly/streams/crm.leads/retry"} {
			for _, h := range cross {
				h = append(h, "Cookie", cookies, "Content-Type", form)
				require.Equal(t, 403, s.do(t, "POST", path, "mark="+mark, h...).StatusCode, "%s %s", path, h)
				require.Equal(t, 403, s.do(t, "POST", "/api/v1"+path, "", append(h, "X-CSRF-Token", mark)...).StatusCode, "%s %s", path, h)
			}
			for _, m := range []string{"", "mark=", "mark=x", "mark=" + other} {
				require.Equal(t, 403, s.do(t, "POST", path, m, "Cookie", cookies, "Content-Type", form).StatusCode, "%s %s", path, m)
			}
			require.Equal(t, 403, s.do(t, "POST", "/api/v1"+path, "", "Cookie", cookies).StatusCode, "a cookie without the CSRF token")
			require.NotEqual(t, 303, s.do(t, "GET", path, "", "Cookie", cookies).StatusCode, "GET %s", path)
			require.Contains(t, []int{404, 405}, s.do(t, "GET", path, "", "Cookie", cookies).StatusCode)
		}
		require.Empty(t, s.facts.noted(), "an action was carried out")

		require.Equal(t, 303, s.do(t, "POST", "/pipelines/nightly/run", "mark="+mark+"&back=/pipelines", "Cookie", cookies, "Content-Type", form, "Sec-Fetch-Site", "same-origin", "Origin", s.URL).StatusCode)
		require.Equal(t, 202, s.do(t, "POST", "/api/v1/pipelines/nightly/pause", "", "Cookie", cookies, "X-CSRF-Token", mark, "Sec-Fetch-Site", "same-origin").StatusCode)
		program := []string{}
		if with != "" {
			program = []string{"Authorization", "Bearer " + with}
		}
		require.Equal(t, 202, s.do(t, "POST", "/api/v1/pipelines/nightly/resume", "", program...).StatusCode)
		require.Equal(t, []string{"run nightly []", "pause nightly", "resume nightly"}, s.facts.noted())
	}
}

func TestLeadsNowhereElse(t *testing.T) {
	s := boardOf(t, telling(1, plain), token)
	_, mark, cookies := s.page(t, "/signin", "")
	for _, next := range []string{"https://evil.example", "//evil.example", `/\evil.example`, "javascript:alert(1)", "/%09/evil.example\t", "evil", "/a\r\nb"} {
		resp := s.do(t, "POST", "/signin", "mark="+mark+"&token="+token+"&next="+escape(next), "Cookie", cookies, "Content-Type", form)
		require.Equal(t, "/", resp.Header.Get("Location"), next)
		session := cookiesOf(resp, "")
		_, m, _ := s.page(t, "/", session)
		resp = s.do(t, "POST", "/pipelines/nightly/run", "mark="+m+"&back="+escape(next), "Cookie", session, "Content-Type", form)
		require.Equal(t, "/?said=run", resp.Header.Get("Location"), next)
	}
}

// A browser does not send a strict cookie after a click on a link on another site.
func TestLinkFromElsewhere(t *testing.T) {
	s := boardOf(t, telling(1, plain), token)
	resp := s.do(t, "GET", "/runs?pipeline=nightly", "", "Sec-Fetch-Site", "cross-site")
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	require.Contains(t, string(text), `http-equiv="refresh" content="0; url=/runs?pipeline=nightly"`)
	require.Empty(t, resp.Cookies())
	require.NotContains(t, string(text), "nightly</a>")
}

func TestHeaders(t *testing.T) {
	s := boardOf(t, telling(1, plain), "")
	for _, path := range append(pages(s.facts), "/api/v1/status", "/nothing", "/api/v1/runs/none", "/assets/board.css", "/signin") {
		h := s.do(t, "GET", path, "").Header
		require.True(t, strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'; "), path)
		require.NotContains(t, h.Get("Content-Security-Policy"), "unsafe", path)
		require.Contains(t, h.Get("Content-Security-Policy"), "frame-ancestors 'none'", path)
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), path)
		require.Equal(t, "same-origin", h.Get("Referrer-Policy"), path)
		require.Equal(t, "no-store", h.Get("Cache-Control"), path)
	}
	body, _, _ := s.page(t, "/", "")
	for _, m := range regexp.MustCompile(`/assets/[^"]+`).FindAllString(body, -1) {
		require.Contains(t, s.do(t, "GET", m, "").Header.Get("Cache-Control"), "immutable", m)
	}
	require.Equal(t, 404, s.do(t, "GET", "/assets/..%2fboard.go", "").StatusCode)
}
