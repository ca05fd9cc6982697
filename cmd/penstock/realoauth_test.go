//go:build cgo && duckdb_arrow

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/failure"
)

// TestRealOAuth signs in to real authorization servers. It renews, revokes and loses their tokens. `make oauth`
// fetches the servers from public registries and runs this test.
func TestRealOAuth(t *testing.T) {
	dir := os.Getenv("PENSTOCK_TEST_SERVERS")
	if dir == "" {
		t.Skip("PENSTOCK_TEST_SERVERS does not name a folder with servers; `make oauth` makes this folder")
	}
	dir, err := filepath.Abs(dir)
	require.NoError(t, err)
	for _, kind := range authKinds {
		t.Run(kind.name, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(dir, kind.program)); err != nil {
				t.Skipf("%s could not be fetched: no %s", kind.name, filepath.Join(dir, kind.program))
			}
			s := startAuth(t, dir, kind)
			for _, c := range []struct {
				name string
				test func(*testing.T, *authServer)
			}{
				{"sign in, from the issuer's metadata, and read", realSignIn},
				{"a wrong state, and a denied sign-in", realRefusals},
				{"the token endpoint is down", realOutage},
				{"a late response of the token endpoint", realLate},
				{"a lost response, and a server that detects a reused token", realLost},
				{"one renewal for many streams", realOneRenewal},
				{"another redirect address", realRedirect},
				{"clients with a secret", realSecrets},
				{"the application surface", realApp},
				{"a device code", realDevice},
				{"a pasted address", realPaste},
				{"sign out", realSignOut},
				{"403 for an expired token and for a missing scope", realForbidden},
				{"a token that the server has revoked", realRevoked},
				{"the daemon's metrics", realMetrics},
			} {
				t.Run(c.name, func(t *testing.T) { c.test(t, s.anew(t)) })
			}
			t.Run("a server that accepts a used refresh token again", func(t *testing.T) {
				realGrace(t, startAuth(t, dir, kind, kind.lenient...))
			})
			t.Run("tokens that expire after 20 seconds", func(t *testing.T) { realShort(t, startAuth(t, dir, kind, "LIFE=20")) })
			if kind.noRefresh != "" {
				t.Run("no refresh token", func(t *testing.T) { realNoRefresh(t, s.anew(t)) })
			}
		})
	}
}

func realSignIn(t *testing.T, s *authServer) {
	h := s.home(t, "client_id: public", "")
	code, out := h.run("sync")
	require.Equal(t, failure.ExitFailed, code, out)
	require.Contains(t, out, "no sign-in yet")
	code, out = h.run("check")
	require.Equal(t, failure.ExitFailed, code, out)
	require.Contains(t, out, "the redirect address to register with the server is http://127.0.0.1/callback (with any port)")

	asked, code, out := h.login(accept)
	require.Equal(t, failure.ExitDone, code, out)
	require.Equal(t, "S256", asked.Query().Get("code_challenge_method"))
	require.NotContains(t, out, "no refresh token")
	code, out = h.run("sync")
	require.Equal(t, failure.ExitDone, code, out)
	s.expire()
	for range 2 {
		code, out = h.run("sync")
		require.Equal(t, failure.ExitDone, code, out)
	}
	require.EqualValues(t, 1, s.renewals.Load())
	code, out = h.run("login", "--status", "--json")
	require.Equal(t, failure.ExitDone, code, out)
	require.Contains(t, out, `"refresh_token":true`)
	require.NotContains(t, out, "lacking")
	_, err := os.ReadFile(h.tokens(t))
	require.NoError(t, err)
}

func realRefusals(t *testing.T, s *authServer) {
	h := s.home(t, "client_id: public", "")
	_, code, out := h.login(deny)
	require.Equal(t, failure.ExitFailed, code, out)
	require.Contains(t, out, "access_denied")
	require.Contains(t, out, "the redirect address to register for client public is http://127.0.0.1/callback")
	code, out = h.paste(func(end *url.URL) {
		q := end.Query()
		q.Set("state", "another")
		end.RawQuery = q.Encode()
	})
	require.Equal(t, failure.ExitFailed, code, out)
	require.Contains(t, out, "its state differs; nothing was exchanged")
	require.Zero(t, s.codes.Load(), "no code may be exchanged")
	code, out = h.run("login", "--status")
	require.Equal(t, failure.ExitFailed, code, out)
	require.Contains(t, out, "no sign-in yet")
}

