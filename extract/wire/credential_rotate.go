package wire

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Rotating returns the credential of a key or token that its owner may replace in the file or
// the secret manager where it is kept. again reads it once more after a 401; nil means that the
// token never changes.
func Rotating(token Secret, again func() (Secret, error)) Credential {
	if again == nil {
		return Bearer(token)
	}
	return &rotating{all: []Secret{token}, again: again, now: time.Now}
}

// rereadEvery bounds how often a credential that is refused is read again, and mostTokens how
// many of its tokens are remembered: a secret manager may print another one each time.
const (
	rereadEvery = 30 * time.Second
	mostTokens  = 64
)

type rotating struct {
	again func() (Secret, error)
	now   func() time.Time

	mu   sync.Mutex
	all  []Secret  // the tokens so far, the current one last
	last time.Time // when the token was last read again
	err  error     // of that read
}

// Token returns the current token.
func (r *rotating) Token(context.Context, Session) (Secret, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[len(r.all)-1], nil
}

// Renew reads the token again. It returns [ErrSpent] if the token has not changed, or was read
// again a moment ago.
func (r *rotating) Renew(_ context.Context, _ Session, spent Secret) (Secret, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	current := r.all[len(r.all)-1]
	if current != spent {
		return current, nil
	}
	if since := r.now().Sub(r.last); r.last.IsZero() || since < 0 || since >= rereadEvery {
		var fresh Secret
		fresh, r.err = r.again()
		r.last = r.now()
		if r.err == nil && fresh != current {
			r.all = append(r.all[max(0, len(r.all)-mostTokens+1):], fresh) // Invariant 6
			return fresh, nil
		}
	}
	if r.err != nil {
		return "", fmt.Errorf("%w: read it again: %w", ErrSpent, r.err)
	}
	return "", ErrSpent
}

// Secrets returns the current token and those before it.
func (r *rotating) Secrets() []Secret {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// Format keeps the tokens out of a printed Options. // Invariant 5
func (r *rotating) Format(f fmt.State, verb rune) { Secret("").Format(f, verb) }
