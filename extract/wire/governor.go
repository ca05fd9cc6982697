package wire

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/penstock-data/penstock/state"
)

// Governor decides when requests go out. There is one for each credential,
// shared by every client, stream and retry that uses it, and by [Governor.Share]
// with those of other processes, because the server counts them together. It
// paces requests evenly, keeps count of those the server may still count, closes
// for everyone when the server says 429, and learns from the answers how much
// the server takes. // Invariant 4
//
// It is safe for concurrent use.
type Governor struct {
	turn chan struct{} // one waits for the clock, the others for their turn: first come, first served
	wake chan struct{} // tells the one that waits to look again
	plan Budget
	id   uint64 // as a member of the budget record
	base time.Time

	mu       sync.Mutex
	book     *budgetRecord
	file     *state.LockedFile // where budget record comes from and goes to; nil: this governor alone has it
	fleet    *fleet            // or where leave comes from; nil: by the budget record alone
	origin   instant           // base by the budget record's clock
	joined   time.Time         // the budget record of file; zero: not yet
	broken   error             // the file could not be written: what it says is not true any more
	inFlight int
	unsent   int64   // of them, those that have not gone out
	lapses   int     // times that the others have taken this process for dead
	ahead    instant // until then the request that went ahead from here is waited for
	waiting  string
}

// Budget is what a governor may spend. The zero value starts low and learns.
type Budget struct {
	Rate    Rate    // the limit; zero while nothing is known
	Reserve float64 // share of the limit that is left to others, from 0 to 0.9
}

// NewGovernor returns a governor for a credential with this limit.
func NewGovernor(b Budget) *Governor {
	g := &Governor{
		turn: make(chan struct{}, 1),
		wake: make(chan struct{}, 1),
		plan: b,
		id:   rand.Uint64() | 1,
		base: time.Now(),
	}
	g.origin = instant(g.base.UnixNano())
	fresh := newBudgetRecord(b)
	g.book = &fresh
	return g
}

// now is the time by the budget record's clock. It does not jump with the machine's.
func (g *Governor) now() instant { return g.origin.add(time.Since(g.base)) }

// time is the time of day at i.
func (g *Governor) time(i instant) time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.Now().Add(i.sub(g.now())).Round(0)
}

// slot is one request's leave to go, from the moment it is given until the
// answer has been read.
type slot struct {
	g       *Governor
	given   instant
	sent    instant // zero until it is on the wire
	noted   instant // where the ledger has it
	counted int     // requests that counted then, this one included
	epoch   int64   // of the gate
	lapse   int     // of the governor
	settled bool
	probe   bool // see Request
}

const (
	// catchUp is how far behind the pace a late timer may fall and still be made
	// up for.
	catchUp = 25 * time.Millisecond

	// lookAgain is how long a wait lasts that another process can cut short.
	lookAgain = 20 * time.Millisecond
)

// acquire waits until a request may go. It returns a *parkedError at once if
// that would take longer than longest, or the cause of ctx's end.
func (g *Governor) acquire(ctx context.Context, longest time.Duration) (*slot, error) {
	if g.fleet != nil {
		g.fleetWaits(1)
		defer g.fleetWaits(-1)
	}
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
	if g.inFlight >= b.ceiling.most() {
		g.waiting = "answers outstanding"
		return nil, time.Minute, nil // done wakes us sooner
	}
	if wait := g.behind(b, now); wait > 0 {
		g.waiting = "answers outstanding"
		return nil, wait, nil // ditto
	}
	if g.fleet != nil {
		ok, wait, err := g.token(now, longest)
		if !ok {
			g.waiting = "limit"
			return nil, wait, err
		}
		return g.give(b, now, 0), 0, nil
	}
	if wait := b.next.sub(now); wait > 0 {
		g.waiting = "pace"
		return nil, wait, nil
	}
	n, window := b.ceiling.allowed()
	counted, free := b.occupied(window, now)
	if float64(counted+1) > max(n, 1) {
		g.waiting = "limit"
		if free == 0 {
			return nil, time.Minute, nil // all of them are still to be sent
		}
		if wait := free.sub(now); wait > longest {
			return nil, 0, g.parked(usedUp, free)
		}
		return nil, max(free.sub(now), time.Microsecond), nil
	}
	return g.give(b, now, counted+1), 0, nil
}

func (g *Governor) parked(why reason, until instant) *blockedError {
	return &blockedError{class: why.class(), reason: why.String(), until: g.time(until)}
}