func realOutage(t *testing.T, s *authServer) {
	h := s.home(t, "client_id: public", "")
	h.signIn(t)
	for name, answer := range map[string]http.HandlerFunc{
		"429":  refuseWith(429, "application/json", `{}`, "2"),
		"502":  refuseWith(502, "text/html", `<html>bad gateway</html>`, ""),
		"503":  refuseWith(503, "application/json", `{}`, "2"),
		"html": refuseWith(200, "text/html", `<html><title>Maintenance</title></html>`, ""),
		"none": refuseWith(200, "", ``, ""),
	} {
		s.expire()
		s.intercept(answer, 2)
		before := s.renewals.Load()
		code, out := h.run("sync")
		require.Equal(t, failure.ExitDone, code, "%s: %s", name, out)
		require.EqualValues(t, 1, s.renewals.Load()-before, name)

		s.expire()
		s.intercept(answer, 1000)
		start := time.Now()
		code, out = h.run("sync")
		require.Equal(t, failure.ExitPartial, code, "%s: %s", name, out)
		require.Contains(t, out, "the sign-in and committed data are safe")
		require.Greater(t, time.Since(start), 2*time.Second)
		s.intercept(nil, 0)
		h.settle()
		code, out = h.run("sync")
		require.Equal(t, failure.ExitDone, code, "%s: %s", name, out)
	}
}

func realLate(t *testing.T, s *authServer) {
	h := s.home(t, "client_id: public", "")
	h.signIn(t)
	s.expire()
	s.after = func(http.ResponseWriter) bool { time.Sleep(33 * time.Second); return false }
	code, out := h.run("sync")
	s.after = nil
	require.Equal(t, failure.ExitDone, code, out)
	require.EqualValues(t, 1, s.renewals.Load())
	code, out = h.run("sync")
	require.Equal(t, failure.ExitDone, code, out)
}

// cut lets the token endpoint close the connection once instead of sending its response.
func (s *authServer) cut() {
	var done atomic.Bool
	s.after = func(w http.ResponseWriter) bool {
		if done.Swap(true) {
			return false
		}
		panic(http.ErrAbortHandler)
	}
}

func realLost(t *testing.T, s *authServer) {
	for _, renewed := range []bool{false, true} {
		h := s.home(t, "client_id: public", "")
		h.signIn(t)
		if renewed {
			s.expire()
			code, out := h.run("sync")
			require.Equal(t, failure.ExitDone, code, out)
		}
		s.expire()
		s.cut()
		before := s.presented()
		for range 3 {
			code, out := h.run("sync")
			require.Equal(t, failure.ExitFailed, code, out)
			require.Regexp(t, "the answer to the renewal at .* was lost", out)
			require.Contains(t, out, "sign in with `penstock login`")
		}
		require.Equal(t, 1, s.presented()-before, "the used refresh token must be presented only once")
		s.after = nil
		h.signIn(t)
		code, out := h.run("sync")
		require.Equal(t, failure.ExitDone, code, out)
	}
}

func realGrace(t *testing.T, s *authServer) {
	h := s.home(t, "client_id: public, refresh_grace: "+s.kind.grace, "")
	h.signIn(t)
	s.expire()
	s.cut()
	code, out := h.run("sync")
	require.Equal(t, failure.ExitDone, code, out)
	require.Equal(t, 2, s.presented())
	s.after = nil
	s.expire()
	code, out = h.run("sync")
	require.Equal(t, failure.ExitDone, code, out)
	if s.kind.grace != "always" {
		return
	}
	// Without refresh_grace: penstock learns from the first renewal that a server does not rotate refresh tokens.
	h = s.home(t, "client_id: public", "")
	h.signIn(t)
	s.expire()
	code, out = h.run("sync")
	require.Equal(t, failure.ExitDone, code, out)
	s.expire()
	s.cut()
	code, out = h.run("sync")
	require.Equal(t, failure.ExitDone, code, out)
	s.after = nil
}

func realOneRenewal(t *testing.T, s *authServer) {
	h := s.home(t, "client_id: public", "")
	h.signIn(t)
	s.expire()
	code, out := h.run("sync")
	require.Equal(t, failure.ExitDone, code, out)
	require.EqualValues(t, 1, s.renewals.Load())
	require.GreaterOrEqual(t, s.reads.Load(), int64(realPeople), "each stream was read")
}

