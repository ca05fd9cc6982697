package board

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/serve/access"
)

const (
	idleFor     = 12 * time.Hour
	signedInFor = 7 * 24 * time.Hour
	maxSessions = 1024
)

// Names of cookies. A visitor who has signed in has the session cookie. Other visitors have the form cookie,
// which identifies their browser. The CSRF token of a form is valid only for the browser that has the same cookie.
const (
	sessionCookie = "penstock_session"
	formCookie    = "penstock_form"
)

// sessions has the sessions of all visitors. Sessions are not stored, so they end with the process.
type sessions struct {
	now func() time.Time
	key []byte

	mu       sync.Mutex
	byCookie map[[32]byte]session // sessions, by the hash of the cookie's value
}

type session struct {
	began, seen time.Time
	who         access.Identity
}

func newSessions(now func() time.Time) *sessions {
	return &sessions{now: now, key: []byte(rand.Text()), byCookie: map[[32]byte]session{}}
}

func (s *sessions) begin(w http.ResponseWriter, r *http.Request, who access.Identity) {
	id := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	oldest, last := [32]byte{}, now
	for k, v := range s.byCookie {
		switch {
		case v.over(now):
			delete(s.byCookie, k)
		case !v.seen.After(last):
			oldest, last = k, v.seen
		}
	}
	if len(s.byCookie) >= maxSessions {
		delete(s.byCookie, oldest)
	}
	s.byCookie[sha256.Sum256([]byte(id))] = session{now, now, who}
	http.SetCookie(w, cookie(r, sessionCookie, id, http.SameSiteStrictMode))
}

func (v session) over(now time.Time) bool {
	return now.Sub(v.seen) > idleFor || now.Sub(v.began) > signedInFor
}

func (s *sessions) of(r *http.Request) (who access.Identity, ok bool) {
	c, err := r.Cookie(cookieName(r, sessionCookie))
	if err != nil {
		return who, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := sha256.Sum256([]byte(c.Value))
	v, ok := s.byCookie[k]
	if !ok || v.over(s.now()) {
		delete(s.byCookie, k)
		return who, false
	}
	v.seen = s.now()
	s.byCookie[k] = v
	return v.who, true
}

// signedIn returns the visitor of a session, with the current role of the token. It returns false if there is no
// session, or if the token was removed.
func (b *Board) signedIn(r *http.Request) (identity access.Identity, ok bool) {
	if identity, ok = b.sessions.of(r); ok {
		identity, ok = b.Access.Holds(identity)
	}
	return identity, ok
}

func (s *sessions) end(w http.ResponseWriter, r *http.Request) {
	c, err := r.Cookie(cookieName(r, sessionCookie))
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byCookie, sha256.Sum256([]byte(c.Value)))
	gone := cookie(r, sessionCookie, "", http.SameSiteStrictMode)
	gone.MaxAge = -1
	http.SetCookie(w, gone)
}

// cookieName returns the name of a cookie. Browsers send a cookie to all ports of a host, so the name has the port of the
// address. Otherwise two dashboards on one host would replace each other's sessions. Over TLS the name begins with
// __Host-. Then browsers refuse a cookie of this name that another host or a page without TLS sets.
func cookieName(r *http.Request, name string) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil {
			name += "_" + strconv.FormatUint(n, 10)
		}
	}
	if access.Encrypted(r) {
		return "__Host-" + name
	}
	return name
}

func cookie(r *http.Request, name, value string, site http.SameSite) *http.Cookie {
	return &http.Cookie{Name: cookieName(r, name), Value: value, Path: "/", HttpOnly: true, Secure: access.Encrypted(r), SameSite: site}
}

// mark returns a CSRF token for this browser. It may set a cookie, so it must be called before the body is
// written.
func (s *sessions) mark(w http.ResponseWriter, r *http.Request) string {
	if id := holder(r); id != "" {
		return s.sign(id)
	}
	id := rand.Text()
	http.SetCookie(w, cookie(r, formCookie, id, http.SameSiteLaxMode))
	return s.sign(formCookie + id)
}

func (s *sessions) marked(r *http.Request) bool {
	id, mark := holder(r), r.Header.Get("X-CSRF-Token")
	if mark == "" && !isAPI(r) {
		mark = r.PostFormValue("mark")
	}
	return id != "" && hmac.Equal([]byte(mark), []byte(s.sign(id)))
}

// holder returns the name and value of the cookie that identifies a browser: its session cookie, or else its form
// cookie. It returns "" if there is none.
func holder(r *http.Request) string {
	for _, name := range []string{sessionCookie, formCookie} {
		if c, err := r.Cookie(cookieName(r, name)); err == nil && len(c.Value) >= 26 {
			return name + c.Value
		}
	}
	return ""
}

func (s *sessions) sign(id string) string {
	m := hmac.New(sha256.New, s.key)
	m.Write([]byte(id))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

func (b *Board) signInPage(w http.ResponseWriter, r *http.Request) {
	next := local(r.URL.Query().Get("next"))
	if who, ok := b.links.use(r.URL.Query().Get("link")); ok {
		b.sessions.begin(w, r, who)
		b.audit(r, who, "sign in", "", nil)
		// A browser does not send the cookie after a redirect, if a page of another origin or a file led to the link. It
		// sends the cookie if this page leads on.
		w.Header().Set("Refresh", "0; url="+next)
		b.render(w, http.StatusOK, "signedin", page{Title: "Signed in", Here: next})
		return
	}
	if _, ok := b.signedIn(r); ok || b.Access.Open() {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	b.render(w, http.StatusOK, "signin", page{Title: "Sign in", Here: next, Mark: b.sessions.mark(w, r)})
}

func (b *Board) signIn(w http.ResponseWriter, r *http.Request) {
	next := local(r.PostFormValue("next"))
	if b.Access.Open() {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	if !b.sessions.marked(r) {
		b.again(w, r, http.StatusForbidden, "The page was out of date. Please try again.")
		return
	}
	who, err := b.Access.Check(r, r.PostFormValue("token"))
	switch {
	case errors.Is(err, access.ErrLimited):
		b.again(w, r, access.Status(w.Header(), err), "Too many wrong tokens. Wait a minute, then try again. "+
			"If this goes on, sign in on the machine of the daemon, or through an SSH tunnel to it.")
		return
	case err != nil:
		b.again(w, r, http.StatusUnauthorized, "This token is not valid.")
		return
	case !who.Role.Includes(access.Read):
		b.audit(r, who, "sign in", "", access.ErrRole)
		b.again(w, r, http.StatusForbidden, "This token can read only metrics.")
		return
	}
	b.sessions.begin(w, r, who)
	b.audit(r, who, "sign in", "", nil)
	b.Log.Info("signed in to the dashboard", "token", who.Name, "from", access.From(r))
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (b *Board) again(w http.ResponseWriter, r *http.Request, status int, why string) {
	b.render(w, status, "signin", page{Title: "Sign in", Here: local(r.PostFormValue("next")), Mark: b.sessions.mark(w, r), Fault: why})
}

func (b *Board) signOut(w http.ResponseWriter, r *http.Request) {
	if !b.sessions.marked(r) {
		b.problem(w, r, http.StatusForbidden, "this page is out of date; reload it and try again")
		return
	}
	if who, ok := b.signedIn(r); ok {
		b.audit(r, who, "sign out", "", nil)
	}
	b.sessions.end(w, r)
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
}
