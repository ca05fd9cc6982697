package budget

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Ledger stores the records that processes on several hosts share: one for each credential, changed by one process at
// a time.
type Ledger interface {
	// ChangeBudget calls change with the record stored under name, or nil, while no other process can change it. It
	// durably stores what change returns. If change returns nil, the stored record stays. The argument now is the
	// time of the ledger's clock, read under the lock. After a failure, ChangeBudget may call change again.
	ChangeBudget(ctx context.Context, name string, change func(now time.Time, stored []byte) ([]byte, error)) error
}

// A ledger is too slow to use for every request. So a governor leases several grants at a time, each for an instant
// soon to come, and reports later what became of them. A grant that is not used in time is given back.
const (
	leaseSpan   = 60 * time.Millisecond // length of a lease, if the ledger is near
	leaseTrips  = 8                     // a lease lasts at least this many round trips to the ledger
	mostAhead   = 2 * time.Second       // how far ahead leases may be granted
	mostUntold  = 5 * time.Second       // a report waits for the next lease so long at most, or a quarter of the window
	ledgerTime  = 10 * time.Second      // timeout of an exchange
	ledgerLost  = 30 * time.Second      // how long the ledger may be unreachable before requests fail
	firstPeriod = 100 * time.Millisecond
	lastPeriod  = 2 * time.Second
)

// fleet is a governor's connection to a ledger. The governor's lock guards it.
type fleet struct {
	ledger  Ledger
	name    string
	busy    bool // an exchange is under way
	work    sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc
	leases  []grant
	waiting int      // callers that wait for a grant
	reports []report // since the last exchange
	telling bool     // an exchange for them is due
	retry   time.Time
	failed  time.Time // when the ledger stopped answering; zero: it answers
	pause   time.Duration
	err     error
	trip    time.Duration // recent round trip to the ledger
}

// ShareLedger connects the governor with all processes on any host that use the record called name in the ledger. See
// [Governor.ShareFile]. While the ledger does not answer, no request is sent. // Invariant 4
func (g *Governor) ShareLedger(ctx context.Context, ledger Ledger, name string) error {
	f := &fleet{ledger: ledger, name: name}
	f.ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	g.mu.Lock()
	g.fleet = f
	g.mu.Unlock()
	if err := g.exchange(ctx, 0, false); err != nil {
		f.stop()
		return fmt.Errorf("share the rate limit: %w", err)
	}
	return nil
}

// leaveFleet reports the last requests to the ledger, and gives unused grants back.
func (g *Governor) leaveFleet() error {
	f := g.fleet
	f.stop()
	f.work.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	g.mu.Lock()
	for _, l := range f.leases {
		g.expire(l)
	}
	f.leases = nil
	g.mu.Unlock()
	if err := g.exchange(ctx, 0, true); err != nil {
		return fmt.Errorf("share the rate limit: %w", err)
	}
	return nil
}

// expire gives a grant back that was not used in time. g.mu is held.
func (g *Governor) expire(l grant) {
	g.tell(g.record, report{outcome: expired, settles: true, noted: l.noted, at: g.now()})
}

// leased takes a grant from the leases, or returns how long to wait. When an exchange ends, the waiting caller is
// woken earlier. g.mu is held.
func (g *Governor) leased(now instant, longest time.Duration) (got *grant, wait time.Duration, err error) {
	f := g.fleet
	for len(f.leases) > 0 {
		l := f.leases[0]
		if now.before(l.at) {
			g.prefetch(now)
			g.waiting = waitsForLimit
			return nil, l.at.sub(now), nil
		}
		f.leases = f.leases[1:]
		if now.sub(l.at) <= late {
			g.prefetch(now)
			return &l, 0, nil
		}
		g.expire(l)
	}
	if !f.failed.IsZero() && time.Since(f.failed) > min(ledgerLost, longest) {
		return nil, 0, fmt.Errorf("cannot reach the rate-limit database: %w", f.err)
	}
	g.waiting = waitsForLimit
	if wait := time.Until(f.retry); wait > 0 {
		return nil, wait, nil
	}
	g.startExchange(max(1, f.waiting))
	return nil, time.Minute, nil
}

