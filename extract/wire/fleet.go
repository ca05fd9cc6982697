package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Ledger is where processes of many hosts keep what they may ask for together:
// one text for each credential, which one of them at a time works on.
type Ledger interface {
	// ChangeBudget lets change work on what is kept under name while nobody else
	// does, and keeps what it gives, durably; nil leaves it. at is the time by the
	// ledger's own clock, read once nobody else can come in between. change may be
	// called again after a failure.
	ChangeBudget(ctx context.Context, name string, change func(at time.Time, kept []byte) ([]byte, error)) error
}

// How a fleet shares a budget. Time is divided, not the count: at the limit's
// pace each request has an instant of its own on the ledger's clock, and a worker
// leases some of them, one after the other. What it does not use in time is lost.
const (
	leaseSpan   = 60 * time.Millisecond // of a lease, if the way to the ledger is no longer
	leaseTrips  = 8                     // so many times the way there and back a lease lasts, at least
	mostAhead   = 2 * time.Second       // how far leases reach into the future
	lateToken   = 25 * time.Millisecond // how late a token may be used
	ledgerTime  = 10 * time.Second      // an exchange may take
	ledgerLost  = 30 * time.Second      // without the ledger until requests fail
	firstPeriod = 100 * time.Millisecond
	lastPeriod  = 2 * time.Second
)

// fleet is a governor's part in a budget that a ledger keeps. The governor's lock
// guards it.
type fleet struct {
	ledger  Ledger
	name    string
	busy    bool // an exchange is under way
	work    sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc
	leases  []lease
	waiting int      // callers of acquire
	heard   []answer // since the last exchange
	sent    int      // ditto
	retry   time.Time
	failed  time.Time // since when the ledger does not answer; zero: it does
	pause   time.Duration
	err     error
	trip    time.Duration // to the ledger and back, lately
}

// lease is leave for n requests, one each step from start on.
type lease struct {
	start instant
	step  time.Duration
	n     int
}

// answer is what an answer, or the lack of one, has told.
type answer struct {
	at, sent instant
	status   int // 0: none came
	in       hints
	epoch    int64
	probe    bool // see Request
}

// ShareIn makes the governor one with those of all processes, on whichever host,
// that share a ledger: see [Governor.Share]. Where the ledger does not answer no
// request goes out. // Invariant 4
func (g *Governor) ShareIn(ctx context.Context, ledger Ledger, account Secret) error {
	f := &fleet{ledger: ledger, name: BookName(account)}
	f.ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	g.mu.Lock()
	g.fleet = f
	g.mu.Unlock()
	if err := g.exchange(ctx, 0); err != nil {
		f.stop()
		return fmt.Errorf("share the budget of requests: %w", err)
	}
	return nil
}

// leaveFleet tells the ledger the last, and leaves the leases to expire.
func (g *Governor) leaveFleet() error {
	f := g.fleet
	f.stop()
	f.work.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := g.exchange(ctx, 0); err != nil {
		return fmt.Errorf("share the budget of requests: %w", err)
	}
	return nil
}

// token gives leave by a lease, or says how long to wait; done wakes who waits for
// the ledger sooner. g.mu is held.
func (g *Governor) token(now instant, longest time.Duration) (ok bool, wait time.Duration, err error) {
	f := g.fleet
	for len(f.leases) > 0 {
		l := &f.leases[0]
		switch {
		case l.n == 0, now.sub(l.start) > lateToken+time.Duration(l.n-1)*l.step:
			f.leases = f.leases[1:]
		case now.before(l.start):
			g.prefetch(now)
			return false, l.start.sub(now), nil
		case now.sub(l.start) > lateToken:
			l.start, l.n = l.start.add(l.step), l.n-1 // its time is over
		default:
			l.start, l.n = l.start.add(l.step), l.n-1
			f.sent++
			g.prefetch(now)
			return true, 0, nil
		}
	}
	if !f.failed.IsZero() && time.Since(f.failed) > min(ledgerLost, longest) {
		return false, 0, fmt.Errorf("the budget of requests is kept in a database that does not answer: %w", f.err)
	}
	if wait := time.Until(f.retry); wait > 0 {
		return false, wait, nil
	}
	g.ask()
	return false, time.Minute, nil
}

// trade gives a leave for another where its time is over by now: its connection
// took long to come about, or this process was stopped. It says how long to wait
// for the other. g.mu is held. // Invariant 4
func (s *slot) trade(now instant, longest time.Duration) (wait time.Duration, err error) {
	if now.sub(s.given) <= lateToken {
		return 0, nil
	}
	f := s.g.fleet
	f.waiting++
	defer func() { f.waiting-- }()
	ok, wait, err := s.g.token(now, longest)
	if ok {
		s.given = now
		return 0, nil
	}
	return min(wait, lookAgain), err
}

