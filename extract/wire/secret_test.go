package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSecretPrintsNothing(t *testing.T) {
	const canary = "canary-7f3a"
	s := Secret(canary)
	type config struct {
		Key        Secret
		Credential Credential
	}
	c := config{s, Bearer(s)}
	var b bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10s", "%T"} {
		_, _ = fmt.Fprintf(&b, verb+verb+verb+verb+verb, s, c, &c, NewLogin("a@b.test", s, nil), []any{s, Bearer(s)})
	}
	text, err := json.Marshal([]any{s, c, map[string]Secret{"k": s}, NewLogin("a@b.test", s, nil)})
	require.NoError(t, err)
	b.Write(text)
	for _, h := range []slog.Handler{slog.NewJSONHandler(&b, nil), slog.NewTextHandler(&b, nil)} {
		slog.New(h).Info("x", "secret", s, "config", c, "credential", Bearer(s), "login", NewLogin("a@b.test", s, nil))
	}
	require.Empty(t, leaks(b.String(), canary), b.String())
	require.Contains(t, b.String(), redacted)
	require.Equal(t, canary, s.Reveal())
}

func leaks(text, secret string) []string {
	raw := []byte(secret)
	var found []string
	for name, form := range map[string]string{
		"raw": secret, "hex": hex.EncodeToString(raw), "HEX": strings.ToUpper(hex.EncodeToString(raw)),
		"base64": base64.RawStdEncoding.EncodeToString(raw), "base64url": base64.RawURLEncoding.EncodeToString(raw),
		"basic":    base64.StdEncoding.EncodeToString([]byte("user:" + secret))[8:],
		"query":    url.QueryEscape(secret),
		"path":     url.PathEscape(secret),
		"json":     strings.Trim(strconv.Quote(secret), `"`),
		"php json": strings.ReplaceAll(secret, "/", `\/`),
	} {
		if strings.Contains(text, form) {
			found = append(found, name)
		}
	}
	return found
}

func TestRedactor(t *testing.T) {
	for _, secret := range []string{"sk_live_abcdef0123", `p"a/s\s+w&rd é<>`, "tok/en+with=signs==", "abcd"} {
		r := NewRedactor(Secret(secret))
		quoted, err := json.Marshal(secret)
		require.NoError(t, err)
		for _, form := range []string{
			secret, hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
			base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
			url.QueryEscape(secret), url.PathEscape(secret), strings.ToLower(url.QueryEscape(secret)),
			string(quoted), strings.ReplaceAll(string(quoted), "/", `\/`),
		} {
			got := r.Redact("before " + form + " after")
			if strings.Contains(form, strings.ToLower(secret)) || form != strings.ToLower(url.QueryEscape(secret)) {
				require.Empty(t, leaks(got, secret), "%q in %q", form, got)
			}
			require.Contains(t, got, "after")
		}
		basic := base64.StdEncoding.EncodeToString([]byte("someone:" + secret))
		require.NotContains(t, r.Redact(basic), base64.RawStdEncoding.EncodeToString([]byte(secret)))
	}
}

func TestRedactorKeepsRotatedSecrets(t *testing.T) {
	r := NewRedactor("first-token")
	r.Add("second-token")
	require.Equal(t, "[redacted] [redacted] abc", r.Redact("first-token second-token abc"))
	r.Add("abc", "")
	require.Equal(t, "abc", r.Redact("abc"), "too short to look for")
}

func TestRedactorExcerpt(t *testing.T) {
	const secret = "sk_live_0123456789abcdef"
	r := NewRedactor(secret)
	for before := range 1200 {
		got := r.excerpt(strings.Repeat("x", before)+secret+strings.Repeat("y", 3000), 256)
		require.LessOrEqual(t, len(got), 256)
		require.NotContains(t, got, secret[:8], "secret after %d bytes", before)
	}
	require.Equal(t, "short", r.excerpt("short", 256))
}

func TestErrorsContainNoSecrets(t *testing.T) {
	const token, query, password = "pat_canary_0123456789", "filter-canary-98", "pass/canary+55 x"
	echo := func(form func(string) string) string {
		return form("Bearer "+token) + " " + form(password)
	}
	forms := map[string]func(string) string{
		"raw":    func(s string) string { return s },
		"base64": func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"hex":    func(s string) string { return hex.EncodeToString([]byte(s)) },
		"url":    url.QueryEscape,
		"json":   func(s string) string { b, _ := json.Marshal(s); return strings.Trim(string(b), `"`) },
	}
	abort := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for form, encode := range forms {
		said := echo(encode)
		paths := map[string]http.HandlerFunc{
			"message":     jsonText(400, fmt.Sprintf(`{"message":%q}`, said)),
			"nested":      jsonText(422, fmt.Sprintf(`{"errors":{"x":[%q]}}`, said)),
			"html title":  text(503, "text/html", "<title>"+said+"</title>"),
			"html 200":    text(200, "text/html", "<title>"+said+"</title>"),
			"text 200":    text(200, "text/plain", said),
			"long text":   text(200, "text/plain", strings.Repeat("z", 110)+said),
			"charset":     text(200, "application/json; charset="+strings.ReplaceAll(said, " ", "")[:12], "{}"),
			"encoding":    jsonText(200, "{}", "Content-Encoding", said),
			"redirect":    jsonText(302, "", "Location", "https://evil.test/?t="+said),
			"login":       jsonText(302, "", "Location", "/login?t="+said),
			"throttled":   jsonText(429, fmt.Sprintf(`{"message":%q}`, said), "Retry-After", "7200"),
			"unauth":      jsonText(401, fmt.Sprintf(`{"message":%q}`, said), "X-Echo", said),
			"cut":         jsonText(200, "{", "Content-Length", "100"),
			"disconnects": abort,
			"bad header":  func(w http.ResponseWriter, _ *http.Request) { hijack(w, "HTTP/1.1 "+said+"\r\n\r\n") },
			"bad length": func(w http.ResponseWriter, _ *http.Request) {
				hijack(w, "HTTP/1.1 200 OK\r\nContent-Length: "+said+"\r\n\r\n")
			},
			"bad chunk": func(w http.ResponseWriter, _ *http.Request) {
				hijack(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+said+"\r\n")
			},
		}
		for path, answer := range paths {
			t.Run(path+" "+form, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					c := virtualClient(t, answer, func(o *Options) { o.Credential = Bearer(token); o.MaxAttempts = 2 })
					c.redact.Add(password)
					_, err := c.Read(t.Context(), Request{Path: "/v2/contacts", Query: url.Values{"q": {query}}})
					require.Error(t, err)
					var seen strings.Builder
					for e := err; e != nil; e = unwrap(e) {
						_, _ = fmt.Fprintf(&seen, "%s %v %+v %#v\n", e, e, e, e)
					}
					slog.New(slog.NewJSONHandler(&seen, nil)).Error("x", "err", err)
					for _, secret := range []string{token, password, query} {
						require.Empty(t, leaks(seen.String(), secret), "%s in %s", secret, seen.String())
					}
				})
			})
		}
	}
}

func unwrap(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	return nil
}

func hijack(w http.ResponseWriter, raw string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(conn, raw)
	_ = conn.Close()
}
