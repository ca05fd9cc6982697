package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// ErrSpent is returned by a [Credential] that cannot be renewed: a key that
// was revoked, a login that was refused. A person has to act.
var ErrSpent = errors.New("credential cannot be renewed")

// Credential gives the bearer token of requests. Implementations are safe for
// concurrent use; clients of one account share one.
type Credential interface {
	// Token returns the token to send, "" for none. The first call may sign in.
	Token(ctx context.Context, do SessionFunc) (Secret, error)

	// Renew is called after a request with the token spent was answered 401. It
	// returns another token, or an error wrapping [ErrSpent] if there is none.
	// Many calls with the same spent token renew once.
	Renew(ctx context.Context, do SessionFunc, spent Secret) (Secret, error)

	// Secrets returns what must not be seen in any text.
	Secrets() []Secret
}

// SessionFunc makes one session call, a POST that no stream may request, and
// returns the body of its answer.
type SessionFunc func(ctx context.Context, path string, bearer Secret, body []byte) ([]byte, error)

// Bearer returns the credential of a key or token made in the dashboard. It is
// never refreshed: a refresh would revoke the token its owner has written down.
func Bearer(token Secret) Credential { return bearer{token} }

// None returns the credential of origins that need none.
func None() Credential { return bearer{} }

type bearer struct{ token Secret }

func (b bearer) Token(context.Context, SessionFunc) (Secret, error) { return b.token, nil }

func (b bearer) Renew(context.Context, SessionFunc, Secret) (Secret, error) { return "", ErrSpent }

func (b bearer) Secrets() []Secret { return []Secret{b.token} }

// Format keeps the token out of a printed Options. // Invariant 5
func (b bearer) Format(f fmt.State, verb rune) { b.token.Format(f, verb) }

const (
	loginPathAPI   = "/api/login"
	refreshPathAPI = "/api/refresh"
	renewTimeout   = time.Minute
)

// Login is the credential of an e-mail address and a password. It signs in
// once, when the first token is needed, and refreshes the token when it has
// expired; it never signs in again, because each sign-in revokes every other
// token of the user.
type Login struct {
	email    string
	password Secret

	turn  chan struct{} // held while a session call is under way
	mu    sync.Mutex
	token Secret
	tries int   // sign-ins begun
	dead  error // a refusal that no further call can change
}

var _ Credential = (*Login)(nil)

// NewLogin returns the credential. Nothing is requested yet.
func NewLogin(email string, password Secret) *Login {
	return &Login{email: email, password: password, turn: make(chan struct{}, 1)}
}

// Secrets returns the password.
func (l *Login) Secrets() []Secret { return []Secret{l.password} }

// Format keeps the password out of a printed Options. // Invariant 5
func (l *Login) Format(f fmt.State, verb rune) { Secret("").Format(f, verb) }

// Token returns the current token, signing in for the first.
func (l *Login) Token(ctx context.Context, do SessionFunc) (Secret, error) {
	if token, err := l.current(); token != "" || err != nil {
		return token, err
	}
	return l.exchange(ctx, "", func(ctx context.Context) (Secret, error) { return l.signIn(ctx, do) })
}

// Renew refreshes the spent token, once for all that come with it.
func (l *Login) Renew(ctx context.Context, do SessionFunc, spent Secret) (Secret, error) {
	return l.exchange(ctx, spent, func(ctx context.Context) (Secret, error) {
		return askToken(ctx, do, refreshPathAPI, spent, nil)
	})
}

func (l *Login) current() (Secret, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token, l.dead
}

// exchange replaces the token have by another, one caller at a time. Whoever
// waited finds the new token and asks for none.
func (l *Login) exchange(ctx context.Context, have Secret, ask func(context.Context) (Secret, error)) (Secret, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if token, err := l.current(); token != have || err != nil {
		return token, err
	}
	// The server has revoked the old token when its answer comes: a caller that
	// gives up in between must not take the new one with it.
	safe, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewTimeout)
	defer cancel()
	token, err := ask(safe)

	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.token = token
		return token, nil
	}
	if e, ok := errors.AsType[*Error](err); !ok || e.Class != Transient && e.Class != Throttled {
		err = fmt.Errorf("%w: %w", ErrSpent, err)
		l.dead = err
	}
	return "", err
}

func (l *Login) signIn(ctx context.Context, do SessionFunc) (Secret, error) {
	l.mu.Lock()
	l.tries++
	tries := l.tries
	l.mu.Unlock()
	if tries > 3 {
		return "", errors.New("sign in: given up after 3 calls without an answer")
	}
	body, err := json.Marshal(map[string]string{"email": l.email, "password": l.password.Reveal()})
	if err != nil {
		return "", fmt.Errorf("sign in: %w", err)
	}
	return askToken(ctx, do, loginPathAPI, "", body)
}

func askToken(ctx context.Context, do SessionFunc, path string, have Secret, body []byte) (Secret, error) {
	answer, err := do(ctx, path, have, body)
	if err != nil {
		return "", err
	}
	token := findToken(answer)
	if token == "" {
		return "", fmt.Errorf("read %s: no token in the answer", path)
	}
	return token, nil
}

// findToken looks for the token in the places where the generations of the
// platform have put it.
func findToken(body []byte) Secret {
	type tokens struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	var answer struct {
		Data          json.RawMessage `json:"data"` // a sentence, where there is no token
		Authorisation tokens          `json:"authorisation"`
		Authorization tokens          `json:"authorization"`
		tokens
	}
	var data tokens
	if json.Unmarshal(body, &answer) != nil {
		return ""
	}
	_ = json.Unmarshal(answer.Data, &data)
	for _, t := range []tokens{data, answer.Authorisation, answer.Authorization, answer.tokens} {
		if found := orDefault(t.AccessToken, t.Token); found != "" {
			return Secret(found)
		}
	}
	return ""
}

// session makes a call of the credential. It passes the governor like any
// other, is never redirected, and is not repeated: the answer to a rotation
// that was lost may have been the only copy. // Invariant 9
func (c *Client) session(ctx context.Context, path string, have Secret, body []byte) ([]byte, error) {
	c.redact.Add(have)
	k := &call{c: c, method: http.MethodPost, template: path, body: body, token: have, anonymous: true, session: true}
	var err error
	if k.url, err = c.at(path); err != nil {
		return nil, err
	}
	resp, fault := k.try(ctx)
	if fault != nil {
		return nil, fault
	}
	defer resp.Release()
	return append([]byte(nil), resp.Body...), nil
}
