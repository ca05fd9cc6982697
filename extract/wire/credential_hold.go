package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-data/penstock/state"
)

const (
	exchangeTime = 5 * time.Minute // timeout of the call; it is long, because a late answer may hold the only copy of a token
	exchangeTail = 5 * time.Second // how long a canceled caller waits for the call
	exchangeWait = 6 * time.Minute // how long to wait for another process's exchange
)

// maxLost is how many calls of one process may get no answer. After that, the process makes no more calls.
const maxLost = 3

// holder keeps the tokens of one credential, in memory and in a stored entry that processes share. Only one process at
// a time replaces a token. A replacement is called an exchange.
type holder struct {
	entry *state.Entry
	sem   chan struct{} // held during an exchange of this process

	mu          sync.Mutex
	read        bool
	grant       grant
	signInErr   error // why a person has to sign in; if it is set, there are no more exchanges
	lostCalls   int   // calls without an answer
	failedCalls int   // consecutive failed calls
	seen        []Secret
}

func newHolder(entry *state.Entry, own ...Secret) *holder {
	return &holder{entry: entry, sem: make(chan struct{}, 1), seen: own}
}

func (h *holder) secrets() []Secret {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}

// addSecrets adds secrets that must not be printed. // Invariant 5
func (h *holder) addSecrets(all ...Secret) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range all {
		if s != "" && !slices.Contains(h.seen, s) {
			h.seen = append(h.seen, s)
		}
	}
}

func (h *holder) current() (grant, error) {
	h.mu.Lock()
	read, g, dead := h.read, h.grant, h.signInErr
	h.mu.Unlock()
	if read || dead != nil {
		return g, dead
	}
	g, _, err := h.load()
	if err != nil {
		return grant{}, err
	}
	h.adopt(g)
	return g, nil
}

func (h *holder) load() (grant, note, error) {
	text, err := h.entry.Secret()
	if errors.Is(err, state.ErrBound) {
		text, err = nil, nil // the stored token is for another origin, and is never sent to this origin. Invariant 10
	}
	if err != nil {
		return grant{}, note{}, err
	}
	g, err := decodeGrant(text)
	if err != nil {
		return grant{}, note{}, err
	}
	h.addSecrets(g.access, g.refresh)
	if text, err = h.entry.Note(); err != nil {
		return grant{}, note{}, err
	}
	n, err := decodeNote(text)
	return g, n, err
}

func (h *holder) adopt(g grant) {
	h.addSecrets(g.access, g.refresh)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.grant, h.read = g, true
}

// exchange is one replacement of a token under the entry's lock. It holds the stored grant and note.
type exchange struct {
	h *holder
	g grant
	n note
}

// replace calls renew() if oldToken is still the current token. Concurrent callers with the same oldToken, in all
// processes, get the same new token.
func (h *holder) replace(ctx context.Context, oldToken Secret, renew func(context.Context, *exchange) error) (Secret, error) {
	select {
	case h.sem <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	done := func() { <-h.sem }
	if g, err := h.current(); err != nil || g.access != oldToken {
		done()
		return g.access, err
	}
	return h.exclusive(ctx, done, func(ctx context.Context, x *exchange) error {
		if x.g.access != oldToken && x.g.access != "" {
			h.adopt(x.g)
			return nil
		}
		return renew(ctx, x)
	})
}

func (h *holder) locked(ctx context.Context, f func(context.Context, *exchange) error) (Secret, error) {
	return h.exclusive(ctx, func() {}, f)
}

// exclusive runs f under the entry's lock, and calls release() at the end. If ctx is canceled, exclusive returns soon,
// but f continues. The server may already have ended the old token, and then the new token must be stored.
func (h *holder) exclusive(ctx context.Context, release func(), f func(context.Context, *exchange) error) (Secret, error) {
	type outcome struct {
		token Secret
		err   error
	}
	over := make(chan outcome, 1)
	go func() {
		defer release()
		token, err := h.exchange(ctx, f)
		over <- outcome{token, err}
	}()
	select {
	case o := <-over:
		return o.token, o.err
	case <-ctx.Done():
	}
	tail := time.NewTimer(exchangeTail)
	defer tail.Stop()
	select {
	case o := <-over:
		return o.token, o.err
	case <-tail.C:
		return "", context.Cause(ctx)
	}
}

func (h *holder) exchange(ctx context.Context, f func(context.Context, *exchange) error) (Secret, error) {
	lock, err := h.entry.Lock(ctx, exchangeWait)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Release() }()
	g, n, err := h.load()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), exchangeTime)
	defer cancel()
	if err := f(ctx, &exchange{h, g, n}); err != nil {
		if errors.Is(err, ErrSignIn) {
			h.mu.Lock()
			h.signInErr = err
			h.mu.Unlock()
		}
		return "", err
	}
	now, err := h.current()
	return now.access, err
}

// call gets a grant from the server with request(). It stores callNote before the request, and stores the new grant
// before any process uses the grant. So if the process is killed, nothing is lost: the entry has the old grant, the new
// grant, or the note of a call without an answer.
func (x *exchange) call(ctx context.Context, callNote note, request func(context.Context) (grant, error)) error {
	before := x.n
	if err := x.setNote(callNote); err != nil {
		return err
	}
	x.h.entry.Step("call begun")
	g, err := request(ctx)
	x.h.entry.Step("call answered")
	if err != nil {
		return errors.Join(err, x.failed(before, err))
	}
	return x.keep(g)
}

