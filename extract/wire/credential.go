package wire

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNotRenewable is returned by a [Credential] that penstock cannot renew, such as a revoked key or a refused login.
// A person has to act.
var ErrNotRenewable = errors.New("credential cannot be renewed")

// ErrSignIn is returned by a [Credential] that is unusable until a person signs in with `penstock login`. An error that
// matches ErrSignIn also matches [ErrNotRenewable].
var ErrSignIn = errors.New("sign in again")

// Credential provides the bearer token of requests. Implementations are safe for concurrent use. The clients of one
// account share one credential.
type Credential interface {
	// Token returns the token to send, or "" if none is needed. The first call may sign in.
	Token(ctx context.Context, s Session) (Secret, error)

	// Renew is called after a 401. The parameter oldToken is the token of the refused request. Renew returns another
	// token. If there is none, its error wraps [ErrNotRenewable]. Concurrent calls with the same oldToken renew the
	// token once.
	Renew(ctx context.Context, s Session, oldToken Secret) (Secret, error)

	// Secrets returns the texts that must never be printed: the credential's own secrets, and all tokens that it has
	// had.
	Secrets() []Secret
}

// Keeper is a [Credential] that signs in and keeps its tokens between runs.
type Keeper interface {
	Credential

	// State returns what is stored. It sends no request.
	State() (CredentialState, error)
}

// CredentialState describes a stored credential. It does not show whether the server still accepts it.
type CredentialState struct {
	Account       string    // the e-mail address of a login, or the client of an OAuth grant
	Where         string    // where the tokens are stored
	SignedIn      time.Time // zero: not signed in
	Renewed       time.Time // when the token was issued
	Expires       time.Time // when the token expires; zero if the server has not said
	MissingScopes []string  // required scopes that were not granted

	NoRefresh bool      // the token cannot be renewed: a person has to sign in when it expires
	Failing   time.Time // since when renewals fail; zero: they work
	Redirect  string    // redirect address that must be registered with the server; "" if none

	Trouble string    // why the credential is unusable; "" if no problem is known
	Retry   time.Time // when penstock signs in automatically; zero: a person has to sign in
}

// Bearer returns the credential of a key or token that a person created on the platform. penstock never refreshes it:
// a refresh would revoke the token that its owner knows.
func Bearer(token Secret) Credential { return bearer{token} }

// None returns the empty credential.
func None() Credential { return bearer{} }

type bearer struct{ token Secret }

// Token returns the token.
func (b bearer) Token(context.Context, Session) (Secret, error) { return b.token, nil }

// Renew returns an error, because only the owner can create another token.
func (b bearer) Renew(context.Context, Session, Secret) (Secret, error) { return "", ErrNotRenewable }

// Secrets returns the token.
func (b bearer) Secrets() []Secret { return []Secret{b.token} }

// Format redacts the token in printed Options. // Invariant 5
func (b bearer) Format(f fmt.State, verb rune) { b.token.Format(f, verb) }

type spentError struct {
	why string
	err error
}

// Error says why the credential is unusable.
func (e *spentError) Error() string { return e.why }

// Unwrap returns the server's error.
func (e *spentError) Unwrap() error { return e.err }

// Is reports whether target is ErrNotRenewable or ErrSignIn.
func (e *spentError) Is(target error) bool { return target == ErrNotRenewable || target == ErrSignIn }
