package wire

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/penstock-data/penstock/state"
)

const (
	loginPathAPI   = "/api/login"
	refreshPathAPI = "/api/refresh"
)

// Login is the credential of an e-mail address and a password. Each refresh replaces its token. Without a usable token,
// Login signs in, at most three times an hour, because each sign-in revokes all other tokens of the user. After a
// failed sign-in it waits, and longer after each further failure. Processes that share the entry share the token and
// these limits. Login never signs out at the server.
type Login struct {
	email    string
	password Secret
	hold     *holder
}

var _ Keeper = (*Login)(nil)

// NewLogin returns a credential that stores its tokens in the given entry. It makes no request.
func NewLogin(email string, password Secret, entry *state.Entry) *Login {
	return &Login{email: email, password: password, hold: newHolder(entry, password)}
}

// Secrets returns the password and every token that the credential has had.
func (l *Login) Secrets() []Secret { return l.hold.secrets() }

// Format redacts the secrets in printed Options. // Invariant 5
func (l *Login) Format(f fmt.State, verb rune) { Secret("").Format(f, verb) }

// Token returns the stored token. If there is none, it signs in.
func (l *Login) Token(ctx context.Context, s Session) (Secret, error) {
	if g, err := l.hold.current(); g.access != "" || err != nil {
		return g.access, err
	}
	return l.hold.replace(ctx, "", func(ctx context.Context, x *exchange) error { return l.signInAgain(ctx, s, x) })
}

// Renew refreshes oldToken, once for all concurrent callers. If the server refuses to refresh this token, Renew signs
// in.
func (l *Login) Renew(ctx context.Context, s Session, oldToken Secret) (Secret, error) {
	return l.hold.replace(ctx, oldToken, func(ctx context.Context, x *exchange) error {
		if x.g.access != "" && !x.n.dead(x.g) {
			err := l.refresh(ctx, s, x)
			if err == nil || !x.n.dead(x.g) {
				return err
			}
		}
		return l.signInAgain(ctx, s, x)
	})
}

func (l *Login) refresh(ctx context.Context, s Session, x *exchange) error {
	if err := l.hold.checkLost(); err != nil {
		return err
	}
	return x.call(ctx, x.n.refreshing(x.h.stamp(), x.g), func(ctx context.Context) (grant, error) {
		token, err := askToken(ctx, s, refreshPathAPI, x.g.access, nil)
		g := newGrant(x.h.stamp(), token, "")
		g.signedIn = x.g.signedIn
		return g, err
	})
}

func (l *Login) signInAgain(ctx context.Context, s Session, x *exchange) error {
	if !x.n.maySignIn(x.h.stamp()) {
		return l.tooSoon(x)
	}
	err := l.call(ctx, s, x)
	if err == nil || outcomeOf(err) == notProcessed {
		return err
	}
	return &spentError{why: wordsFor(err), err: err}
}

func wordsFor(err error) string { return "sign in: " + err.Error() }

func (l *Login) call(ctx context.Context, s Session, x *exchange) error {
	body, err := json.Marshal(map[string]string{"email": l.email, "password": l.password.Reveal()})
	if err != nil {
		return fmt.Errorf("sign in: %w", err)
	}
	return x.call(ctx, x.n.signingIn(x.h.stamp()), func(ctx context.Context) (grant, error) {
		token, err := askToken(ctx, s, loginPathAPI, "", body)
		return newGrant(x.h.stamp(), token, ""), err
	})
}

func (l *Login) tooSoon(x *exchange) error {
	return &spentError{why: fmt.Sprintf("%s; a sign-in ends every other token of the user, so penstock does not sign in by itself before %s",
		x.explain(), at(x.n.nextSignIn(x.h.stamp())))}
}

func (l *Login) signIn(ctx context.Context, s Session, _ SignInMethod) error {
	_, err := l.hold.locked(ctx, func(ctx context.Context, x *exchange) error { return l.call(ctx, s, x) })
	return err
}

// State returns what is stored.
func (l *Login) State() (CredentialState, error) {
	return l.hold.standing(l.email, func(x *exchange) error {
		if !x.n.maySignIn(x.h.stamp()) && (x.g.access == "" || x.n.dead(x.g)) {
			return l.tooSoon(x)
		}
		return nil
	})
}

func (h *holder) standing(account string, trouble func(*exchange) error) (CredentialState, error) {
	g, n, err := h.load()
	if err != nil {
		return CredentialState{}, err
	}
	st := CredentialState{Account: account, Where: h.entry.Where(), SignedIn: g.signedIn, Renewed: g.renewed, Expires: g.expires}
	if err := trouble(&exchange{h, g, n}); err != nil {
		st.Trouble, st.Retry = err.Error(), n.nextSignIn(h.stamp())
	}
	st.Failing = n.failing(g)
	return st, nil
}

func askToken(ctx context.Context, s Session, path string, have Secret, body []byte) (Secret, error) {
	answer, err := s.post(ctx, path, have, body)
	if err != nil {
		return "", err
	}
	token := findToken(answer)
	switch {
	case token != "":
		return token, nil
	case s.refusedBy(answer) != "":
		return "", &denied{fmt.Sprintf("read %s: %s", path, s.refusedBy(answer))}
	}
	return "", fmt.Errorf("read %s: no token in the answer", path)
}

// refusedBy returns the message if the answer refuses the call with status 200, as the platform's servers do.
func (s Session) refusedBy(answer []byte) string {
	message := ErrorMessage(answer)
	switch MessageClass(message) {
	case Auth, NotEntitled, Missing, Invalid:
		return s.c.redact.excerpt(oneLine(message), 256)
	}
	return ""
}

// findToken returns the token of an answer. It looks in all places where versions of the platform put it.
func findToken(body []byte) Secret {
	type tokens struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	var answer struct {
		Data          json.RawMessage `json:"data"` // an object, or a message if there is no token
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
