package budget

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/penstock-data/penstock/state/retry"
)

// Ledger stores the records that processes on several hosts share, one record per credential. Only one process at a
// time can change a record.
type Ledger interface {
	// ChangeBudget passes the named record to update(), or nil if there is none. It also passes the time of the ledger's
	// clock. No other process can change the record meanwhile. ChangeBudget stores the result of update() durably; if
	// the result is nil, the record stays as it is. After an error, ChangeBudget may call update() again.
	ChangeBudget(ctx context.Context, name string, update func(now time.Time, stored []byte) ([]byte, error)) error
}

// An exchange with the ledger for each request would be too slow. So a governor leases grants for about one second at
// once. Each grant is for an instant in the near future. Later the governor reports what became of the requests, and
// gives unused grants back.
//
// While the limit is not certain, leases are short. Then the governors soon report the server's answers to the ledger,
// and the answers show what the limit is.
const (
	leaseSpan   = 60 * time.Millisecond   // length of a short lease if the ledger is fast
	leaseTrips  = 8                       // a short lease lasts at least this many round trips to the ledger
	leasePeriod = 1100 * time.Millisecond // time between two exchanges with long leases
	leaseSlack  = 50 * time.Millisecond   // the next exchange begins at least this long before a long lease ends
	mostLeased  = 4096                    // largest number of reserved requests that no governor has leased; this limits a shared budget to mostLeased requests in mostAhead
	mostAhead   = 2 * time.Second         // how far in the future a leased grant may be
	mostUntold  = 5 * time.Second         // longest time that a report waits for the next exchange
	ledgerTime  = 10 * time.Second        // timeout of an exchange
	ledgerLost  = 30 * time.Second        // how long the ledger may be unreachable before requests fail
	firstPeriod = 100 * time.Millisecond
	lastPeriod  = 2 * time.Second
)

var exchangeRetry = retry.Policy{First: firstPeriod, Longest: lastPeriod}

// fleet is a governor's connection to a ledger. The lock of the governor protects it.
type fleet struct {
	ledger  Ledger
	name    string
	busy    bool // an exchange is under way
	again   bool // after the exchange that is under way, another exchange must follow at once
	work    sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc
	leases  []grant       // in the order of their instants
	until   instant       // when the leases end
	lead    time.Duration // how long before the end of the leases the next exchange begins
	given   int           // how many grants were unused when the last lease arrived
	since   time.Time     // when the last lease arrived
	wall    time.Time     // the same moment by the machine's clock, which may jump
	taken   int           // how many grants callers have taken since the last lease arrived
	expired []instant     // one element for each grant that has expired since the last lease: the instant at which the window counted the grant
	waiting int           // number of callers that wait for a grant
	reports []report      // reports since the last exchange
	telling bool          // an exchange for the reports is planned
	asked   time.Time     // when the last exchange began
	retry   time.Time     // no exchange for a lease begins before this time
	failed  time.Time     // when the ledger stopped answering; zero if it answers
	misses  int           // failed exchanges since the ledger stopped answering
	err     error
	trip    time.Duration // recent round trip to the ledger
}

// ShareLedger connects the governor with all processes on any host that use the named record of the ledger. See
// [Governor.ShareFile]. While the ledger does not answer, only requests with a leased grant are sent. // Invariant 4
func (g *Governor) ShareLedger(ctx context.Context, ledger Ledger, name string) error {
	f := &fleet{ledger: ledger, name: name}
	f.ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	g.mu.Lock()
	g.fleet = f
	g.mu.Unlock()
	if err := g.exchange(ctx, reportsOnly); err != nil {
		f.stop()
		return fmt.Errorf("share the rate limit: %w", err)
	}
	return nil
}

// leaveFleet reports the last requests to the ledger, and gives unused grants back.
func (g *Governor) leaveFleet() error {
	f := g.fleet
	g.mu.Lock() // startExchange needs this lock too, so no exchange begins after f.stop
	f.stop()
	g.mu.Unlock()
	f.work.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	g.mu.Lock()
	g.dropLeases()
	g.mu.Unlock()
	if err := g.exchange(ctx, leaves); err != nil {
		return fmt.Errorf("share the rate limit: %w", err)
	}
	return nil
}

// dropLeases gives back all grants. The caller holds g.mu.
func (g *Governor) dropLeases() {
	f := g.fleet
	for _, l := range f.leases {
		g.expire(l)
	}
	f.leases, f.until = nil, 0
}

