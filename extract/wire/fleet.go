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

// BudgetStore stores the budgets that processes on several hosts share: one text for each credential, changed by one
// process at a time.
type BudgetStore interface {
	// ChangeBudget calls change with the text stored under name, while no other process can change it. It durably
	// stores the text that change returns. If change returns nil, the stored text stays. The argument now is the
	// time of the store's clock, read under the lock. After a failure, ChangeBudget may call change again.
	ChangeBudget(ctx context.Context, name string, change func(now time.Time, stored []byte) ([]byte, error)) error
}

// How hosts share a budget. The ledger is their common [BudgetStore]. The hosts divide time, not a count: each request
// has its own instant on the ledger's clock, at the pace of the limit. A worker leases consecutive instants. Instants
// that the worker does not use in time are lost.
const (
	leaseSpan   = 60 * time.Millisecond // length of a lease, if the ledger is near
	leaseTrips  = 8                     // a lease lasts at least this many round trips to the ledger
	mostAhead   = 2 * time.Second       // how far ahead leases may be granted
	lateToken   = 25 * time.Millisecond // how late a leased instant may be used
	ledgerTime  = 10 * time.Second      // timeout of an exchange
	ledgerLost  = 30 * time.Second      // how long the ledger may be unreachable before requests fail
	firstPeriod = 100 * time.Millisecond
	lastPeriod  = 2 * time.Second
)

// fleet is a governor's connection to a ledger. The governor's lock guards it.
type fleet struct {
	ledger  BudgetStore
	name    string
	busy    bool // an exchange is under way
	work    sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc
	leases  []lease
	waiting int      // callers of acquire
	answers []answer // since the last exchange
	sent    int      // requests since the last exchange
	retry   time.Time
	failed  time.Time // when the ledger stopped answering; zero: it answers
	pause   time.Duration
	err     error
	trip    time.Duration // recent round trip to the ledger
}

// lease permits n requests, one every step from start on.
type lease struct {
	start instant
	step  time.Duration
	n     int
}

// answer is an answer, or the lack of one, as reported to the ledger.
type answer struct {
	at, sent instant
	status   int // 0 without an answer
	in       hints
	epoch    int64
	probe    bool // see Request
}

// ShareIn connects the governor with all processes on any host that use the same ledger. See [Governor.Share].
// While the ledger does not answer, no request is sent. // Invariant 4
func (g *Governor) ShareIn(ctx context.Context, ledger BudgetStore, account Secret) error {
	f := &fleet{ledger: ledger, name: BudgetName(account)}
	f.ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	g.mu.Lock()
	g.fleet = f
	g.mu.Unlock()
	if err := g.exchange(ctx, 0); err != nil {
		f.stop()
		return fmt.Errorf("share the rate limit: %w", err)
	}
	return nil
}

// leaveFleet reports the last requests to the ledger. Unused leases expire.
func (g *Governor) leaveFleet() error {
	f := g.fleet
	f.stop()
	f.work.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := g.exchange(ctx, 0); err != nil {
		return fmt.Errorf("share the rate limit: %w", err)
	}
	return nil
}

// leasedSlot takes a slot from a lease, or returns how long to wait. When an exchange ends, the waiting caller is
// woken earlier. g.mu is held.
func (g *Governor) leasedSlot(now instant, longest time.Duration) (ok bool, wait time.Duration, err error) {
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
			l.start, l.n = l.start.add(l.step), l.n-1 // too late to use it
		default:
			l.start, l.n = l.start.add(l.step), l.n-1
			f.sent++
			g.prefetch(now)
			return true, 0, nil
		}
	}
	if !f.failed.IsZero() && time.Since(f.failed) > min(ledgerLost, longest) {
		return false, 0, fmt.Errorf("cannot reach the rate-limit database: %w", f.err)
	}
	if wait := time.Until(f.retry); wait > 0 {
		return false, wait, nil
	}
	g.startExchange()
	return false, time.Minute, nil
}

