package wire

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-data/penstock/state"
)

// Governor keeps the requests of one credential within the server's limit. Every client, stream and retry that
// uses the credential shares one governor, and [Governor.Share] extends it to other processes, because the server
// counts all their requests together. A governor paces requests evenly, counts the requests that the server may still
// count, stops all requests when the server answers 429, and learns from the answers how much the server accepts. // Invariant 4
//
// It is safe for concurrent use.
type Governor struct {
	queue chan struct{} // held by the one request that waits for its slot; the others wait for this channel, in order of arrival
	wake  chan struct{} // wakes that request early
	plan  Budget
	id    uint64 // as a member of the budget record
	base  time.Time

	mu         sync.Mutex
	record     *budgetRecord
	file       *state.LockedFile // where the record is stored; nil: this governor does not share it
	fleet      *fleet            // grants slots of a shared ledger; nil: the record decides
	origin     atomic.Int64      // the instant of base on the record's clock
	joined     time.Time         // when this governor first read the file; zero: not yet
	broken     error             // the file could not be written, so the record is no longer true
	inFlight   int
	unsent     int64   // of inFlight, those not sent yet
	lapses     int     // how often other members may have considered this process dead
	probeUntil instant // until when to wait for this process's first request after the gate opened
	waiting    string
}

// Budget configures a governor. The zero value starts slowly and learns the limit.
type Budget struct {
	Rate    Rate    // the limit; zero while nothing is known
	Reserve float64 // share of the limit that is left to other programs, from 0 to 0.9
}

// NewGovernor returns a governor for a credential with this budget.
func NewGovernor(b Budget) *Governor {
	g := &Governor{
		queue: make(chan struct{}, 1),
		wake:  make(chan struct{}, 1),
		plan:  b,
		id:    rand.Uint64() | 1,
		base:  time.Now(),
	}
	g.origin.Store(g.base.UnixNano())
	fresh := newBudgetRecord(b)
	g.record = &fresh
	return g
}

// now returns the time on the record's clock, which does not jump with the machine's.
func (g *Governor) now() instant { return instant(g.origin.Load()).add(time.Since(g.base)) }

// time converts i to the time of day.
func (g *Governor) time(i instant) time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.Now().Add(i.sub(g.now())).Round(0)
}

// slot is the permission to send one request, held until its answer has been read.
type slot struct {
	g       *Governor
	given   instant
	sent    instant // zero until the request is on the wire
	noted   instant // the instant under which the record counts the request
	counted int     // requests that counted when the slot was given, including this one
	epoch   int64   // of the gate when the slot was given
	lapse   int     // of the governor when the slot was given
	settled bool
	probe   bool // see Request
}

const (
	// catchUp limits how far requests that are late may be sent closer together, to make up for the delay.
	catchUp = 25 * time.Millisecond

	// lookAgain is how long to wait at most if another process may end the wait earlier.
	lookAgain = 20 * time.Millisecond
)

