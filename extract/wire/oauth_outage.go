package wire

import (
	"context"
	"errors"
	"time"
)

// ErrOutage is wrapped by the error of a token endpoint that was waited for in
// vain. What is kept is as it was: another run goes on with it.
var ErrOutage = errors.New("the token endpoint gave no token")

// How a token endpoint in trouble is waited for.
const (
	outageWaits   = 2 * time.Minute  // in all, unless the server says how long
	outageFirst   = time.Second      // after the first call; then twice as long each time
	outageLongest = 30 * time.Second // between two calls, unless the server says how long
	outagePerson  = 30 * time.Second // in all, of a person who signs in or out
	outageAsked   = 24 * time.Hour   // the longest Retry-After that is believed
)

// outage is a token endpoint in trouble, as a note keeps it for all processes that
// share the grant.
type outage struct {
	Since time.Time `json:"since"`
	Again time.Time `json:"again"` // no call before
	Words string    `json:"words"`
}

// trouble notes that a call was not answered as it should be.
func (n note) trouble(now time.Time, e *Error, tries int) note {
	since := now
	if n.Outage != nil {
		since = n.Outage.Since
	}
	pause := backoff(outageFirst, outageLongest, tries)
	if e.retryAfter > 0 {
		pause = min(e.retryAfter, outageAsked)
	}
	n.Outage = &outage{Since: since, Again: now.Add(pause), Words: e.Message}
	return n
}

// trouble adds an outage to a note, and the time of the next call to its error.
func (x *exchange) trouble(n note, e *Error) note {
	n = n.trouble(x.h.slot.Now().UTC(), e, x.h.failure())
	e.NotBefore = time.Now().Add(n.Outage.Again.Sub(x.h.slot.Now()))
	return n
}

// untaken notes an outage that came before the call that brings a token.
func (x *exchange) untaken(err error) error {
	e, ok := isOutage(err)
	if !ok {
		return nil
	}
	return x.setNote(x.trouble(x.n, e))
}

// tooEarly returns the error of a call that is not made, since the server has
// asked for a later one; nil if it may be made.
func (x *exchange) tooEarly() error {
	u, now := x.n.Outage, x.h.slot.Now()
	if u == nil || !now.Before(u.Again) || u.Again.Sub(now) > outageAsked { // further ahead is a clock's mistake
		return nil
	}
	return &Error{Class: Transient, Message: u.Words, NotBefore: time.Now().Add(u.Again.Sub(now)), kept: true, outage: true}
}

// outageWait is one caller's wait for a token endpoint. All that share the grant wait
// for the same moment; the first to come then makes the next call.
type outageWait struct {
	limit  time.Duration // of one wait that the server asks for
	waited time.Duration
}

func newOutageWait(limit time.Duration) *outageWait { return &outageWait{limit: limit} }

// personWait is the wait of a person who signs in or out, and looks at the terminal.
func (s Session) personWait() *outageWait { return newOutageWait(min(outagePerson, s.maxWait())) }

// sleep waits until the next call, and reports whether it should be made.
func (w *outageWait) sleep(ctx context.Context, err error) bool {
	e, ok := isOutage(err)
	if !ok {
		return false
	}
	wait := max(0, time.Until(e.NotBefore))
	limit := w.limit
	if wait <= outageLongest {
		limit = min(limit, outageWaits)
	}
	if w.waited+wait > limit {
		return false
	}
	w.waited += wait
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// soon waits after the n-th call of one that no note is kept of, and reports whether
// another should be made.
func (w *outageWait) soon(ctx context.Context, err error, n int) bool {
	e, ok := isOutage(err)
	if !ok {
		return false
	}
	pause := backoff(outageFirst, outageLongest, n)
	if e.retryAfter > 0 {
		pause = min(e.retryAfter, outageAsked)
	}
	e.NotBefore = time.Now().Add(pause)
	return w.sleep(ctx, e)
}

// end makes of an outage that was not waited out what a run is parked by.
func (w *outageWait) end(err error) error {
	e, ok := isOutage(err)
	if !ok {
		return err
	}
	parked := *e
	parked.Class, parked.Err = Throttled, &cause{text: e.Message, err: errors.Join(ErrOutage, e)}
	return &parked
}
