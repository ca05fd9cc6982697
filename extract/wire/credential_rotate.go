package wire

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Rotating returns the credential of a key or token that its owner may replace where it is
// kept: in a file, or a secret manager. again reads it once more after a 401; nil for one
// that is always the same.
func Rotating(token Secret, again func() (Secret, error)) Credential {
	if again == nil {
		return Bearer(token)
	}
	return &rotating{all: []Secret{token}, again: again, now: time.Now}
}

// rereadEvery bounds how often a credential that is refused is read again.
const rereadEvery = 30 * time.Second

type rotating struct {
	again func() (Secret, error)
	now   func() time.Time

	mu   sync.Mutex
	all  []Secret  // that it has been; the last is the one of now
	last time.Time // when it was read again and had not changed
	err  error     // what came of that
}

// Token returns the token as it was read last.
func (r *rotating) Token(context.Context, Session) (Secret, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[len(r.all)-1], nil
}

// Renew reads the token again. One that has not changed is spent.
func (r *rotating) Renew(_ context.Context, _ Session, spent Secret) (Secret, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	current := r.all[len(r.all)-1]
	if current != spent {
		return current, nil
	}
	if since := r.now().Sub(r.last); r.last.IsZero() || since < 0 || since >= rereadEvery {
		var fresh Secret
		if fresh, r.err = r.again(); r.err == nil && fresh != current {
			r.all = append(r.all, fresh)
			return fresh, nil
		}
		r.last = r.now()
	}
	if r.err != nil {
		return "", fmt.Errorf("%w: read it again: %w", ErrSpent, r.err)
	}
	return "", ErrSpent
}

// Secrets returns every token that it has been.
func (r *rotating) Secrets() []Secret {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// Format keeps the tokens out of a printed Options. // Invariant 5
func (r *rotating) Format(f fmt.State, verb rune) { r.all[0].Format(f, verb) }
