package wire

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Rotating returns the credential of a key or token that its owner may replace in a file or secret manager. After a
// 401, the credential calls reread() to get the token again. If reread is nil, the token never changes.
func Rotating(token Secret, reread func() (Secret, error)) Credential {
	if reread == nil {
		return Bearer(token)
	}
	return &rotating{tokens: []Secret{token}, reread: reread, now: time.Now}
}

// rereadEvery is the shortest time between two readings of a token. mostTokens limits how many earlier tokens are
// remembered, because a secret manager may print a different token each time.
const (
	rereadEvery = 30 * time.Second
	mostTokens  = 64
)

type rotating struct {
	reread func() (Secret, error)
	now    func() time.Time

	mu      sync.Mutex
	tokens  []Secret  // the tokens so far, the current one last
	last    time.Time // time of the last reading
	err     error
	reading chan struct{} // closed when the current reading ends; nil if there is none
}

// Token returns the current token.
func (r *rotating) Token(context.Context, Session) (Secret, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tokens[len(r.tokens)-1], nil
}

// Renew reads the token again. It returns [ErrNotRenewable] if the token has not changed, or was read less than
// rereadEvery ago. Reading may run a slow command. Meanwhile, calls with an older token return at once, and calls that
// wait for the new token end with their context.
func (r *rotating) Renew(ctx context.Context, _ Session, oldToken Secret) (Secret, error) {
	for {
		r.mu.Lock()
		current, err, reading := r.tokens[len(r.tokens)-1], r.err, r.reading
		if current == oldToken && reading == nil && r.due() {
			reading = make(chan struct{})
			r.reading = reading
			go r.read(reading)
		}
		r.mu.Unlock()
		switch {
		case current != oldToken:
			return current, nil
		case reading == nil && err != nil:
			return "", fmt.Errorf("%w: read it again: %w", ErrNotRenewable, err)
		case reading == nil:
			return "", ErrNotRenewable
		}
		select {
		case <-reading:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// due reports whether the token may be read again. The caller holds r.mu.
func (r *rotating) due() bool {
	since := r.now().Sub(r.last)
	return r.last.IsZero() || since < 0 || since >= rereadEvery
}

func (r *rotating) read(done chan struct{}) {
	fresh, err := r.reread()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.last, r.reading = err, r.now(), nil
	if err == nil && fresh != r.tokens[len(r.tokens)-1] {
		r.tokens = append(r.tokens[max(0, len(r.tokens)-mostTokens+1):], fresh) // Invariant 6
	}
	close(done)
}

// Secrets returns the current and the previous tokens.
func (r *rotating) Secrets() []Secret {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.tokens)
}

// Format redacts the tokens in printed Options. // Invariant 5
func (r *rotating) Format(f fmt.State, verb rune) { Secret("").Format(f, verb) }