// replaceExpired replaces a slot that has expired because its connection took long to open, or because this
// process was suspended. It returns how long to wait for the new one. g.mu is held. // Invariant 4
func (s *slot) replaceExpired(now instant, longest time.Duration) (wait time.Duration, err error) {
	if now.sub(s.given) <= lateToken {
		return 0, nil
	}
	f := s.g.fleet
	f.waiting++
	defer func() { f.waiting-- }()
	ok, wait, err := s.g.leasedSlot(now, longest)
	if ok {
		s.given = now
		return 0, nil
	}
	return min(wait, lookAgain), err
}

// prefetch requests the next lease early enough to avoid a pause.
func (g *Governor) prefetch(now instant) {
	f := g.fleet
	last := f.leases[len(f.leases)-1]
	end := last.start.add(time.Duration(last.n) * last.step)
	if f.waiting > 1 && end.sub(now) < 2*f.trip+leaseSpan/2 && time.Until(f.retry) <= 0 {
		g.startExchange()
	}
}

// startExchange starts an exchange unless one is under way.
func (g *Governor) startExchange() {
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

// exchange reports requests and answers to the ledger, reads those of the other workers, and leases up to want
// instants.
func (g *Governor) exchange(ctx context.Context, want int) error {
	f := g.fleet
	g.mu.Lock()
	heard, sent, trip, plan := f.answers, f.sent, f.trip, g.plan
	slack := lateToken + min(2*g.record.window.guard, meanGuard)
	g.mu.Unlock()
	var a budgetState
	var got lease
	var wait time.Duration
	var at time.Time
	asked := time.Now()
	err := f.ledger.ChangeBudget(ctx, f.name, func(now time.Time, stored []byte) ([]byte, error) {
		var err error
		at = now
		if a, err = openBudgetState(stored, plan, instant(now.UnixNano())); err != nil {
			return nil, err
		}
		a.apply(heard, sent, slack)
		got, wait = a.lease(want, trip)
		return json.Marshal(a.stored())
	})
	took := time.Since(asked)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	f.answers, f.sent = f.answers[len(heard):], f.sent-sent
	if f.trip == 0 || took < f.trip {
		f.trip = took
	}
	f.trip += (took - f.trip) / 8
	g.setClock(at, asked)
	g.record.limit, g.record.gate, g.record.sent, g.record.refused = a.limit, a.gate, a.sent, a.refused
	for _, h := range f.answers { // answers that came during the exchange
		g.record.learn(h)
	}
	f.retry = time.Time{}
	if got.n > 0 {
		f.leases = append(f.leases, got)
	} else if want > 0 {
		f.retry = time.Now().Add(max(wait, time.Millisecond))
	}
	return nil
}

// setClock sets the governor's clock by the ledger's. The governor's clock may be behind by at most the fastest round
// trip, and is never ahead, so that no leased instant is used before its time. The ledger's clock showed at, at an
// unknown moment after asked.
func (g *Governor) setClock(at time.Time, asked time.Time) {
	lowest := instant(at.UnixNano()).add(-time.Since(g.base)) // if the ledger read its clock just now
	highest := instant(at.UnixNano()).add(-asked.Sub(g.base)) // if the ledger read its clock when the request was sent
	if origin := instant(g.origin.Load()); origin < lowest || origin > highest {
		g.origin.Store(int64(lowest))
	}
}

// errUnreadableBudget says that this version cannot decode the stored budget.
var errUnreadableBudget = errors.New("this version cannot read the stored rate limit")

// fleetWaits adds n to the number of waiting callers of acquire.
func (g *Governor) fleetWaits(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fleet.waiting += n
}

// applyAnswer applies an answer in this process now, and in the other processes with the next exchange. resp is nil if
// no answer came. If the gate has changed, the exchange starts at once. g.mu is held.
func (g *Governor) applyAnswer(b *budgetRecord, s *slot, resp *http.Response, now instant) {
	a := answer{at: now, sent: s.sent, epoch: s.epoch, probe: s.probe}
	if resp != nil {
		_, window := b.limit.allowed()
		if !b.limit.known() {
			window = 0
		}
		a.status, a.in = resp.StatusCode, readHints(resp.Header, window)
	}
	before := b.gate
	b.learn(a)
	g.fleet.answers = append(g.fleet.answers, a)
	if b.gate.until != before.until || before.probing != b.gate.probing {
		g.startExchange()
	}
}
