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

// How long things may take around an exchange of tokens.
const (
	exchangeTime = 5 * time.Minute // the call itself: a late answer may hold the only copy of a token
	exchangeTail = 5 * time.Second // a caller that is stopped, for the call
	exchangeWait = 6 * time.Minute // for another process to finish its own
)

// maxLost is how many exchanges without an answer one process makes.
const maxLost = 3

// holder keeps the tokens of one credential: in memory for the requests of this
// process, in a slot for the next one and for those beside it. It replaces a
// token one call at a time, in this process and across all that share the slot.
type holder struct {
	slot *state.Slot
	turn chan struct{} // held during an exchange

	mu   sync.Mutex
	read bool // the slot has been looked at
	have grant
	dead error // why no further exchange is tried
	lost int   // exchanges without an answer
	bad  int   // exchanges in a row of which no token came
	seen []Secret
}

func newHolder(slot *state.Slot, own ...Secret) *holder {
	return &holder{slot: slot, turn: make(chan struct{}, 1), seen: own}
}

// secrets are those that the credential is made of and all that it has had.
func (h *holder) secrets() []Secret {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}

// saw makes secrets known before anything can be said about them. // Invariant 5
func (h *holder) saw(all ...Secret) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range all {
		if s != "" && !slices.Contains(h.seen, s) {
			h.seen = append(h.seen, s)
		}
	}
}

// current is the grant in use, read from the slot the first time.
func (h *holder) current() (grant, error) {
	h.mu.Lock()
	read, g, dead := h.read, h.have, h.dead
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

// load reads what is kept.
func (h *holder) load() (grant, note, error) {
	text, err := h.slot.Secret()
	if errors.Is(err, state.ErrBound) {
		text, err = nil, nil // nobody has signed in here: a token of another origin is never sent to this one. Invariant 10
	}
	if err != nil {
		return grant{}, note{}, err
	}
	g, err := decodeGrant(text)
	if err != nil {
		return grant{}, note{}, err
	}
	h.saw(g.access, g.refresh)
	if text, err = h.slot.Note(); err != nil {
		return grant{}, note{}, err
	}
	n, err := decodeNote(text)
	return g, n, err
}

func (h *holder) adopt(g grant) {
	h.saw(g.access, g.refresh)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.have, h.read = g, true
}

// exchange is one replacing of a token under the slot's lock: what was kept
// when it began.
type exchange struct {
	h *holder
	g grant
	n note
}

// replace gives another token than spent. Whoever comes while somebody, here or
// in another process, replaces the same token gets that one's.
func (h *holder) replace(ctx context.Context, spent Secret, with func(context.Context, *exchange) error) (Secret, error) {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	done := func() { <-h.turn }
	if g, err := h.current(); err != nil || g.access != spent {
		done()
		return g.access, err
	}
	return h.exclusive(ctx, done, func(ctx context.Context, x *exchange) error {
		if x.g.access != spent && x.g.access != "" {
			h.adopt(x.g) // another process was faster
			return nil
		}
		return with(ctx, x)
	})
}

// locked runs f with the slot to itself and gives the token that is current
// afterwards.
func (h *holder) locked(ctx context.Context, f func(context.Context, *exchange) error) (Secret, error) {
	return h.exclusive(ctx, func() {}, f)
}

// exclusive does the same, and calls done when it is over. A caller that is stopped
// leaves soon, but the exchange goes on for as long as this process does: the server has
// ended the old token when its answer comes, so the new one is kept whenever that is.
func (h *holder) exclusive(ctx context.Context, done func(), f func(context.Context, *exchange) error) (Secret, error) {
	type outcome struct {
		token Secret
		err   error
	}
	over := make(chan outcome, 1)
	go func() {
		defer done()
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
	lock, err := h.slot.Lock(ctx, exchangeWait)
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
			h.dead = err
			h.mu.Unlock()
		}
		return "", err
	}
	now, err := h.current()
	return now.access, err
}

// call makes one call that brings a new grant. What is about to be done is
// durable before it is done, and the new grant before it is used: a process
// that is killed at any point leaves the old grant, the new one, or the word
// that an answer was lost.
func (x *exchange) call(ctx context.Context, began note, ask func(context.Context) (grant, error)) error {
	before := x.n
	if err := x.setNote(began); err != nil {
		return err
	}
	x.h.slot.Step("call begun")
	g, err := ask(ctx)
	x.h.slot.Step("call answered")
	if err != nil {
		return errors.Join(err, x.failed(before, err))
	}
	return x.keep(g)
}

// keep makes a new grant durable, and then current.
func (x *exchange) keep(g grant) error {
	h := x.h
	h.saw(g.access, g.refresh)
	text, err := g.encode()
	if err == nil {
		err = h.slot.SetSecret(text)
	}
	if err != nil {
		return &spentError{why: "a new token came and could not be kept, so it was not used; the one before has ended: " + err.Error(), err: err}
	}
	h.adopt(g)
	h.mu.Lock()
	h.dead, h.lost, h.bad = nil, 0, 0
	h.mu.Unlock()
	done := x.n
	done.Call, done.Refused, done.Outage, done.Failed, done.Retry, done.SignedOut = nil, nil, nil, 0, time.Time{}, time.Time{}
	return x.setNote(done)
}

