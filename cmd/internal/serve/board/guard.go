package board

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/serve/access"
)

// policy allows a page only its own styles, scripts and pictures. So a text on a page cannot run as a script, and
// even the board's own script cannot turn a text into markup.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// secure sets the security headers of a response. Browsers may send the referrer within the board, because a browser
// that sends no referrer also sends no header Origin with a form.
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

// queuePolicy also allows the pages of the queue, which come from River UI, to set styles from their scripts.
const queuePolicy = "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

func (b *Board) queuePages() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", queuePolicy)
		b.Queue.ServeHTTP(w, r)
	})
}

// The method seen() returns a handler that passes a request to the given handler if the visitor may see the board. A
// request that changes something also needs the role "operate".
func (b *Board) seen(next http.Handler) http.Handler { return b.sent(access.Operate, next) }

// The method sent() is like seen(). A request that sends a form needs the given role.
func (b *Board) sent(required access.Role, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, program, err := b.visitor(r)
		switch {
		case errors.Is(err, access.ErrMissing), errors.Is(err, access.ErrWrong):
			b.stranger(w, r)
			return
		case err != nil:
			if errors.Is(err, access.ErrRole) && changes(r) {
				b.audit(r, who, r.Method+" "+r.URL.Path, "", err)
			}
			b.problem(w, r, access.Status(w.Header(), err), err.Error())
			return
		case !changes(r):
		case tooLarge(r):
			b.problem(w, r, http.StatusRequestEntityTooLarge, "the form is too large; a statement may have at most 64 KiB")
			return
		case !program && !b.vouched(r):
			b.problem(w, r, http.StatusForbidden, "this page is out of date; reload it and try again")
			return
		case !who.Role.Includes(required):
			b.audit(r, who, r.Method+" "+r.URL.Path, "", access.ErrRole)
			b.problem(w, r, http.StatusForbidden, "the token "+who.Name+" has the role "+string(who.Role)+" and cannot change anything; set `role: "+string(required)+"` in the configuration to allow it")
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitorKey{}, who)))
	})
}

// visitor returns the identity of the sender of a request. If the request has a bearer token, the second result is
// true. Such a request needs no CSRF token, because no other site can make a browser send a bearer token.
func (b *Board) visitor(r *http.Request) (identity access.Identity, program bool, err error) {
	if b.Access.Open() {
		identity, err = b.Access.Local(r)
		return identity, false, err
	}
	if _, ok := access.Bearer(r); ok {
		identity, err = b.Access.Program(r, access.Read)
		return identity, true, err
	}
	if identity, ok := b.signedIn(r); ok {
		return identity, false, nil
	}
	return identity, false, access.ErrMissing
}

type visitorKey struct{}

func visitorOf(r *http.Request) access.Identity {
	who, _ := r.Context().Value(visitorKey{}).(access.Identity)
	return who
}

func (b *Board) allowed(r *http.Request) bool {
	if b.Access.Open() {
		return true
	}
	who, ok := b.Access.Holds(visitorOf(r))
	return ok && who.Role.Includes(access.Read)
}

func changes(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// The method vouched() reports whether a request that changes something comes from a page of the board. The forms of
// these pages have a CSRF token that no other site can read. If no access token is configured, vouched also accepts
// requests of programs to the API.
func (b *Board) vouched(r *http.Request) bool {
	if b.sessions.marked(r) {
		return true
	}
	// A browser sends the origin of a request, and a program does not. ownPages() has checked an origin that was sent.
	program := r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Cookie") == ""
	return b.Access.Open() && program && isAPI(r)
}

// tooLarge reports whether a form is larger than the limit of its route.
func tooLarge(r *http.Request) bool {
	_, large := errors.AsType[*http.MaxBytesError](r.ParseForm())
	return large
}

func isAPI(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/events"
}

func (b *Board) stranger(w http.ResponseWriter, r *http.Request) {
	switch {
	case isAPI(r):
		b.problem(w, r, access.Status(w.Header(), access.ErrMissing), "a token is required: Authorization: Bearer …")
	case !changes(r) && r.Header.Get("Sec-Fetch-Site") == "cross-site":
		// The visitor has followed a link on another site, so the browser did not send the session's cookie. The browser
		// sends the cookie with its next request, and the page "again" makes the browser send that request.
		b.render(w, http.StatusOK, "again", page{Title: "Dashboard", Here: r.URL.RequestURI()})
	default:
		http.Redirect(w, r, "/signin?next="+url.QueryEscape(local(r.URL.RequestURI())), http.StatusSeeOther)
	}
}

func local(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") ||
		strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}

// ownPages refuses a request that changes something if it comes from another site, according to the browser.
func (b *Board) ownPages(next http.Handler) http.Handler {
	p := http.NewCrossOriginProtection()
	p.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.problem(w, r, http.StatusForbidden, "cross-site request refused")
	}))
	return p.Handler(next)
}
