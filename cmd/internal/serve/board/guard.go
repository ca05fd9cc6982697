package board

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"
)

// policy lets a page have its own style, script and pictures and talk to its own
// server, and nothing else. No text can become a script: not even the board's own
// script may turn one into markup.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// secure sets what holds for every answer. The referrer stays within the board,
// but there it is sent: without it browsers leave a form's origin out as well.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("Cache-Control", "no-store")
}

// seen lets those through who may see the board; others are asked to sign in.
func (b *Board) seen(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch text, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); {
		case b.Token == "":
		case bearer:
			b.bearer(w, r, text, next)
			return
		case !b.sessions.has(r):
			b.stranger(w, r)
			return
		}
		if changes(r) && !b.vouched(r) {
			b.problem(w, r, http.StatusForbidden, "this page is out of date; load it again, then try once more")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bearer lets a program through that has the token. It needs no mark: no other
// site can have a browser send that header.
func (b *Board) bearer(w http.ResponseWriter, r *http.Request, token string, next http.Handler) {
	right := b.opens(token)
	switch {
	case b.tries.held(r.RemoteAddr, right):
		w.Header().Set("Retry-After", "60")
		b.problem(w, r, http.StatusTooManyRequests, "too many wrong tokens from this address; wait a minute")
	case !right:
		b.stranger(w, r)
	default:
		next.ServeHTTP(w, r)
	}
}

// changes reports whether a request asks for more than to look.
func changes(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// vouched reports whether a request that changes something was made on purpose:
// by one of our pages, whose forms carry a mark that no other site can read, or
// on an open board by a program.
func (b *Board) vouched(r *http.Request) bool {
	if b.marked(r) {
		return true
	}
	// A browser says where a request comes from, and cross-origin protection has
	// seen to that. A program does not; it is let in on an open board. A form
	// cannot be sent as JSON.
	program := r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Cookie") == ""
	return b.Token == "" && program && isAPI(r)
}

func isAPI(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/events"
}

// opens reports whether text is the token, in a time that does not tell how much
// of it is right.
func (b *Board) opens(text string) bool {
	is, want := sha256.Sum256([]byte(text)), sha256.Sum256([]byte(b.Token.Reveal()))
	return subtle.ConstantTimeCompare(is[:], want[:]) == 1
}

// stranger answers who is not signed in.
func (b *Board) stranger(w http.ResponseWriter, r *http.Request) {
	switch {
	case isAPI(r):
		w.Header().Set("WWW-Authenticate", `Bearer realm="penstock"`)
		b.problem(w, r, http.StatusUnauthorized, "send the dashboard's token: Authorization: Bearer …")
	case !changes(r) && r.Header.Get("Sec-Fetch-Site") == "cross-site":
		// A link on another site: the browser has left the session's cookie out,
		// and sends it with the next request, which this page makes.
		b.render(w, http.StatusOK, "again", page{Title: "Dashboard", Here: r.URL.RequestURI()})
	default:
		http.Redirect(w, r, "/signin?next="+url.QueryEscape(local(r.URL.RequestURI())), http.StatusSeeOther)
	}
}

// local is path if it is one of this server, else the first page.
func local(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") ||
		strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}

// ownPages refuses requests that change something and come from other sites, as
// the browser says.
func (b *Board) ownPages(next http.Handler) http.Handler {
	p := http.NewCrossOriginProtection()
	p.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.problem(w, r, http.StatusForbidden, "this came from another site")
	}))
	return p.Handler(next)
}
