package board

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/serve/access"
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

// seen passes on requests of visitors who may see the board. A request that changes
// something needs the role operate as well. Without a token or a session the visitor is
// asked to sign in.
func (b *Board) seen(next http.Handler) http.Handler {
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
		case !program && !b.vouched(r):
			b.problem(w, r, http.StatusForbidden, "this page is out of date; load it again, then try once more")
			return
		case !who.Role.Includes(access.Operate):
			b.audit(r, who, r.Method+" "+r.URL.Path, "", access.ErrRole)
			b.problem(w, r, http.StatusForbidden, "the token "+who.Name+" has the role read, which changes nothing; `role: operate` in the configuration does")
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitorKey{}, who)))
	})
}

// visitor is who made a request. A program that shows its token needs no mark: no
// other site can have a browser send that header.
func (b *Board) visitor(r *http.Request) (who access.Identity, program bool, err error) {
	if b.Access.Open() {
		who, err = b.Access.Local(r)
		return who, false, err
	}
	if _, ok := access.Bearer(r); ok {
		who, err = b.Access.Program(r, access.Read)
		return who, true, err
	}
	if who, ok := b.signedIn(r); ok {
		return who, false, nil
	}
	return who, false, access.ErrMissing
}

// visitorKey is the key of the visitor in a request's context.
type visitorKey struct{}

// visitorOf is who made a request that seen has passed on.
func visitorOf(r *http.Request) access.Identity {
	who, _ := r.Context().Value(visitorKey{}).(access.Identity)
	return who
}

// allowed reports whether the visitor of a request that seen has passed on is still allowed
// to see the board: their token may be gone.
func (b *Board) allowed(r *http.Request) bool {
	if b.Access.Open() {
		return true
	}
	who, ok := b.Access.Holds(visitorOf(r))
	return ok && who.Role.Includes(access.Read)
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
	return b.Access.Open() && program && isAPI(r)
}

func isAPI(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/events"
}

// stranger answers who is not signed in.
func (b *Board) stranger(w http.ResponseWriter, r *http.Request) {
	switch {
	case isAPI(r):
		b.problem(w, r, access.Status(w.Header(), access.ErrMissing), "send the dashboard's token: Authorization: Bearer …")
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