func (x *exchange) keep(g grant) error {
	h := x.h
	h.addSecrets(g.access, g.refresh)
	text, err := g.encode()
	if err == nil {
		err = h.entry.SetSecret(text)
	}
	if err != nil {
		return &spentError{why: "cannot store the new token, so it was not used; the old token has ended: " + err.Error(), err: err}
	}
	h.adopt(g)
	h.mu.Lock()
	h.signInErr, h.lostCalls, h.failedCalls = nil, 0, 0
	h.mu.Unlock()
	done := x.n
	done.Call, done.Refused, done.Outage, done.Failed, done.Retry, done.SignedOut = nil, nil, nil, 0, time.Time{}, time.Time{}
	return x.setNote(done)
}

func (x *exchange) setNote(n note) error {
	text, err := n.encode()
	if err == nil {
		err = x.h.entry.SetNote(text)
	}
	if err == nil {
		x.n = n
	}
	return err
}

// failed is used after a call that returned no grant. It records the outcome. The stored grant stays.
func (x *exchange) failed(before note, err error) error {
	n, now := x.n, x.h.stamp()
	if e, ok := isOutage(err); ok && n.Call.Kind == refreshCall {
		n = x.trouble(n, e)
		before.Outage = n.Outage
	}
	switch outcomeOf(err) {
	case notProcessed:
		return x.setNote(before)
	case refused:
		n.Refused = &refusal{Kind: n.Call.Kind, At: now, Of: n.Call.Of, Words: wordsOf(err)}
		if n.Call.Kind == refreshCall && before.open(x.g) {
			n.Refused.Lost = before.Call.At
		}
		if n.Call.Kind == signInCall {
			n = n.failedSignIn(now, refusedSignIn)
		}
		n.Call = nil
	case lost:
		x.h.mu.Lock()
		x.h.lostCalls++
		x.h.mu.Unlock()
		if n.Call.Kind == signInCall {
			n = n.failedSignIn(now, lostSignIn)
		}
		n.Call.Words = wordsOf(err)
	}
	return x.setNote(n)
}

func (h *holder) countFailure() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failedCalls++
	return h.failedCalls
}

// stamp returns the time of the entry's clock, because processes that share the entry compare each other's times.
func (h *holder) stamp() time.Time { return h.entry.Now().UTC().Truncate(time.Second) }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

type renewalOutcome uint8

const (
	lost         renewalOutcome = iota // unknown: no answer, or an unreadable answer
	notProcessed                       // the server did not process the call, so nothing has changed
	refused                            // the server processed the call and refused it
)

type denied struct{ words string }

// Error returns the server's message.
func (d *denied) Error() string { return d.words }

func outcomeOf(err error) renewalOutcome {
	if _, no := errors.AsType[*denied](err); no {
		return refused
	}
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok:
		return lost
	case e.unchanged:
		return notProcessed
	case e.outage:
		return lost
	}
	switch e.Class {
	case Throttled, Refused:
		return notProcessed
	case Missing:
		if e.foreign {
			return notProcessed
		}
		return refused
	case Auth, NotEntitled, Invalid:
		return refused
	case Transient:
		if e.unreachable() || !e.NotBefore.IsZero() {
			return notProcessed
		}
	}
	return lost
}

func wordsOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok && e.Message != "" {
		return e.Message
	}
	return err.Error()
}

// checkLost returns an error if this process made maxLost calls without an answer. The next run continues with the
// stored token.
func (h *holder) checkLost() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lostCalls < maxLost {
		return nil
	}
	return &Error{
		Class: Transient, NotBefore: time.Now().Add(time.Minute),
		Message: fmt.Sprintf("renew token: no answer to %d calls; the old token is kept", maxLost),
	}
}

func (x *exchange) explain() error {
	r := x.n.Refused
	words := ""
	if r != nil {
		words = strings.TrimRight(r.Words, ".")
	}
	why := "no sign-in yet"
	switch {
	case x.n.open(x.g) && x.g.refresh != "":
		why = x.n.Call.lostWords()
	case r != nil && !r.Lost.IsZero():
		why = fmt.Sprintf("penstock was stopped or disconnected while it renewed the token at %s: the new token was lost with the answer, and the old token has ended", at(r.Lost))
	case r != nil && r.Kind == refreshCall:
		why = fmt.Sprintf("the server did not renew the token at %s: %s", at(r.At), words)
	case r != nil:
		why = fmt.Sprintf("the sign-in at %s was refused: %s", at(r.At), words)
	case x.n.Call != nil && x.n.Call.Kind == signInCall:
		why = fmt.Sprintf("the sign-in at %s was not answered, or penstock was stopped before it could store the token", at(x.n.Call.At))
	case x.g.access == "" && !x.n.SignedOut.IsZero():
		why = fmt.Sprintf("signed out at %s", at(x.n.SignedOut))
	case x.g.access != "":
		why = fmt.Sprintf("the server no longer accepts the token that it issued at %s", at(x.g.renewed))
	}
	return &spentError{why: why}
}

func (c *openCall) lostWords() string {
	what := "penstock was stopped before the answer came"
	if c.Words != "" {
		what = strings.TrimRight(c.Words, ".")
	}
	return fmt.Sprintf("the answer to the renewal at %s was lost (%s). The server may have issued a new refresh token, so penstock does not send the old refresh token again: "+
		"a server that detects reuse would end the grant. If this server accepts a used refresh token again, set refresh_grace", at(c.At), what)
}

func at(t time.Time) string { return t.UTC().Format(time.RFC3339) }