func realShort(t *testing.T, s *authServer) {
	h := s.home(t, "client_id: public", "")
	h.signIn(t)
	for range 3 {
		code, out := h.run("sync", "--stream", "real.people1")
		require.Equal(t, failure.ExitDone, code, out)
	}
	require.LessOrEqual(t, s.renewals.Load(), int64(1), "a token that is valid for 20 seconds must be renewed at most once within a few seconds")
	time.Sleep(21 * time.Second)
	code, out := h.run("sync")
	require.Equal(t, failure.ExitDone, code, out)
	require.LessOrEqual(t, s.renewals.Load(), int64(2))
}

func realRedirect(t *testing.T, s *authServer) {
	h := s.home(t, "client_id: public, redirect_uri: 'http://localhost:8123/oauth/back'", "")
	asked, code, out := h.login(accept)
	require.Equal(t, failure.ExitDone, code, out)
	require.Equal(t, "http://localhost:8123/oauth/back", asked.Query().Get("redirect_uri"))
	require.Contains(t, out, "redirect address to register with the server: http://localhost:8123/oauth/back\n")
}

func realSecrets(t *testing.T, s *authServer) {
	for _, auth := range []string{"basic", "post"} {
		h := s.home(t, "client_id: "+auth+", client_secret: oauth-client-secret, client_auth: "+auth, "")
		h.signIn(t)
		s.expire()
		code, out := h.run("sync")
		require.Equal(t, failure.ExitDone, code, out)
		require.NotContains(t, out, "oauth-client-secret")
		code, out = h.run("logout")
		require.Equal(t, failure.ExitDone, code, out)
	}
	h := s.home(t, "client_id: basic, client_secret: wrong", "")
	_, code, out := h.login(accept)
	require.Equal(t, failure.ExitFailed, code, out)
	require.Contains(t, out, "invalid_client")
}

func realApp(t *testing.T, s *authServer) {
	h := s.home(t, "client_id: public", "app")
	h.signIn(t)
	code, out := h.run("sync")
	require.Equal(t, failure.ExitDone, code, out)
	s.expire()
	code, out = h.run("sync")
	require.Equal(t, failure.ExitDone, code, out)
	require.EqualValues(t, 1, s.renewals.Load())
}

func realDevice(t *testing.T, s *authServer) {
	h := s.home(t, s.kind.device(s), "")
	wait, out := h.start("login", "--device")
	line := out.find(t, regexp.MustCompile(`open (\S+) in a browser on any machine, and enter the code (\S+)`))
	p := newPerson(t, s.url)
	p.fields["user_code"] = line[2]
	p.walk(line[1], accept)
	printed := out.String()
	require.NoError(t, wait(), printed)
	require.Contains(t, printed, "signed in to main v2")
	require.NotContains(t, printed, "device_code")
	code, text := h.run("sync")
	require.Equal(t, failure.ExitDone, code, text)
	s.expire()
	code, text = h.run("sync")
	require.Equal(t, failure.ExitDone, code, text)
}

func realPaste(t *testing.T, s *authServer) {
	h := s.home(t, "client_id: public", "")
	code, out := h.paste(nil)
	require.Equal(t, failure.ExitDone, code, out)
	code, out = h.run("sync")
	require.Equal(t, failure.ExitDone, code, out)
}

func realSignOut(t *testing.T, s *authServer) {
	h := s.home(t, "client_id: public", "")
	h.signIn(t)
	var kept struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	text, err := os.ReadFile(h.tokens(t))
	require.NoError(t, err)
	_, text, _ = bytes.Cut(text, []byte("\n")) // the first line of the file names the surface and the address for which the tokens are valid
	require.NoError(t, json.Unmarshal(text, &kept))
	require.True(t, s.active(kept.Access))

	s.revokeDown.Store(true)
	code, out := h.run("logout")
	require.Equal(t, failure.ExitPartial, code, out)
	require.Contains(t, out, "the tokens were not removed")
	require.True(t, s.active(kept.Access))
	s.revokeDown.Store(false)
	code, out = h.run("logout")
	require.Equal(t, failure.ExitDone, code, out)
	require.Contains(t, out, "the server has revoked the tokens")
	require.False(t, s.active(kept.Access))
	require.False(t, s.active(kept.Refresh))
	files, _ := filepath.Glob(filepath.Join(h.dir, ".penstock", "tokens", "*"))
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		require.NotContains(t, string(text), kept.Access)
		require.NotContains(t, string(text), kept.Refresh)
	}
	code, out = h.run("sync")
	require.Equal(t, failure.ExitFailed, code, out)
	require.Contains(t, out, "signed out at")
	h.signIn(t)
	code, out = h.run("sync")
	require.Equal(t, failure.ExitDone, code, out)
}