// acquire waits for a slot. It returns a *blockedError at once if the wait would exceed longest, or the cause
// of ctx's end.
func (g *Governor) acquire(ctx context.Context, longest time.Duration) (*slot, error) {
	if g.fleet != nil {
		g.fleetWaits(1)
		defer g.fleetWaits(-1)
	}
	select {
	case g.queue <- struct{}{}:
		defer func() { <-g.queue }()
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

// try returns a slot, or how long to wait before the next call.
func (g *Governor) try(longest time.Duration) (s *slot, wait time.Duration, err error) {
	broken := g.with(func(b *budgetRecord, now instant) bool {
		s, wait, err = g.decide(b, now, longest)
		if s == nil && b.shared(g.id, now) && g.waiting != "pace" {
			wait = min(wait, lookAgain)
		}
		return s != nil
	})
	if broken != nil {
		return nil, 0, broken
	}
	return s, wait, err
}

func (g *Governor) decide(b *budgetRecord, now instant, longest time.Duration) (*slot, time.Duration, error) {
	g.waiting = ""
	if wait := b.gate.until.sub(now); wait > 0 {
		if wait > longest {
			return nil, 0, g.parked(b.gate.reason, b.gate.until)
		}
		g.waiting = b.gate.reason.String()
		return nil, wait, nil
	}
	if g.inFlight >= b.limit.maxInFlight() {
		g.waiting = "answers outstanding"
		return nil, time.Minute, nil // done wakes us sooner
	}
	if wait := g.probeDelay(b, now); wait > 0 {
		g.waiting = "answers outstanding"
		return nil, wait, nil // done wakes us sooner
	}
	if g.fleet != nil {
		ok, wait, err := g.leasedSlot(now, longest)
		if !ok {
			g.waiting = "limit"
			return nil, wait, err
		}
		return g.newSlot(b, now, 0), 0, nil
	}
	if wait := b.next.sub(now); wait > 0 {
		g.waiting = "pace"
		return nil, wait, nil
	}
	n, window := b.limit.allowed()
	counted, free := b.occupied(window, now)
	if float64(counted+1) > max(n, 1) {
		g.waiting = "limit"
		if free == 0 {
			return nil, time.Minute, nil // none of the counted requests has been sent yet
		}
		if wait := free.sub(now); wait > longest {
			return nil, 0, g.parked(usedUp, free)
		}
		return nil, max(free.sub(now), time.Microsecond), nil
	}
	return g.newSlot(b, now, counted+1), 0, nil
}

func (g *Governor) parked(why reason, until instant) *blockedError {
	return &blockedError{class: why.class(), reason: why.String(), until: g.time(until)}
}

func (g *Governor) newSlot(b *budgetRecord, now instant, counted int) *slot {
	late := now.add(-catchUp)
	if b.next.before(late) {
		b.next = late
	}
	if b.sent == 0 {
		b.next = now
	}
	b.next = b.next.add(b.limit.interval())
	if b.gate.probing {
		g.probeUntil = now.add(probeWait)
		b.gate.probeUntil = g.probeUntil
	}
	if g.fleet == nil { // otherwise the ledger counts
		b.limit.sent(now)
	}
	b.sent++
	g.inFlight++
	g.unsent++
	return &slot{g: g, given: now, counted: counted, epoch: b.gate.epoch, lapse: g.lapses}
}

func (g *Governor) poke() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// errSuspended ends a request whose slot has expired: this process was suspended before it sent the request, and
// other processes may have reused the slot.
var errSuspended = errors.New("process was suspended before it sent the request")

// How hold checks a slot before the request is sent.
const (
	fresh    = 5 * time.Millisecond // a younger slot needs no check
	holdStep = memberLease / 3      // interval between signs of life while the gate is closed
)

// hold delays a request if the gate closed while its connection was being opened. It cancels the request
// instead if the wait exceeds longest.
func (s *slot) hold(w *watch, longest time.Duration) {
	for w.ctx.Err() == nil && s.g.now().sub(s.given) >= fresh {
		wait, err := s.gateWait(longest)
		if err != nil {
			w.cancel(err)
		}
		if err != nil || wait <= 0 {
			return
		}
		select {
		case <-time.After(min(wait, holdStep)):
		case <-w.ctx.Done():
		}
	}
}

// gateWait returns how long a request with a slot must wait for the gate.
func (s *slot) gateWait(longest time.Duration) (wait time.Duration, err error) {
	broken := s.g.with(func(b *budgetRecord, now instant) bool {
		wait = b.gate.until.sub(now)
		switch {
		case wait > longest:
			err = s.g.parked(b.gate.reason, b.gate.until)
		case s.lapse != s.g.lapses:
			err = errSuspended
		case s.g.fleet != nil && wait <= 0:
			wait, err = s.replaceExpired(now, longest)
		}
		return false
	})
	if err == nil {
		err = broken
	}
	return wait, err
}

// wrote records that the request is on the wire.
func (s *slot) wrote() {
	_ = s.g.with(func(b *budgetRecord, now instant) bool {
		if s.settled || s.sent != 0 {
			return false
		}
		s.countSent(b, now)
		return true
	})
	s.g.poke()
}

// answered learns from an answer's header.
func (s *slot) answered(resp *http.Response) {
	_ = s.g.with(func(b *budgetRecord, now instant) bool {
		s.settle(b, true, now)
		if s.g.fleet != nil {
			s.g.applyAnswer(b, s, resp, now)
			return true
		}
		_, window := b.limit.allowed()
		if !b.limit.known() {
			window = 0
		}
		in := readHints(resp.Header, window)
		switch code := resp.StatusCode; {
		case code == http.StatusTooManyRequests:
			b.refused++
			retry := in.retry
			if !in.hasRetry && in.hasReset {
				retry = in.reset
			}
			if b.gate.refused(s.epoch, now, retry) {
				b.limit.refused(now, retry, in.limit, b.gate.strikes > 1)
			}
		case code >= 500:
			b.limit.accepted(s.sent)
			b.gate.stumbled(s.epoch, now, in.retry, s.probe)
		default:
			b.limit.accepted(s.sent)
			if pause := b.limit.observe(in, s.counted); pause > 0 {
				b.gate.extend(now.add(pause), usedUp)
			}
			b.gate.passed(s.epoch)
		}
		return true
	})
	s.g.poke()
}

// lost records that the request will get no answer.
func (s *slot) lost() {
	_ = s.g.with(func(b *budgetRecord, now instant) bool {
		s.settle(b, false, now)
		if s.g.fleet != nil {
			s.g.applyAnswer(b, s, nil, now)
			return true
		}
		b.gate.failed(s.epoch, now, 0)
		return true
	})
	s.g.poke()
}

// unwatched records a request that was sent outside the client, at an unknown time before now.
func (s *slot) unwatched() {
	_ = s.g.with(func(b *budgetRecord, now instant) bool {
		s.countSent(b, now)
		s.settle(b, false, now)
		return true
	})
}

// done releases the slot. It must be called exactly once, last.
func (s *slot) done() {
	g := s.g
	if !s.settled {
		_ = g.with(func(b *budgetRecord, now instant) bool {
			s.settle(b, false, now)
			b.gate.probeUntil = 0
			return true
		})
	}
	g.mu.Lock()
	g.inFlight--
	g.mu.Unlock()
	g.poke()
}

// countSent counts the request as sent, and no longer as unsent.
func (s *slot) countSent(b *budgetRecord, now instant) {
	s.sent, s.noted = now, now.add(b.window.longest())
	s.g.unsent--
	b.window.note(s.noted, 1)
}

// settle is called once the request was answered or no answer can come any more. It fixes until when the
// request counts.
func (s *slot) settle(b *budgetRecord, answered bool, now instant) {
	if s.settled {
		return
	}
	s.settled = true
	if s.sent == 0 && !answered {
		s.g.unsent-- // never sent: the server cannot have counted it
		return
	}
	if s.sent == 0 {
		s.countSent(b, now) // answered before WroteRequest was reported
	}
	guard := b.window.guardFor(now.sub(s.sent), answered, now)
	b.window.move(s.noted, s.sent.add(guard))
}
