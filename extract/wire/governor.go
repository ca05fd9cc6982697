package wire

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// Governor decides when requests go out. There is one for each credential,
// shared by every client, stream and retry that uses it, because the server
// counts them together. It paces requests evenly, keeps count of those the
// server may still count, closes for everyone when the server says 429, and
// learns from the answers how much the server takes. // Invariant 4
//
// It is safe for concurrent use.
type Governor struct {
	turn chan struct{} // one waits for the clock, the others for their turn: first come, first served
	wake chan struct{} // tells the one that waits to look again

	mu       sync.Mutex
	ledger   ledger
	ceiling  ceiling
	gate     gate
	next     time.Time // when the pace lets the next request go
	inFlight int
	sent     uint64
	refusals uint64
	waiting  string
}

// NewGovernor returns a governor for a credential with this limit. The zero
// Rate starts low and learns.
func NewGovernor(r Rate) *Governor {
	return &Governor{
		turn:    make(chan struct{}, 1),
		wake:    make(chan struct{}, 1),
		ceiling: newCeiling(r),
	}
}

// slot is one request's leave to go, from the moment it is given until the
// answer has been read.
type slot struct {
	g       *Governor
	index   int       // in ledger.open
	sent    time.Time // zero until it is on the wire
	counted int       // requests that counted then, this one included
	epoch   int       // of the gate
	settled bool
}

// catchUp is how far behind the pace a late timer may fall and still be made
// up for.
const catchUp = 25 * time.Millisecond

// acquire waits until a request may go. It returns a *parkedError at once if
// that would take longer than longest, or the cause of ctx's end.
func (g *Governor) acquire(ctx context.Context, longest time.Duration) (*slot, error) {
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for ctx.Err() == nil {
		s, wait, err := g.try(longest)
		if s != nil || err != nil {
			return s, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-g.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil, context.Cause(ctx)
}

// try gives leave, or says how long to wait before asking again.
func (g *Governor) try(longest time.Duration) (*slot, time.Duration, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.waiting = ""
	if wait := g.gate.until.Sub(now); wait > 0 {
		if wait > longest {
			return nil, 0, g.gate.parked()
		}
		g.waiting = g.gate.reason
		return nil, wait, nil
	}
	if g.inFlight >= g.ceiling.most() || g.gate.probing && g.inFlight > 0 {
		g.waiting = "answers outstanding"
		return nil, time.Minute, nil // done wakes us sooner
	}
	if wait := g.next.Sub(now); wait > 0 {
		g.waiting = "pace"
		return nil, wait, nil
	}
	n, window := g.ceiling.allowed()
	counted, free := g.ledger.occupied(now, window)
	if float64(counted+1) > max(n, 1) {
		g.waiting = "limit"
		if free.IsZero() {
			return nil, time.Minute, nil // all of them are still to be sent
		}
		if wait := free.Sub(now); wait > longest {
			return nil, 0, &parkedError{class: Throttled, reason: "request limit used up", until: free}
		}
		return nil, free.Sub(now), nil
	}
	return g.give(now, counted+1), 0, nil
}

func (g *Governor) give(now time.Time, counted int) *slot {
	s := &slot{g: g, counted: counted, epoch: g.gate.epoch}
	g.ledger.add(s)
	g.ceiling.sent(now)
	late := now.Add(-catchUp)
	if g.next.Before(late) {
		g.next = late
	}
	if g.sent == 0 {
		g.next = now
	}
	g.next = g.next.Add(g.ceiling.interval())
	g.inFlight++
	g.sent++
	return s
}

func (g *Governor) poke() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// hold keeps a request back whose connection came about only after the gate
// had closed. A wait longer than longest ends it instead.
func (s *slot) hold(w *watch, longest time.Duration) {
	for w.ctx.Err() == nil {
		s.g.mu.Lock()
		g := s.g.gate
		s.g.mu.Unlock()
		wait := time.Until(g.until)
		if wait <= 0 {
			return
		}
		if wait > longest {
			w.cancel(g.parked())
			return
		}
		select {
		case <-time.After(wait):
		case <-w.ctx.Done():
		}
	}
}

// wrote notes that the request is on the wire.
func (s *slot) wrote() {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	if !s.settled {
		s.sent = time.Now()
		s.g.poke()
	}
}

// answered learns from an answer's header.
func (s *slot) answered(resp *http.Response) {
	g := s.g
	g.mu.Lock()
	defer g.mu.Unlock()
	at := time.Now()
	g.settle(s, true, at)
	server := now(resp)
	reset, hasReset := resetAfter(resp.Header, server, 15*time.Minute)
	retry, hasRetry := retryAfter(resp.Header, server)
	switch code := resp.StatusCode; {
	case code == http.StatusTooManyRequests:
		g.refusals++
		if !hasRetry && hasReset {
			retry = reset
		}
		if g.gate.refused(s.epoch, at, retry) {
			g.ceiling.refused(at, retry, statedLimit(resp.Header))
		}
	case code >= 500:
		g.ceiling.accepted(s.sent)
		g.gate.failed(s.epoch, at, retry)
	default:
		g.ceiling.accepted(s.sent)
		g.ceiling.observe(remaining(resp.Header), s.counted, reset, hasReset)
		g.gate.passed(s.epoch)
	}
	g.poke()
}

// lost notes that there will be no answer.
func (s *slot) lost() {
	g := s.g
	g.mu.Lock()
	defer g.mu.Unlock()
	at := time.Now()
	g.settle(s, false, at)
	g.gate.failed(s.epoch, at, 0)
	g.poke()
}

func (g *Governor) settle(s *slot, answered bool, at time.Time) {
	if !s.settled {
		s.settled = true
		g.ledger.settle(s, answered, at)
	}
}

// done gives the place in the air back. It must be called once, last.
func (s *slot) done() {
	g := s.g
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settle(s, false, time.Now())
	g.inFlight--
	g.poke()
}

// Stats is what a governor has to tell at one moment.
type Stats struct {
	Sent      uint64        // requests let go since the beginning
	Refused   uint64        // of them answered 429
	Limit     Rate          // stated or learned; zero while unknown
	Allowed   float64       // requests a second at present
	Used      float64       // share of Allowed used in the last seconds, 0 to about 1
	InFlight  int           // requests under way
	Waiting   string        // what the next request waits for; "" for nothing
	GateUntil time.Time     // closed until then; zero or past if open
	Guard     time.Duration // mean time for which a request counts beyond its window
}

// Stats returns a snapshot, for progress and metrics.
func (g *Governor) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, window := g.ceiling.allowed()
	s := Stats{
		Sent: g.sent, Refused: g.refusals, Limit: g.ceiling.rate,
		Allowed: n / window.Seconds(), InFlight: g.inFlight,
		Waiting: g.waiting, GateUntil: g.gate.until, Guard: g.ledger.guard,
	}
	s.Used = g.ceiling.history.mean(time.Now()) / s.Allowed
	return s
}
