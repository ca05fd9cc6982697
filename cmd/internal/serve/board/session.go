package board

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// How long a sign-in holds, and how many do at once.
const (
	idleFor     = 12 * time.Hour
	signedInFor = 7 * 24 * time.Hour
	maxSessions = 1024
)

// Names of cookies. The form's one stands for a visitor who has not signed in: it
// ties a form's mark to the browser that the form was made for.
const (
	sessionCookie = "penstock_session"
	formCookie    = "penstock_form"
)

// sessions are the visitors who have signed in. They end with the process.
type sessions struct {
	now func() time.Time
	key []byte // of the marks in forms

	mu  sync.Mutex
	all map[[32]byte]session // by the hash of the cookie's value
}

type session struct{ began, seen time.Time }

func newSessions(now func() time.Time) *sessions {
	return &sessions{now: now, key: []byte(rand.Text()), all: map[[32]byte]session{}}
}

// begin signs a visitor in.
func (s *sessions) begin(w http.ResponseWriter, r *http.Request) {
	id := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	oldest, last := [32]byte{}, now
	for k, v := range s.all {
		switch {
		case v.over(now):
			delete(s.all, k)
		case !v.seen.After(last):
			oldest, last = k, v.seen
		}
	}
	if len(s.all) >= maxSessions {
		delete(s.all, oldest)
	}
	s.all[sha256.Sum256([]byte(id))] = session{now, now}
	http.SetCookie(w, cookie(r, sessionCookie, id, http.SameSiteStrictMode))
}

func (v session) over(now time.Time) bool {
	return now.Sub(v.seen) > idleFor || now.Sub(v.began) > signedInFor
}

// has reports whether a request comes from a visitor who has signed in.
func (s *sessions) has(r *http.Request) bool {
	c, err := r.Cookie(sessionCookie)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := sha256.Sum256([]byte(c.Value))
	v, ok := s.all[k]
	if !ok || v.over(s.now()) {
		delete(s.all, k)
		return false
	}
	v.seen = s.now()
	s.all[k] = v
	return true
}

// end signs a visitor out.
func (s *sessions) end(w http.ResponseWriter, r *http.Request) {
	c, err := r.Cookie(sessionCookie)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sha256.Sum256([]byte(c.Value)))
	gone := cookie(r, sessionCookie, "", http.SameSiteStrictMode)
	gone.MaxAge = -1
	http.SetCookie(w, gone)
}

func cookie(r *http.Request, name, value string, site http.SameSite) *http.Cookie {
	secure := r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
	return &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, Secure: secure, SameSite: site}
}

// mark is what the forms of a page carry that is made for r: no other site can
// know it, and it holds for this browser alone. It may set a cookie, so it comes
// before the answer's body.
func (b *Board) mark(w http.ResponseWriter, r *http.Request) string {
	if id := holder(r); id != "" {
		return b.sessions.sign(id)
	}
	id := rand.Text()
	http.SetCookie(w, cookie(r, formCookie, id, http.SameSiteLaxMode))
	return b.sessions.sign(formCookie + id)
}

// marked reports whether a request carries the mark of a page of ours.
func (b *Board) marked(r *http.Request) bool {
	id, mark := holder(r), r.Header.Get("X-CSRF-Token")
	if mark == "" && !isAPI(r) {
		mark = r.PostFormValue("mark")
	}
	return id != "" && hmac.Equal([]byte(mark), []byte(b.sessions.sign(id)))
}

// holder is what tells a browser from others: its session, or else its form's
// cookie.
func holder(r *http.Request) string {
	for _, name := range []string{sessionCookie, formCookie} {
		if c, err := r.Cookie(name); err == nil && len(c.Value) >= 26 {
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

// Wrong tokens that are borne with: some at once from one address, then one every
// few seconds.
const (
	triesAtOnce = 10
	tryEvery    = 6 * time.Second
	maxTriers   = 1024
)

// tries counts wrong tokens by where they come from. The zero value is ready.
type tries struct {
	mu   sync.Mutex
	from map[netip.Prefix]trier
}

// trier is how many wrong tokens weighed on an address at a moment. They lose
// their weight one by one.
type trier struct {
	wrong float64
	at    time.Time
}

func (t trier) now() float64 {
	return max(0, t.wrong-time.Since(t.at).Seconds()/tryEvery.Seconds())
}

// held takes note of a wrong token from the address of a request, and reports
// whether there were too many for it to be looked into. A right one is never held:
// behind a proxy all visitors have one address, and whoever tries doors there would
// keep the owner out. What bounds guessing is the token's length, which the
// configuration sees to.
func (t *tries) held(address string, right bool) bool {
	if right {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := prefixOf(address)
	wrong := t.from[p].now()
	if wrong > triesAtOnce-1 {
		return true
	}
	if t.from == nil || len(t.from) >= maxTriers {
		t.from = map[netip.Prefix]trier{} // whoever has so many addresses is not held back by more
	}
	t.from[p] = trier{wrong + 1, time.Now()}
	return false
}

// prefixOf is what one visitor may have of addresses: of IPv6 a whole network.
func prefixOf(address string) netip.Prefix {
	host, _, _ := net.SplitHostPort(address)
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	ip = ip.Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits)
	return p
}

// signInPage asks for the token.
func (b *Board) signInPage(w http.ResponseWriter, r *http.Request) {
	next := local(r.URL.Query().Get("next"))
	if b.Token == "" || b.sessions.has(r) {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	b.render(w, http.StatusOK, "signin", page{Title: "Sign in", Here: next, Mark: b.mark(w, r)})
}

// signIn takes the token from the form.
func (b *Board) signIn(w http.ResponseWriter, r *http.Request) {
	next := local(r.PostFormValue("next"))
	if b.Token == "" {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	if !b.marked(r) {
		b.again(w, r, http.StatusForbidden, "The page was out of date. Please try again.")
		return
	}
	right := b.opens(r.PostFormValue("token"))
	switch {
	case b.tries.held(r.RemoteAddr, right):
		w.Header().Set("Retry-After", "60")
		b.again(w, r, http.StatusTooManyRequests, "Too many wrong tokens. Wait a minute, then try again.")
		return
	case !right:
		b.Log.Warn("a wrong token was tried at the dashboard", "from", r.RemoteAddr)
		b.again(w, r, http.StatusUnauthorized, "That is not the token.")
		return
	}
	b.sessions.begin(w, r)
	b.Log.Info("signed in to the dashboard", "from", r.RemoteAddr)
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// again shows the sign-in form with what was wrong.
func (b *Board) again(w http.ResponseWriter, r *http.Request, status int, why string) {
	b.render(w, status, "signin", page{Title: "Sign in", Here: local(r.PostFormValue("next")), Mark: b.mark(w, r), Fault: why})
}

// signOut ends the visitor's session.
func (b *Board) signOut(w http.ResponseWriter, r *http.Request) {
	if !b.marked(r) {
		b.problem(w, r, http.StatusForbidden, "this page is out of date; load it again, then try once more")
		return
	}
	b.sessions.end(w, r)
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
}