func (g *Governor) give(b *budgetRecord, now instant, counted int) *slot {
	late := now.add(-catchUp)
	if b.next.before(late) {
		b.next = late
	}
	if b.sent == 0 {
		b.next = now
	}
	b.next = b.next.add(b.ceiling.interval())
	if b.gate.probing {
		g.ahead = now.add(probeWait)
		b.gate.probe = g.ahead
	}
	if g.fleet == nil { // else the ledger counts
		b.ceiling.sent(now)
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

// errAsleep ends a request whose leave has expired: this process was stopped
// between the leave and the sending, and others may have got it by now.
var errAsleep = errors.New("stopped for too long before the request went out")

// How hold looks at a leave before the request goes out.
const (
	fresh    = 5 * time.Millisecond // a leave younger than this needs no second look
	holdStep = memberLease / 3      // a sign of life while the gate is closed
)

// hold keeps a request back whose connection came about only after the gate
// had closed. A wait longer than longest ends it instead.
func (s *slot) hold(w *watch, longest time.Duration) {
	for w.ctx.Err() == nil && s.g.now().sub(s.given) >= fresh {
		wait, err := s.held(longest)
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

// held is how long a request with a leave has to wait for the gate.
func (s *slot) held(longest time.Duration) (wait time.Duration, err error) {
	broken := s.g.with(func(b *budgetRecord, now instant) bool {
		wait = b.gate.until.sub(now)
		switch {
		case wait > longest:
			err = s.g.parked(b.gate.reason, b.gate.until)
		case s.lapse != s.g.lapses:
			err = errAsleep
		case s.g.fleet != nil && wait <= 0:
			wait, err = s.trade(now, longest)
		}
		return false
	})
	if err == nil {
		err = broken
	}
	return wait, err
}

// wrote notes that the request is on the wire.
func (s *slot) wrote() {
	_ = s.g.with(func(b *budgetRecord, now instant) bool {
		if s.settled || s.sent != 0 {
			return false
		}
		s.leave(b, now)
		return true
	})
	s.g.poke()
}

// answered learns from an answer's header.
func (s *slot) answered(resp *http.Response) {
	_ = s.g.with(func(b *budgetRecord, now instant) bool {
		s.settle(b, true, now)
		if s.g.fleet != nil {
			s.g.hear(b, s, resp, now)
			return true
		}
		_, window := b.ceiling.allowed()
		if !b.ceiling.known() {
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
				b.ceiling.refused(now, retry, in.limit, b.gate.strikes > 1)
			}
		case code >= 500:
			b.ceiling.accepted(s.sent)
			b.gate.stumbled(s.epoch, now, in.retry, s.probe)
		default:
			b.ceiling.accepted(s.sent)
			if pause := b.ceiling.observe(in, s.counted); pause > 0 {
				b.gate.extend(now.add(pause), usedUp)
			}
			b.gate.passed(s.epoch)
		}
		return true
	})
	s.g.poke()
}

// lost notes that there will be no answer.
func (s *slot) lost() {
	_ = s.g.with(func(b *budgetRecord, now instant) bool {
		s.settle(b, false, now)
		if s.g.fleet != nil {
			s.g.hear(b, s, nil, now)
			return true
		}
		b.gate.failed(s.epoch, now, 0)
		return true
	})
	s.g.poke()
}

// unwatched notes that a request may have gone out at any time until now.
func (s *slot) unwatched() {
	_ = s.g.with(func(b *budgetRecord, now instant) bool {
		s.leave(b, now)
		s.settle(b, false, now)
		return true
	})
}

// done gives the place in the air back. It must be called once, last.
func (s *slot) done() {
	g := s.g
	if !s.settled {
		_ = g.with(func(b *budgetRecord, now instant) bool {
			s.settle(b, false, now)
			b.gate.probe = 0
			return true
		})
	}
	g.mu.Lock()
	g.inFlight--
	g.mu.Unlock()
	g.poke()
}

// leave moves the request from those that may go to those that have gone.
func (s *slot) leave(b *budgetRecord, now instant) {
	s.sent, s.noted = now, now.add(b.ledger.longest())
	s.g.unsent--
	b.ledger.note(s.noted, 1)
}

// settle notes when the request counts no more: it was answered, or will not be.
func (s *slot) settle(b *budgetRecord, answered bool, now instant) {
	if s.settled {
		return
	}
	s.settled = true
	if s.sent == 0 && !answered {
		s.g.unsent-- // it never left: the server cannot have counted it
		return
	}
	if s.sent == 0 {
		s.leave(b, now) // answered before it was known to have been sent
	}
	guard := b.ledger.guardOf(now.sub(s.sent), answered, now)
	b.ledger.move(s.noted, s.sent.add(guard))
}
