package budget

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/penstock-data/penstock/state/retry"
)

// Ledger stores the records that processes on several hosts share, one record per credential. Only one process at a
// time can change a record.
type Ledger interface {
	// ChangeBudget calls the function update with the record called name, or with nil if there is none. No other
	// process can change the record meanwhile. ChangeBudget stores the result of update durably; if the result is nil,
	// the record stays as it is. The argument now is the time of the ledger's clock. After an error, ChangeBudget may
	// call update again.
	ChangeBudget(ctx context.Context, name string, update func(now time.Time, stored []byte) ([]byte, error)) error
}

// A ledger is too slow for an exchange per request. So a governor leases several grants at once. Each grant is for an
// instant in the near future. Later the governor reports what became of the requests, and gives unused grants back.
const (
	leaseSpan   = 60 * time.Millisecond // length of a lease if the ledger is fast
	leaseTrips  = 8                     // a lease lasts at least this many round trips to the ledger
	mostAhead   = 2 * time.Second       // how far ahead grants are leased
	mostUntold  = 5 * time.Second       // a report waits for the next exchange at most this long, and at most a quarter of the window
	ledgerTime  = 10 * time.Second      // timeout of an exchange
	ledgerLost  = 30 * time.Second      // how long the ledger may be unreachable before requests fail
	firstPeriod = 100 * time.Millisecond
	lastPeriod  = 2 * time.Second
)

var exchangeRetry = retry.Policy{First: firstPeriod, Longest: lastPeriod}

// fleet is a governor's connection to a ledger. The lock of the governor protects it.
type fleet struct {
	ledger  Ledger
	name    string
	busy    bool // an exchange is under way
	work    sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc
	leases  []grant
	waiting int      // callers that wait for a grant
	reports []report // reports since the last exchange
	telling bool     // an exchange for the reports is planned
	retry   time.Time
	failed  time.Time // when the ledger stopped answering; zero if it answers
	misses  int       // exchanges that failed since then
	err     error
	trip    time.Duration // recent round trip to the ledger
}

// ShareLedger connects the governor with all processes on any host that use the ledger's record called name. See
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

// expire gives back a grant that was not used in time. The caller holds g.mu.
func (g *Governor) expire(l grant) {
	g.tell(g.record, report{outcome: expired, settles: true, noted: l.noted, at: g.now()})
}

// leased takes a leased grant, or returns how long to wait. The end of an exchange also wakes the waiting caller. The
// caller holds g.mu.
func (g *Governor) leased(now instant, maxWait time.Duration) (got *grant, wait time.Duration, err error) {
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
	if !f.failed.IsZero() && time.Since(f.failed) > min(ledgerLost, maxWait) {
		return nil, 0, fmt.Errorf("cannot reach the rate-limit database: %w", f.err)
	}
	g.waiting = waitsForLimit
	if wait := time.Until(f.retry); wait > 0 {
		return nil, wait, nil
	}
	g.startExchange(max(1, f.waiting))
	return nil, time.Minute, nil
}

// queueReport keeps a report for the next exchange. Until the ledger has the report, the request counts longer than
// necessary. So an exchange begins soon, even if no lease is needed. If the gate has changed, the exchange begins at
// once. The caller holds g.mu.
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

// prefetch leases more grants before the last one is used, so that no request has to wait.
func (g *Governor) prefetch(now instant) {
	f, end := g.fleet, now
	if n := len(f.leases); n > 0 {
		end = f.leases[n-1].at
	}
	if f.waiting > 1 && end.sub(now) < 2*f.trip+leaseSpan/2 && time.Until(f.retry) <= 0 {
		g.startExchange(f.waiting)
	}
}

// startExchange starts an exchange that leases at most limit grants. It does nothing while another exchange runs. The
// caller holds g.mu.
func (g *Governor) startExchange(limit int) {
	f := g.fleet
	if f.busy || f.ctx.Err() != nil {
		return
	}
	f.busy = true
	f.work.Go(func() {
		ctx, cancel := context.WithTimeout(f.ctx, ledgerTime)
		defer cancel()
		err := g.exchange(ctx, limit, false)
		g.mu.Lock()
		f.busy = false
		if f.err = err; err == nil {
			f.failed, f.misses = time.Time{}, 0
		} else {
			if f.failed.IsZero() {
				f.failed = time.Now()
			}
			f.misses++
			f.retry = time.Now().Add(exchangeRetry.Wait(f.misses))
		}
		g.mu.Unlock()
		g.poke()
	})
}

// exchange exchanges data with the ledger. It reports what became of this process's requests, reads what other
// processes have learned, and leases at most limit grants.
func (g *Governor) exchange(ctx context.Context, limit int, leaves bool) error {
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
		got, wait = r.lease(now, trip, limit)
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
	for _, p := range f.reports { // reports during the exchange
		g.record.apply(p)
	}
	f.leases = append(f.leases, got...)
	f.retry = time.Time{}
	if len(got) == 0 && limit > 0 {
		f.retry = time.Now().Add(wait)
	}
	return nil
}

// lease reserves at most limit requests. Their instants come after a round trip to the ledger, so that the governor can
// still use the grants. If lease reserves no request, it returns how long to wait.
func (r *record) lease(now instant, trip time.Duration, limit int) (got []grant, wait time.Duration) {
	if wait := r.gate.until.sub(now); wait > 0 {
		return nil, min(wait, lastPeriod)
	}
	latest := now.add(mostAhead)
	for len(got) < limit {
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

// setClock sets the governor's clock by the ledger's clock. The ledger's clock showed the time remote, at some moment
// after this process sent its request at the time sent. The governor's clock must never be ahead, because a grant must
// not be used before its instant. It may be behind by at most the fastest round trip.
func (g *Governor) setClock(remote time.Time, sent time.Time) {
	lowest := instant(remote.UnixNano()).add(-time.Since(g.base)) // as if the ledger read its clock just now
	highest := instant(remote.UnixNano()).add(-sent.Sub(g.base))  // as if the ledger read its clock when the request was sent
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
