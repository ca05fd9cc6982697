package sandbox

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-data/penstock/schemas"
)

// The sandbox's fixed credentials. No other server accepts them.
const (
	ReadOnlyKey     = "sk_sandbox_readonly"  // versioned surface
	WritingKey      = "sk_sandbox_rw"        // versioned surface, may write
	ReadOnlyToken   = "pat_sandbox_readonly" // application surface
	WritingToken    = "pat_sandbox_rw"       // application surface, may write
	WhiteLabelToken = "wl_sandbox"           // white-label endpoints
	LoginEmail      = "demo@example.test"
	LoginPassword   = "sandbox"
)

type auth int

const (
	bearer auth = iota
	public
	whiteLabel
)

type credential struct {
	name    string // name in the statistics; it is never a token
	surface string
	user    string
	writes  bool

	expired bool // expired, but can be refreshed
	until   time.Time
	scopes  []string // scopes of an OAuth grant; nil: all
	grant   string   // id of the token's OAuth grant; "": none
}

type tokens struct {
	mu     sync.Mutex
	known  map[string]credential
	issued int
}

func newTokens() *tokens {
	return &tokens{known: map[string]credential{
		ReadOnlyKey:     {name: ReadOnlyKey, surface: "v2", user: ReadOnlyKey},
		WritingKey:      {name: WritingKey, surface: "v2", user: WritingKey, writes: true},
		ReadOnlyToken:   {name: ReadOnlyToken, surface: "app", user: ReadOnlyToken},
		WritingToken:    {name: WritingToken, surface: "app", user: WritingToken, writes: true},
		WhiteLabelToken: {name: WhiteLabelToken, surface: "wl", user: WhiteLabelToken, writes: true},
	}}
}

func (t *tokens) of(r *http.Request) (c credential, ok bool) {
	token, has := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !has {
		return credential{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok = t.known[token]
	return c, ok && !c.expired && (c.until.IsZero() || time.Now().Before(c.until))
}

func (t *tokens) login() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for token, c := range t.known {
		if c.name == loginName {
			delete(t.known, token)
		}
	}
	return t.issue()
}

func (t *tokens) refresh(old string) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[old].name != loginName {
		return "", false
	}
	delete(t.known, old)
	return t.issue(), true
}

func (t *tokens) end(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[token].name == loginName {
		delete(t.known, token)
	}
}

func (t *tokens) grant(a authorization) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	token := "at_" + rand.Text()
	t.known[token] = credential{
		name: grantName, surface: "v2", user: grantName, until: time.Now().Add(tokenLife), scopes: a.scopes, grant: a.id,
	}
	return token
}

func (t *tokens) endGrant(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.known, func(_ string, c credential) bool { return c.grant == id })
}

func (t *tokens) expire() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for token, c := range t.known {
		if c.issued() {
			c.expired = true
			t.known[token] = c
			n++
		}
	}
	return n
}

func (t *tokens) revoke() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := len(t.known)
	maps.DeleteFunc(t.known, func(_ string, c credential) bool { return c.issued() })
	return before - len(t.known)
}

func (c credential) issued() bool { return c.name == loginName || c.name == grantName }

const grantName = "oauth:" + LoginEmail

const loginName = "login:" + LoginEmail

func (t *tokens) issue() string {
	t.issued++
	token := fmt.Sprintf("%d|sandbox-session-%04d", 100+t.issued, t.issued)
	t.known[token] = credential{name: loginName, surface: "app", user: loginName, writes: true}
	return token
}

func (s *Server) admit(r *http.Request, surface string, want auth) (credential, *reply) {
	if want == public {
		return credential{name: "public", surface: surface}, nil
	}
	c, ok := s.tokens.of(r)
	if want == whiteLabel {
		surface = "wl"
	}
	if !ok || c.surface != surface {
		return credential{name: "rejected", surface: surface}, unauthenticated(r, surface)
	}
	return c, nil
}

func (c credential) allows(stream schemas.Stream) bool {
	return c.scopes == nil || slices.Contains(c.scopes, stream.Scope)
}

func unauthenticated(r *http.Request, surface string) *reply {
	var answer reply
	switch {
	case surface == "v2":
		answer = v2Error(http.StatusUnauthorized, "unauthorized", "Missing or invalid API key.")
	case surface == "wl":
		answer = jsonReply(http.StatusUnauthorized, obj("error", "Invalid token"))
	case !strings.Contains(r.Header.Get("Accept"), "json"):
		// Laravel treats a client that does not accept JSON as a browser.
		answer = htmlReply(http.StatusFound, loginPage)
		answer.header.Set("Location", "/login")
	default:
		answer = jsonReply(http.StatusUnauthorized, obj("message", "Unauthenticated."))
	}
	return &answer
}

func (s *Server) session(r *http.Request, template string, body object) (reply, bool) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch template {
	case "/api/login":
		if body.text("email") != LoginEmail || body.text("password") != LoginPassword {
			return jsonReply(http.StatusUnauthorized, obj("success", false, "message", "Invalid email or password", "errors", nil)), true
		}
		return issued("Login successful", s.tokens.login()), true
	case "/api/refresh":
		fresh, ok := s.tokens.refresh(token)
		if !ok {
			return *unauthenticated(r, "app"), true
		}
		return issued("Token refreshed", fresh), true
	case "/api/logout":
		s.tokens.end(token)
		return jsonReply(http.StatusOK, obj("success", true, "message", "Success", "data", "Logged out successfully")), true
	}
	return reply{}, false
}

func issued(says, token string) reply {
	return jsonReply(http.StatusOK, obj("success", true, "message", says,
		"data", obj("token", token, "type", "bearer", "user", obj("id", 1, "name", "Demo", "email", LoginEmail))))
}
