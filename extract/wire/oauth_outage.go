package wire

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-data/penstock/state/retry"
)

// ErrOutage says that a token endpoint failed, and did not recover in time. Other errors wrap it. The stored tokens are
// unchanged, and a later run can use them.
var ErrOutage = errors.New("the token endpoint returned no token")

const (
	outageWaits  = 2 * time.Minute  // longest total wait, unless the server requests another wait
	outagePerson = 30 * time.Second // longest total wait while a person signs in or out
)

// outage records that the token endpoint is failing. It is stored in the note, where all processes with the same grant
// read it.
type outage struct {
	Since time.Time `json:"since"`
	Again time.Time `json:"again"` // no call before this time
	Words string    `json:"words"`
}

func (n note) trouble(now time.Time, e *Error, tries int) note {
	since := now
	if n.Outage != nil {
		since = n.Outage.Since
	}
	n.Outage = &outage{Since: since, Again: now.Add(tokenWait(e, tries)), Words: e.Message}
	return n
}

func (x *exchange) trouble(n note, e *Error) note {
	n = n.trouble(x.h.entry.Now().UTC(), e, x.h.countFailure())
	e.NotBefore = time.Now().Add(n.Outage.Again.Sub(x.h.entry.Now()))
	return n
}

func (x *exchange) noteOutage(err error) error {
	e, ok := isOutage(err)
	if !ok {
		return nil
	}
	return x.setNote(x.trouble(x.n, e))
}

func (x *exchange) tooEarly() error {
	u, now := x.n.Outage, x.h.entry.Now()
	if u == nil || !now.Before(u.Again) || u.Again.Sub(now) > longestTokenWait { // a later time comes from a wrong clock
		return nil
	}
	return &Error{Class: Transient, Message: u.Words, NotBefore: time.Now().Add(u.Again.Sub(now)), unchanged: true, outage: true}
}

// outageWait is one caller's wait for a token endpoint. All callers that share the grant wait until the same time. Then
// the first of these callers makes the call.
type outageWait struct {
	limit  time.Duration // longest total wait
	waited time.Duration
}

func newOutageWait(limit time.Duration) *outageWait { return &outageWait{limit: limit} }

// personWait returns a shorter wait, because a person waits at the terminal.
func (s Session) personWait() *outageWait { return newOutageWait(min(outagePerson, s.maxWait())) }

func (w *outageWait) sleep(ctx context.Context, err error) bool {
	e, ok := isOutage(err)
	if !ok {
		return false
	}
	wait := max(0, time.Until(e.NotBefore))
	limit := w.limit
	if wait <= tokenRetry.Longest {
		limit = min(limit, outageWaits)
	}
	if w.waited+wait > limit {
		return false
	}
	w.waited += wait
	return retry.Sleep(ctx, wait)
}

// retrySoon waits, and reports whether to make another call. It does not record the outage in the note.
func (w *outageWait) retrySoon(ctx context.Context, err error, n int) bool {
	e, ok := isOutage(err)
	if !ok {
		return false
	}
	e.NotBefore = time.Now().Add(tokenWait(e, n))
	return w.sleep(ctx, e)
}

func (w *outageWait) end(err error) error {
	e, ok := isOutage(err)
	if !ok {
		return err
	}
	parked := *e
	parked.Class, parked.Err = Throttled, &cause{text: e.Message, err: errors.Join(ErrOutage, e)}
	return &parked
}
