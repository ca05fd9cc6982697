// Package access checks the tokens of requests to the daemon. All routes that accept a token share one [Guard],
// so that wrong tokens are limited, logged and counted together.
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

// Role is the set of permissions of a token.
type Role string

// The roles. A role includes all roles above it in this list.
const (
	Metrics Role = "metrics" // may read only /metrics
	Read    Role = "read"    // may read the dashboard and its API
	Query   Role = "query"   // may also read the rows of tables, with SQL
	Operate Role = "operate" // may also start runs, pause and resume
)

var rank = map[Role]int{Metrics: 1, Read: 2, Query: 3, Operate: 4}

// Includes reports whether r has the permissions of the required role.
func (r Role) Includes(required Role) bool { return rank[r] >= rank[required] && rank[r] > 0 }

// Token is an access token. Its name is unique, and appears in the log and in the audit log. Its secret does not
// appear there. // Invariant 5
type Token struct {
	Name   string
	Secret wire.Secret
	Role   Role
}

// Identity says who has sent a request. The zero Identity has no permissions.
type Identity struct {
	Name string // name of the token; "local" if there are no tokens
	Role Role

	key [sha256.Size]byte // hash of the secret
}

// Errors of refused requests.
var (
	ErrMissing = errors.New("no token")
	ErrWrong   = errors.New("wrong token")
	ErrLimited = errors.New("too many wrong tokens: try again in a minute; if this goes on, send requests from the machine of the daemon, or through an SSH tunnel to it")
	ErrRole    = errors.New("the role of this token does not allow it; to change the role, set `role:` of the token in `serve: {auth: {tokens: […]}}` of the configuration")
	ErrProxied = errors.New("this request came through a proxy, and the dashboard has no token; set `serve: {auth: {token: …}}` in the configuration")
)

// ErrNoRows says that nothing may read rows, because no token is configured.
var ErrNoRows = errors.New("no token is configured, so no rows are shown: every user of this machine can reach the daemon; set `serve: {auth: {token: …}}` in the configuration, or start `penstock ui` instead")

// Options configure a Guard. All are optional.
type Options struct {
	Log     *slog.Logger
	Observe func(serve.AccessRefused) // called for each refused token; must not block
	Now     func() time.Time
}

// Guard checks tokens. It is safe for concurrent use.
type Guard struct {
	Options
	tokens atomic.Pointer[[]Identity]
	limit  limiter

	mu      sync.Mutex
	skipped int // how many tokens were refused without a comparison since the last log line about such tokens
	logged  time.Time
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

// Define replaces the tokens. The change applies from the next request on. Sessions of removed tokens end.
func (g *Guard) Define(tokens []Token) {
	all := make([]Identity, 0, len(tokens))
	for _, t := range tokens {
		all = append(all, Identity{Name: t.Name, Role: t.Role, key: sha256.Sum256([]byte(t.Secret.Reveal()))})
	}
	g.tokens.Store(&all)
}

// Open reports whether no token is configured. Then everyone who reaches the daemon without a proxy may do everything.
// A configuration without tokens is valid only if the daemon listens only on this machine.
func (g *Guard) Open() bool { return len(*g.tokens.Load()) == 0 }

// Local returns the identity of a request if no token is configured. It refuses requests that came through a
// proxy, because they may come from another machine.
func (g *Guard) Local(r *http.Request) (Identity, error) {
	if Forwarded(r) {
		return Identity{}, ErrProxied
	}
	return Identity{Name: "local", Role: Operate}, nil
}

// Rows returns nil if an identity may read the rows of tables, and otherwise the reason. If no token is configured, it
// returns [ErrNoRows]: every user of the machine can reach the daemon, but not every user may read the data.
func (g *Guard) Rows(id Identity) error {
	switch {
	case g.Open():
		return ErrNoRows
	case !id.Role.Includes(Query):
		return ErrRole
	}
	return nil
}

// Named returns the identity of the token with a name.
func (g *Guard) Named(name string) (Identity, bool) {
	for _, t := range *g.tokens.Load() {
		if t.Name == name {
			return t, true
		}
	}
	return Identity{}, false
}

// Holds returns an earlier identity with the current role of its token, because the role may have changed since then.
// If the token no longer exists, Holds returns false.
func (g *Guard) Holds(id Identity) (Identity, bool) {
	for _, t := range *g.tokens.Load() {
		if t.key == id.key {
			return t, true
		}
	}
	return Identity{}, false
}

// Check returns the identity that belongs to a token. Its error is [ErrWrong] or [ErrLimited]. After too many wrong
// tokens from a client, Check compares none of the client's tokens for a while, not even a correct one. Otherwise an
// attacker could go on guessing. All unknown clients together have such a limit too.
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

func (g *Guard) find(text string) (found Identity, ok bool) {
	got := sha256.Sum256([]byte(text))
	for _, t := range *g.tokens.Load() {
		if subtle.ConstantTimeCompare(got[:], t.key[:]) == 1 {
			found, ok = t, true
		}
	}
	return found, ok
}

const logEvery = time.Minute

// refused logs and reports a token that was not accepted. Tokens that were not even compared are not logged one by one:
// one log line per minute states their number.
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

// Program returns the identity of a request that a program sends: the identity of its bearer token. If no token is
// configured, it returns the identity of [Guard.Local]. It returns an error if the role of the token does not include
// the required role.
func (g *Guard) Program(r *http.Request, required Role) (Identity, error) {
	if g.Open() {
		return g.Local(r)
	}
	token, ok := Bearer(r)
	if !ok {
		return Identity{}, ErrMissing
	}
	id, err := g.Check(r, token)
	if err == nil && !id.Role.Includes(required) {
		err = ErrRole
	}
	return id, err
}

// Require returns a handler for requests of programs. The handler calls h if the role of the program's token includes
// the required role. It refuses all other requests.
func (g *Guard) Require(required Role, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := g.Program(r, required); err != nil {
			status := Status(w.Header(), err)
			http.Error(w, "access: "+err.Error(), status)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Status returns the HTTP status of a refused request, and sets the headers that belong to it.
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
