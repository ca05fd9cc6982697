package wire

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrSpent is returned by a [Credential] that cannot be renewed: a key that
// was revoked, a login that was refused. A person has to act.
var ErrSpent = errors.New("credential cannot be renewed")

// ErrSignIn is returned by a [Credential] that is of no use until somebody has
// signed in with it, which `penstock login` does. It is an [ErrSpent] too.
var ErrSignIn = errors.New("sign in again")

// Credential gives the bearer token of requests. Implementations are safe for
// concurrent use; clients of one account share one.
type Credential interface {
	// Token returns the token to send, "" for none. The first call may sign in.
	Token(ctx context.Context, s Session) (Secret, error)

	// Renew is called after a request with the token spent was answered 401. It
	// returns another token, or an error wrapping [ErrSpent] if there is none.
	// Many calls with the same spent token renew once.
	Renew(ctx context.Context, s Session, spent Secret) (Secret, error)

	// Secrets returns what must not be seen in any text: what the credential is
	// made of, and every token that it has ever had.
	Secrets() []Secret
}

// Keeper is a [Credential] that somebody signs in with, and whose tokens are
// kept between runs.
type Keeper interface {
	Credential

	// Standing tells what is kept. It asks no server.
	Standing() (CredentialState, error)
}

// CredentialState is what is known of a credential without asking its server.
type CredentialState struct {
	Account  string    // who has signed in, as far as the configuration tells
	Where    string    // where the tokens are kept
	SignedIn time.Time // zero: nobody has
	Renewed  time.Time // when the token came
	Expires  time.Time // of the token; zero if the server has not said
	Lacking  []string  // scopes that are needed and were not given

	NoRefresh bool      // nothing renews the token: somebody has to sign in when it ends
	Failing   time.Time // since when renewals have brought no token; zero: they do
	Redirect  string    // the address to register with the server; "" where there is none

	Trouble string    // why it is of no use as it is; "" if nothing is known
	Retry   time.Time // when penstock signs in by itself; zero: somebody has to
}

// Bearer returns the credential of a key or token made in the dashboard. It is
// never refreshed: a refresh would revoke the token its owner has written down.
func Bearer(token Secret) Credential { return bearer{token} }

// None returns the credential of origins that need none.
func None() Credential { return bearer{} }

type bearer struct{ token Secret }

// Token returns the token, whoever asks.
func (b bearer) Token(context.Context, Session) (Secret, error) { return b.token, nil }

// Renew cannot: another token has to come from whoever made this one.
func (b bearer) Renew(context.Context, Session, Secret) (Secret, error) { return "", ErrSpent }

// Secrets returns the token.
func (b bearer) Secrets() []Secret { return []Secret{b.token} }

// Format keeps the token out of a printed Options. // Invariant 5
func (b bearer) Format(f fmt.State, verb rune) { b.token.Format(f, verb) }

// spentError is why a credential is of no use until somebody signs in.
type spentError struct {
	why string
	err error // what the server said, if it did
}

// Error says why, and what to do.
func (e *spentError) Error() string { return e.why }

// Unwrap returns what the server said.
func (e *spentError) Unwrap() error { return e.err }

// Is makes it an ErrSpent that a person can end.
func (e *spentError) Is(target error) bool { return target == ErrSpent || target == ErrSignIn }
