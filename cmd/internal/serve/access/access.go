// Package access decides who may use the daemon's HTTP routes. Every route that
// takes a token asks one [Guard], so that wrong tokens are limited, logged and
// counted together, whichever route they are tried at.
package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/extract/wire"
)

// Role is what the holder of a token may do.
type Role string

// The roles. Each includes those before it.
const (
	Metrics Role = "metrics" // reads /metrics, and nothing else
	Read    Role = "read"    // sees the dashboard and its API
	Operate Role = "operate" // starts, pauses and resumes pipelines
)

var rank = map[Role]int{Metrics: 1, Read: 2, Operate: 3}

// Includes reports whether a holder of r may do what want may.
func (r Role) Includes(want Role) bool { return rank[r] >= rank[want] && rank[r] > 0 }

// Token opens routes. Names are unique; they appear in the log and in the audit
// log, where the secret does not. // Invariant 5
type Token struct {
	Name   string
	Secret wire.Secret
	Role   Role
}

// Identity is who made a request. The zero Identity may do nothing.
type Identity struct {
	Name string // of the token; "local" where there are no tokens
	Role Role

	key [sha256.Size]byte // of the token
}

// Reasons why a request is refused.
var (
	ErrMissing = errors.New("no token")
	ErrWrong   = errors.New("wrong token")
	ErrLimited = errors.New("too many wrong tokens: try again in a minute; if this goes on, from the machine of the daemon or through an SSH tunnel to it")
	ErrRole    = errors.New("the role of this token does not allow it; `role:` of the token in `serve: {auth: {tokens: […]}}` of the configuration names another")
	ErrProxied = errors.New("a proxy sent this request and the dashboard has no token; set `serve: {auth: {token: …}}` in the configuration")
)

// Options are what a Guard reports to. All may be left out.
type Options struct {
	Log     *slog.Logger
	Observe func(serve.AccessRefused) // called for every refused token; must not block
	Now     func() time.Time
}

// Guard checks tokens. It is safe for concurrent use.
type Guard struct {
	Options
	tokens atomic.Pointer[[]Identity]
	limit  limiter

	mu      sync.Mutex
	skipped int       // refused without evaluation since the last line of the log
	logged  time.Time // when that line was written
}

// New returns a guard without tokens: see [Guard.Define].
func New(o Options) *Guard {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(serve.AccessRefused) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	g := &Guard{Options: o}
	g.Define(nil)
	return g
}

// Define replaces the tokens, from the next request on. Sessions of tokens that are gone
// end.
func (g *Guard) Define(tokens []Token) {
	all := make([]Identity, 0, len(tokens))
	for _, t := range tokens {
		all = append(all, Identity{Name: t.Name, Role: t.Role, key: sha256.Sum256([]byte(t.Secret.Reveal()))})
	}
	g.tokens.Store(&all)
}

// Open reports whether there are no tokens. Everyone who reaches the daemon directly may
// then do everything; the configuration allows that on this machine only.
func (g *Guard) Open() bool { return len(*g.tokens.Load()) == 0 }

// Local is the identity of a request to a guard without tokens. A request that
// came through a proxy comes from another machine, whatever its address says.
func (g *Guard) Local(r *http.Request) (Identity, error) {
	if Forwarded(r) {
		return Identity{}, ErrProxied
	}
	return Identity{Name: "local", Role: Operate}, nil
}

// Holds reports whether the token of an identity is still one of the guard's, and
// returns the identity as it is now.
func (g *Guard) Holds(id Identity) (Identity, bool) {
	for _, t := range *g.tokens.Load() {
		if t.key == id.key {
			return t, true
		}
	}
	return Identity{}, false
}

// Check returns the identity of the token text. After too many wrong tokens it evaluates none
// for a while, not even a right one: an attacker could otherwise guess without end. The error is [ErrWrong] or [ErrLimited].
func (g *Guard) Check(r *http.Request, text string) (Identity, error) {
	now := g.Now()
	var id Identity
	right, limited := g.limit.try(clientOf(r), now, func() (ok bool) {
		id, ok = g.find(text)
		return ok
	})
	switch {
	case limited:
		g.refused(r, ErrLimited, now)
		return Identity{}, ErrLimited
	case !right:
		g.refused(r, ErrWrong, now)
		return Identity{}, ErrWrong
	}
	return id, nil
}

// find compares text with every token, in a time that does not depend on how much
// of it is right.
func (g *Guard) find(text string) (found Identity, ok bool) {
	got := sha256.Sum256([]byte(text))
	for _, t := range *g.tokens.Load() {
		if subtle.ConstantTimeCompare(got[:], t.key[:]) == 1 {
			found, ok = t, true
		}
	}
	return found, ok
}

// logEvery is how often the log reports tokens that were not evaluated.
const logEvery = time.Minute

// refused reports a refused token. Each evaluated one has a line in the log; the
// limit bounds those. The others share one line a minute.
func (g *Guard) refused(r *http.Request, why error, now time.Time) {
	from := From(r)
	g.Observe(serve.AccessRefused{From: from, Path: r.URL.Path, Why: why.Error(), Limited: errors.Is(why, ErrLimited)})
	if !errors.Is(why, ErrLimited) {
		g.Log.Warn("wrong token", "path", r.URL.Path, "from", from)
		return
	}
	g.mu.Lock()
	g.skipped++
	due, n := now.Sub(g.logged).Abs() >= logEvery, g.skipped
	if due {
		g.logged, g.skipped = now, 0
	}
	g.mu.Unlock()
	if due {
		g.Log.Warn("tokens refused without evaluation: too many wrong ones", "count", n, "last_from", from)
	}
}

// Bearer returns the token of the Authorization header.
func Bearer(r *http.Request) (token string, ok bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}

// Program is the identity of a request by a program: the bearer's, or the local
// one where there are no tokens.
func (g *Guard) Program(r *http.Request, want Role) (Identity, error) {
	if g.Open() {
		return g.Local(r)
	}
	token, ok := Bearer(r)
	if !ok {
		return Identity{}, ErrMissing
	}
	id, err := g.Check(r, token)
	if err == nil && !id.Role.Includes(want) {
		err = ErrRole
	}
	return id, err
}

// Require passes on the requests of programs with this role.
func (g *Guard) Require(want Role, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := g.Program(r, want); err != nil {
			status := Status(w.Header(), err)
			http.Error(w, "access: "+err.Error(), status)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Status is the status of the answer to a refused request; it sets the header
// fields that go with it.
func Status(h http.Header, err error) int {
	switch {
	case errors.Is(err, ErrLimited):
		h.Set("Retry-After", "60")
		return http.StatusTooManyRequests
	case errors.Is(err, ErrRole), errors.Is(err, ErrProxied):
		return http.StatusForbidden
	}
	h.Set("WWW-Authenticate", `Bearer realm="penstock"`)
	return http.StatusUnauthorized
}