// prefetch asks for the next lease in time to go on without a pause.
func (g *Governor) prefetch(now instant) {
	f := g.fleet
	last := f.leases[len(f.leases)-1]
	end := last.start.add(time.Duration(last.n) * last.step)
	if f.waiting > 1 && end.sub(now) < 2*f.trip+leaseSpan/2 && time.Until(f.retry) <= 0 {
		g.ask()
	}
}

// ask has an exchange begin, unless one is under way.
func (g *Governor) ask() {
	f := g.fleet
	if f.busy || f.ctx.Err() != nil {
		return
	}
	f.busy = true
	want := max(1, f.waiting)
	f.work.Go(func() {
		ctx, cancel := context.WithTimeout(f.ctx, ledgerTime)
		defer cancel()
		err := g.exchange(ctx, want)
		g.mu.Lock()
		f.busy = false
		if f.err = err; err == nil {
			f.failed, f.pause = time.Time{}, 0
		} else {
			if f.failed.IsZero() {
				f.failed = time.Now()
			}
			f.pause = min(max(2*f.pause, firstPeriod), lastPeriod)
			f.retry = time.Now().Add(f.pause)
		}
		g.mu.Unlock()
		g.poke()
	})
}

// exchange tells the ledger what was sent and heard, learns what the others have,
// and leases up to want tokens.
func (g *Governor) exchange(ctx context.Context, want int) error {
	f := g.fleet
	g.mu.Lock()
	heard, sent, trip, plan := f.heard, f.sent, f.trip, g.plan
	slack := lateToken + min(2*g.book.ledger.guard, meanGuard)
	g.mu.Unlock()
	var a budgetState
	var got lease
	var wait time.Duration
	var at time.Time
	asked := time.Now()
	err := f.ledger.ChangeBudget(ctx, f.name, func(now time.Time, kept []byte) ([]byte, error) {
		var err error
		at = now
		if a, err = openBudgetState(kept, plan, instant(now.UnixNano())); err != nil {
			return nil, err
		}
		a.tell(heard, sent, slack)
		got, wait = a.lease(want, trip)
		return json.Marshal(a.keep())
	})
	took := time.Since(asked)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	f.heard, f.sent = f.heard[len(heard):], f.sent-sent
	if f.trip == 0 || took < f.trip {
		f.trip = took
	}
	f.trip += (took - f.trip) / 8
	g.setClock(at, asked)
	g.book.ceiling, g.book.gate, g.book.sent, g.book.refused = a.ceiling, a.gate, a.sent, a.refused
	for _, h := range f.heard { // while the ledger was asked
		g.book.learn(h)
	}
	f.retry = time.Time{}
	if got.n > 0 {
		f.leases = append(f.leases, got)
	} else if want > 0 {
		f.retry = time.Now().Add(max(wait, time.Millisecond))
	}
	return nil
}

// setClock goes by the ledger's clock: behind it by no more than the quickest
// answer took, and never ahead, so that no token is used before its time.
func (g *Governor) setClock(at time.Time, asked time.Time) {
	lowest := instant(at.UnixNano()).add(-time.Since(g.base)) // if the clock was read just now
	highest := instant(at.UnixNano()).add(-asked.Sub(g.base)) // if it was as soon as it was asked for
	if g.origin < lowest || g.origin > highest {
		g.origin = lowest
	}
}

// errForeign says that a ledger holds what this program has not written.
var errForeign = errors.New("the budget of requests is not one that this version can read")

// fleetWaits counts the callers of acquire.
func (g *Governor) fleetWaits(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fleet.waiting += n
}

// hear takes an answer, nil for none, for this process at once and for the others
// with the next exchange: at once if the gate is to close for all. g.mu is held.
func (g *Governor) hear(b *budgetRecord, s *slot, resp *http.Response, now instant) {
	a := answer{at: now, sent: s.sent, epoch: s.epoch, probe: s.probe}
	if resp != nil {
		_, window := b.ceiling.allowed()
		if !b.ceiling.known() {
			window = 0
		}
		a.status, a.in = resp.StatusCode, readHints(resp.Header, window)
	}
	before := b.gate
	b.learn(a)
	g.fleet.heard = append(g.fleet.heard, a)
	if b.gate.until != before.until || before.probing != b.gate.probing {
		g.ask()
	}
}