func realForbidden(t *testing.T, s *authServer) {
	h := s.home(t, "client_id: public", "")
	h.signIn(t)
	s.deadStatus.Store(http.StatusForbidden)
	s.expire()
	code, out := h.run("sync")
	require.Equal(t, failure.ExitDone, code, out)
	require.EqualValues(t, 1, s.renewals.Load(), "an expired token is renewed, even if the response has the status 403 and not 401")
	s.needs.Store("helpdesk.read")
	code, out = h.run("sync")
	require.Equal(t, failure.ExitPartial, code, out)
	require.Contains(t, out, `the token lacks the scope "helpdesk.read": for oauth, add it to scopes and run `+"`penstock login`")
	require.EqualValues(t, 1, s.renewals.Load(), "a missing scope causes no renewal")
}

func realRevoked(t *testing.T, s *authServer) {
	h, other := s.home(t, "client_id: public", ""), s.home(t, "client_id: public", "")
	h.signIn(t)
	require.NoError(t, os.CopyFS(filepath.Join(other.dir, ".penstock"), os.DirFS(filepath.Join(h.dir, ".penstock"))))
	require.NoError(t, filepath.WalkDir(filepath.Join(other.dir, ".penstock"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return errors.Join(err, os.Chmod(path, 0o700))
		}
		return os.Chmod(path, 0o600)
	}))
	code, out := h.run("logout")
	require.Equal(t, failure.ExitDone, code, out)
	for range 2 {
		code, out = other.run("sync")
		require.Equal(t, failure.ExitFailed, code, out)
		require.Contains(t, out, "the server did not renew the token")
		require.Contains(t, out, "invalid_grant")
	}
	require.Equal(t, 1, s.presented(), "a refresh token that the server has refused must not be sent again")
}

func realMetrics(t *testing.T, s *authServer) {
	h := s.home(t, "client_id: public", "")
	require.Contains(t, h.metrics(t), `penstock_grant_usable{source="main",surface="v2"} 0`)
	h.signIn(t)
	text := h.metrics(t)
	require.Contains(t, text, `penstock_grant_usable{source="main",surface="v2"} 1`)
	require.Contains(t, text, `penstock_grant_failing_since_timestamp_seconds{source="main",surface="v2"} 0`)
	m := regexp.MustCompile(`penstock_grant_expires_timestamp_seconds\{source="main",surface="v2"\} (\S+)`).FindStringSubmatch(text)
	require.NotNil(t, m, text)
	ends, err := strconv.ParseFloat(m[1], 64)
	require.NoError(t, err)
	require.InDelta(t, time.Now().Add(time.Hour).Unix(), ends, 120)
	require.NotContains(t, text, "oauth-client-secret")

	s.expire()
	s.intercept(refuseWith(503, "text/html", "<html>", ""), 1000)
	code, out := h.run("sync")
	require.Equal(t, failure.ExitPartial, code, out)
	require.NotContains(t, h.metrics(t), `penstock_grant_failing_since_timestamp_seconds{source="main",surface="v2"} 0`)
}

func realNoRefresh(t *testing.T, s *authServer) {
	h := s.home(t, "client_id: "+s.kind.noRefresh, "")
	_, code, out := h.login(accept)
	require.Equal(t, failure.ExitDone, code, out)
	require.Contains(t, out, "the server issued no refresh token")
	require.Contains(t, out, "offline_access")
	code, out = h.run("check")
	require.Contains(t, out, "without a refresh token", code)
}

// printedLines is what a program prints while it runs.
type printedLines struct {
	lines chan string
	all   bytes.Buffer
}

func readOutput(r io.Reader) *printedLines {
	o := &printedLines{lines: make(chan string, 1000)}
	go func() {
		defer close(o.lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			o.lines <- s.Text()
		}
	}()
	return o
}

// find waits for a line that matches want, and returns the groups of the match.
func (o *printedLines) find(t *testing.T, want *regexp.Regexp) []string {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case line, more := <-o.lines:
			if !more {
				require.FailNow(t, "no line "+want.String(), o.all.String())
			}
			fmt.Fprintln(&o.all, line)
			if m := want.FindStringSubmatch(line); m != nil {
				return m
			}
		case <-late:
			require.FailNow(t, "no line "+want.String(), o.all.String())
		}
	}
}

// String returns all lines, once the program has ended.
func (o *printedLines) String() string {
	for line := range o.lines {
		fmt.Fprintln(&o.all, line)
	}
	return o.all.String()
}

func refuseWith(status int, kind, body, after string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(status)
		_, _ = io.Copy(w, strings.NewReader(body))
	}
}