// queueReport keeps a report for the next exchange. Until the ledger has it, the request counts for longer than it must. So an
// exchange begins soon, even if no lease is needed; at once, if the gate has changed. g.mu is held.
func (g *Governor) queueReport(s report, gateChanged bool) {
	f := g.fleet
	f.reports = append(f.reports, s)
	switch {
	case gateChanged:
		g.startExchange(0)
	case !f.telling:
		f.telling = true
		time.AfterFunc(min(g.record.limit.window()/4, mostUntold), func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			if f.telling = false; len(f.reports) > 0 {
				g.startExchange(0)
			}
		})
	}
}

// prefetch requests the next lease early enough to avoid a pause.
func (g *Governor) prefetch(now instant) {
	f, end := g.fleet, now
	if n := len(f.leases); n > 0 {
		end = f.leases[n-1].at
	}
	if f.waiting > 1 && end.sub(now) < 2*f.trip+leaseSpan/2 && time.Until(f.retry) <= 0 {
		g.startExchange(f.waiting)
	}
}

// startExchange starts an exchange that leases up to want grants, unless an exchange is under way. g.mu is held.
func (g *Governor) startExchange(want int) {
	f := g.fleet
	if f.busy || f.ctx.Err() != nil {
		return
	}
	f.busy = true
	f.work.Go(func() {
		ctx, cancel := context.WithTimeout(f.ctx, ledgerTime)
		defer cancel()
		err := g.exchange(ctx, want, false)
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

// exchange reports to the ledger what became of this process's requests, reads what the other processes have
// learned, and leases up to want grants.
func (g *Governor) exchange(ctx context.Context, want int, leaves bool) error {
	f := g.fleet
	g.mu.Lock()
	told, trip, plan, joined := f.reports, f.trip, g.plan, g.joined
	g.mu.Unlock()
	var r record
	var got []grant
	var wait time.Duration
	var at time.Time
	asked := time.Now()
	err := f.ledger.ChangeBudget(ctx, f.name, func(clock time.Time, stored []byte) ([]byte, error) {
		at = clock
		now := instant(at.UnixNano())
		if stored == nil {
			r = newRecord(plan)
		} else if err := r.load(stored); err != nil {
			return nil, err
		}
		if r.stamp > now.add(clockSlack) {
			r.turnBack(now)
		}
		r.advance(now)
		if !joined {
			r.join(g.id, plan, now)
		}
		for _, p := range told {
			r.apply(p)
		}
		r.advance(now) // a report may have changed the length of the window
		got, wait = r.lease(now, trip, want)
		if r.sign(g.id, now); leaves {
			r.leave(g.id)
		}
		r.stamp = now
		return r.store(nil), nil
	})
	took := time.Since(asked)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.joined = g.plan == plan
	if f.trip == 0 || took < f.trip {
		f.trip = took
	}
	f.trip += (took - f.trip) / 8
	g.setClock(at, asked)
	*g.record, f.reports = r, f.reports[len(told):]
	for _, p := range f.reports { // reports that came during the exchange
		g.record.apply(p)
	}
	f.leases = append(f.leases, got...)
	f.retry = time.Time{}
	if len(got) == 0 && want > 0 {
		f.retry = time.Now().Add(wait)
	}
	return nil
}

// lease reserves up to want requests, at instants that the governor can still use after a round trip to the ledger. If
// it reserves none, it returns how long to wait.
func (r *record) lease(now instant, trip time.Duration, want int) (got []grant, wait time.Duration) {
	if wait := r.gate.until.sub(now); wait > 0 {
		return nil, min(wait, lastPeriod)
	}
	latest := now.add(mostAhead)
	for len(got) < want {
		l, again, why := r.reserve(now, now.add(trip), latest)
		switch {
		case why == waitsForAnswers:
			wait = min(again.sub(now), firstPeriod)
		case why != "":
			wait = min(max(again.sub(now)-mostAhead/2, time.Millisecond), lastPeriod)
		}
		if why != "" {
			break
		}
		if got = append(got, l); len(got) == 1 {
			latest = min(latest, l.at.add(max(leaseSpan, leaseTrips*trip)))
		}
	}
	return got, wait
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

// fleetWaits adds n to the number of waiting callers of Take.
func (g *Governor) fleetWaits(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fleet.waiting += n
}