// expire gives back a grant that was not used in time. The caller holds g.mu.
func (g *Governor) expire(l grant) {
	g.fleet.expired = append(g.fleet.expired, l.noted)
	g.tell(g.record, report{outcome: expired, settles: true, noted: l.noted, at: g.now()})
}

// leased returns a leased grant, or how long to wait for a grant. The end of an exchange also wakes the waiting caller.
// The caller holds g.mu.
func (g *Governor) leased(now instant, maxWait time.Duration) (got *grant, wait time.Duration, err error) {
	f := g.fleet
	if len(f.leases) > 0 && f.suspended() {
		g.dropLeases()
	}
	for len(f.leases) > 0 {
		l := f.leases[0]
		if now.before(l.at) {
			g.prefetch(now)
			g.waiting = waitsForLimit
			return nil, l.at.sub(now), nil
		}
		f.leases = f.leases[1:]
		l.at = max(l.at, min(now, l.at.add(l.loose)))
		if now.sub(l.at) <= late {
			f.taken++
			l.counted -= f.expiredAfter(l.at.add(-g.record.limit.window()))
			g.prefetch(now)
			return &l, 0, nil
		}
		g.expire(l)
	}
	if !f.failed.IsZero() && time.Since(f.failed) > min(ledgerLost, maxWait) {
		return nil, 0, fmt.Errorf("cannot reach the rate-limit database: %w", f.err)
	}
	g.waiting = waitsForLimit
	if wait := max(time.Until(f.retry), f.until.add(-f.lead).sub(now)); wait > 0 {
		return nil, wait, nil
	}
	g.startExchange(withLease)
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
		f.again = f.busy // the exchange under way does not carry this report
		g.startExchange(reportsOnly)
	case !f.telling:
		g.planReports()
	}
}

// planReports plans an exchange for the reports. If a lease is needed earlier, the exchange for the lease carries the
// reports too. The caller holds g.mu.
func (g *Governor) planReports() {
	f := g.fleet
	wait := min(g.record.limit.window()/4, mostUntold)
	if g.record.limit.certain() {
		wait += leasePeriod + leaseSlack
	}
	f.telling = true
	time.AfterFunc(max(0, wait-time.Since(f.asked)), func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		switch f.telling = false; {
		case len(f.reports) == 0 || f.ctx.Err() != nil:
		case time.Since(f.asked) < wait:
			g.planReports()
		default:
			g.startExchange(reportsOnly)
		}
	})
}

// prefetch leases more grants before the lease ends, so that no request has to wait.
func (g *Governor) prefetch(now instant) {
	f := g.fleet
	if f.waiting > 1 && f.until.sub(now) < f.lead && time.Until(f.retry) <= 0 {
		g.startExchange(withLease)
	}
}

// purpose is why an exchange takes place. Each exchange carries the reports.
type purpose uint8

const (
	reportsOnly purpose = iota
	withLease           // the governor needs grants
	leaves              // the governor is closed
)

// startExchange starts an exchange. It does nothing while another exchange runs. The caller holds g.mu.
func (g *Governor) startExchange(why purpose) {
	f := g.fleet
	if f.busy || f.ctx.Err() != nil {
		return
	}
	f.busy = true
	f.work.Go(func() {
		ctx, cancel := context.WithTimeout(f.ctx, ledgerTime)
		defer cancel()
		err := g.exchange(ctx, why)
		g.mu.Lock()
		f.busy = false
		again := f.again
		f.again = false
		if f.err = err; err == nil {
			f.failed, f.misses = time.Time{}, 0
		} else {
			if f.failed.IsZero() {
				f.failed = time.Now()
			}
			f.misses++
			f.retry = time.Now().Add(exchangeRetry.Wait(f.misses))
		}
		switch {
		case err == nil && again:
			g.startExchange(reportsOnly)
		case len(f.reports) > 0 && !f.telling:
			g.planReports()
		}
		g.mu.Unlock()
		g.poke()
	})
}