func (x *exchange) setNote(n note) error {
	text, err := n.encode()
	if err == nil {
		err = x.h.slot.SetNote(text)
	}
	if err == nil {
		x.n = n
	}
	return err
}

// failed writes down what came of a call that brought no grant. The one that is
// kept stays as it is, whatever the server has said.
func (x *exchange) failed(before note, err error) error {
	n, now := x.n, x.h.stamp()
	if e, ok := isOutage(err); ok && n.Call.Kind == refreshCall {
		n = x.trouble(n, e)
		before.Outage = n.Outage
	}
	switch fateOf(err) {
	case undone:
		return x.setNote(before)
	case refused:
		n.Refused = &refusal{Kind: n.Call.Kind, At: now, Of: n.Call.Of, Words: wordsOf(err)}
		if n.Call.Kind == refreshCall && before.open(x.g) {
			n.Refused.Lost = before.Call.At
		}
		if n.Call.Kind == signInCall {
			n = n.failedSignIn(now, refusedPause)
		}
		n.Call = nil
	case lost:
		x.h.mu.Lock()
		x.h.lost++
		x.h.mu.Unlock()
		if n.Call.Kind == signInCall {
			n = n.failedSignIn(now, lostPause)
		}
		n.Call.Words = wordsOf(err)
	}
	return x.setNote(n)
}

// failure counts an exchange of which no token came, and returns how many there were
// in a row.
func (h *holder) failure() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bad++
	return h.bad
}

// stamp is this moment by the clock of all that share the slot: what one of them keeps
// another judges.
func (h *holder) stamp() time.Time { return h.slot.Now().UTC().Truncate(time.Second) }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// renewalOutcome is what has become of a call that brought no token.
type renewalOutcome uint8

const (
	lost    renewalOutcome = iota // it may have counted: the answer did not come, or made no sense
	undone                        // it was not taken: nothing has changed
	refused                       // it was taken and denied
)

// denied is an error that says no, in an answer that could be understood.
type denied struct{ words string }

// Error is what the server said.
func (d *denied) Error() string { return d.words }

func fateOf(err error) renewalOutcome {
	if _, no := errors.AsType[*denied](err); no {
		return refused
	}
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok:
		return lost
	case e.kept:
		return undone
	case e.outage:
		return lost
	}
	switch e.Class {
	case Throttled, Refused:
		return undone
	case Auth, NotEntitled, Missing, Invalid:
		return refused
	case Transient:
		if e.unreachable() || !e.NotBefore.IsZero() {
			return undone
		}
	}
	return lost
}

// wordsOf are the server's words for a note; they have been redacted.
func wordsOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok && e.Message != "" {
		return e.Message
	}
	return err.Error()
}

// patience ends the exchanges of a process whose calls are not answered: the
// next run goes on with what is kept.
func (h *holder) patience() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost < maxLost {
		return nil
	}
	return &Error{
		Class: Transient, NotBefore: time.Now().Add(time.Minute),
		Message: fmt.Sprintf("renew token: given up after %d calls without an answer; the token before is kept", maxLost),
	}
}

// explain says why what is kept is of no use and penstock does not sign in by
// itself.
func (x *exchange) explain() error {
	r := x.n.Refused
	words := ""
	if r != nil {
		words = strings.TrimRight(r.Words, ".")
	}
	why := "nobody has signed in yet"
	switch {
	case x.n.open(x.g) && x.g.refresh != "":
		why = x.n.Call.lostWords()
	case r != nil && !r.Lost.IsZero():
		why = fmt.Sprintf("the token was being renewed at %s when penstock was ended or cut off: the new one was lost with the answer, and the old one has ended", at(r.Lost))
	case r != nil && r.Kind == refreshCall:
		why = fmt.Sprintf("the server did not renew the token at %s: %s", at(r.At), words)
	case r != nil:
		why = fmt.Sprintf("the sign-in at %s was refused: %s", at(r.At), words)
	case x.n.Call != nil && x.n.Call.Kind == signInCall:
		why = fmt.Sprintf("the sign-in at %s was not answered, or penstock was ended before it could keep the token", at(x.n.Call.At))
	case x.g.access == "" && !x.n.SignedOut.IsZero():
		why = fmt.Sprintf("somebody signed out at %s", at(x.n.SignedOut))
	case x.g.access != "":
		why = fmt.Sprintf("the token of %s is no longer taken", at(x.g.renewed))
	}
	return &spentError{why: why}
}

// lostWords says of a renewal without an answer why it is not repeated.
func (c *openCall) lostWords() string {
	what := "penstock was ended before the answer came"
	if c.Words != "" {
		what = strings.TrimRight(c.Words, ".")
	}
	return fmt.Sprintf("the answer to the renewal at %s was lost (%s). The server may have given out a new refresh token by then, so the old one is not presented again: "+
		"a server that detects reuse would end the grant. If this server takes a used refresh token again, set refresh_grace", at(c.At), what)
}

func at(t time.Time) string { return t.UTC().Format(time.RFC3339) }