// exchange exchanges data with the ledger. It reports what became of this process's requests, and reads what other
// processes have learned.
func (g *Governor) exchange(ctx context.Context, why purpose) error {
	f := g.fleet
	g.mu.Lock()
	told, trip, plan, joined := f.reports, f.trip, g.plan, g.joined
	asks, asked := f.asks(why, g.now()), time.Now()
	f.asked = asked
	g.mu.Unlock()
	var r record
	var got lease
	var at, seen time.Time // the time on the ledger's clock, and the same moment on this machine's clock
	err := f.ledger.ChangeBudget(ctx, f.name, func(clock time.Time, stored []byte) ([]byte, error) {
		at, seen = clock, time.Now()
		now := instant(at.UnixNano())
		if err := r.open(stored, plan, joined, now); err != nil {
			return nil, err
		}
		if !joined {
			r.join(g.id, plan, now)
		}
		for _, p := range told {
			p.at, p.sent = min(p.at, now), min(p.sent, now) // if the ledger's clock was set back, these times are in the future
			r.apply(p)
		}
		r.advance(now) // a report may have changed the length of the window
		r.need(g.id, asks, now)
		switch got = (lease{}); why {
		case withLease:
			got = r.lease(g.id, now, trip, asks)
		case leaves:
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
	before := g.now()
	g.setClock(at, asked, seen)
	g.adopt(r, len(told), before)
	if why == withLease {
		f.keep(got)
	}
	return nil
}

// open reads the stored record, or begins a new one. A governor that has not joined replaces a record that it cannot
// read.
func (r *record) open(stored []byte, plan Plan, joined bool, now instant) error {
	err := r.load(stored)
	switch {
	case stored == nil:
		*r = newRecord(plan)
	case err != nil && joined:
		return err
	case err != nil: // another release of penstock has written it
		*r = newRecord(plan)
		r.advance(now)
		r.pause(now)
	}
	if r.stamp > now.add(clockSlack) {
		r.turnBack(now)
	}
	r.advance(now)
	return nil
}

// adopt replaces the local copy with the ledger's record, which includes the first n reports. The caller has just set
// the governor's clock, and the argument `before` is the instant that the clock showed until then. The caller holds
// g.mu.
func (g *Governor) adopt(r record, n int, before instant) {
	f := g.fleet
	switch {
	case g.now() < before.add(-clockSlack):
		f.leases, f.until = nil, 0 // the ledger's clock was set back, so these instants are far in the future
	case r.gate.epoch != g.record.gate.epoch:
		g.dropLeases() // another worker has closed the gate
	}
	r.unleased = nil // only the record in the ledger needs these requests
	*g.record, f.reports = r, f.reports[n:]
	for _, p := range f.reports { // reports during the exchange
		g.record.apply(p)
	}
}

// asks returns how many grants callers need. If callers took nearly all grants of the last lease, they need as many as
// they can get. If the last lease is old, and the exchange is not for a lease, they need none. The caller holds the
// governor's lock.
func (f *fleet) asks(why purpose, now instant) need {
	n := need{waiting: max(1, f.waiting), second: everything, held: f.until}
	if why != withLease && time.Since(f.since) >= leasePeriod {
		n.second = 0
		return n
	}
	past := f.given
	for _, l := range f.leases {
		if l.at.add(l.loose) >= now {
			past--
		}
	}
	if f.waiting <= 1 && 4*f.taken < 3*past {
		span := max(time.Since(f.since), leasePeriod)
		n.second = int64(needFactor*float64(f.taken)/span.Seconds()) + 2
	}
	return n
}

// keep adds the grants of a new lease to the others. The caller holds the governor's lock.
func (f *fleet) keep(got lease) {
	f.leases = append(f.leases, got.grants...)
	slices.SortFunc(f.leases, func(a, b grant) int { return cmp.Compare(a.at, b.at) })
	f.given, f.since = len(f.leases), time.Now()
	f.wall = f.since.Round(0)
	f.taken, f.expired, f.until, f.lead, f.retry = 0, nil, got.until, got.lead, time.Time{}
	if len(got.grants) == 0 {
		f.until, f.retry = 0, time.Now().Add(got.wait)
	}
}

// setClock sets the governor's clock to the ledger's clock. This process sent a request to the ledger at one time
// (sent), and got the answer at a later time (seen). The answer has the ledger's time (remote) of a moment between the
// two. The governor's clock must never be ahead of the ledger's clock, because a grant must not be used before its
// instant. The governor's clock may be behind by at most the fastest round trip.
func (g *Governor) setClock(remote, sent, seen time.Time) {
	lowest := instant(remote.UnixNano()).add(-seen.Sub(g.base))  // if the ledger read its clock at the time seen
	highest := instant(remote.UnixNano()).add(-sent.Sub(g.base)) // if the ledger read its clock at the time sent
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
