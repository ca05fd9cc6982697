// Package budget keeps the requests of a credential within the server's limit.
//
// A record holds what is known about the requests and the limit of a credential. The record is in memory, in a file
// that the processes of a machine share ([Governor.ShareFile]), or in a database that several hosts share
// ([Governor.ShareLedger]). The algorithm is the same in all three cases. [golang.org/x/time/rate] spaces the requests
// evenly. A governor also counts the requests that the server may still count, and sends no request that would exceed
// the limit of a window.
//
// The package uses these words:
//   - The window is the period of a limit, for example a minute. A request counts for one window.
//   - The guard is extra time for which a request counts, because the request may arrive late at the server.
//   - The gate is open while requests may be sent. It closes when the server refuses requests or fails.
//   - An instant is a time on the record's clock.
//   - A member is a governor that shares the record.
//   - An exchange with a database carries a governor's reports, and may bring a lease of grants.
package budget

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-data/penstock/state"
)

// Governor keeps the requests of one credential within the server's limit. The server counts all requests of a
// credential together. So all clients, streams and retries share one governor, and all processes share its record. When
// the server answers 429, the governor stops all requests for some time. It learns from the answers how many requests
// the server accepts.
// Invariant 4
//
// A Governor is safe for concurrent use.
type Governor struct {
	queue chan struct{} // has one element while a caller waits for the next permit; the other callers wait for room in it
	wake  chan struct{} // wakes the caller that waits for the next permit, before its wait ends
	id    uint64        // id of this governor in the record
	base  time.Time

	mu         sync.Mutex
	plan       Plan
	record     *record           // from a file: as last read; from a ledger: a copy that includes the latest reports of this process
	file       *state.LockedFile // file of the record; nil: none
	stored     []byte            // memory for the stored form of the record
	fleet      *fleet            // ledger of the record; nil: none
	origin     atomic.Int64      // the time on the record's clock when this machine's clock showed g.base
	joined     bool              // this governor is a member of the record
	broken     error             // the file could not be read or written; from then on, no request is permitted
	inFlight   int
	pending    int         // requests in flight, and callers that wait in Take
	load       concurrency // how many requests may be in flight
	probeUntil instant     // after the gate has opened, requests wait until this instant for the answer to this process's first request
	waiting    string
}

// Plan is the configured limit. With the zero value, the governor does not know the limit: it starts slowly and learns
// the limit.
type Plan struct {
	Rate    Rate    // the limit; zero while nothing is known
	Reserve float64 // share of the limit that is left to other programs, from 0 to 0.9
}

// New returns a governor for a credential.
func New(p Plan) *Governor {
	g := &Governor{
		queue: make(chan struct{}, 1),
		wake:  make(chan struct{}, 1),
		plan:  p,
		id:    rand.Uint64() | 1,
		base:  time.Now(),
	}
	g.origin.Store(g.base.UnixNano())
	fresh := newRecord(p)
	g.record = &fresh
	return g
}

// now returns the time on the record's clock. It does not jump when the machine's clock is set.
func (g *Governor) now() instant { return instant(g.origin.Load()).add(time.Since(g.base)) }

// time converts i to the time of day.
func (g *Governor) time(i instant) time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.Now().Add(i.sub(g.now())).Round(0)
}

// longestWait is how long a process waits at most before it reads the shared file again, because another process may
// have changed the record.
const longestWait = 20 * time.Millisecond

// Reasons why a request waits. While the gate is closed, the reason why it closed is used instead.
const (
	waitsForPace    = "pace"
	waitsForLimit   = "limit"
	waitsForAnswers = "answers outstanding"
)

// Take waits for a permit. It returns a *[BlockedError] at once if the wait would be longer than maxWait. If ctx ends,
// Take returns the cause of ctx.
func (g *Governor) Take(ctx context.Context, maxWait time.Duration) (*Permit, error) {
	g.pends(1)
	p, err := g.take(ctx, maxWait)
	if p == nil {
		g.pends(-1)
	}
	return p, err
}

func (g *Governor) pends(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending += n
}

func (g *Governor) take(ctx context.Context, maxWait time.Duration) (*Permit, error) {
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
		p, wait, err := g.try(maxWait)
		if p != nil || err != nil {
			return p, err
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

// try returns a permit, or how long to wait before the next try.
func (g *Governor) try(maxWait time.Duration) (p *Permit, wait time.Duration, err error) {
	broken := g.with(func(r *record, now instant) bool {
		p, wait, err = g.decide(r, now, maxWait)
		if p == nil && g.file != nil && g.waiting != waitsForPace && r.shared(g.id) {
			wait = min(wait, longestWait)
		}
		return p != nil
	})
	if broken != nil {
		return nil, 0, broken
	}
	return p, wait, err
}

func (g *Governor) decide(r *record, now instant, longest time.Duration) (*Permit, time.Duration, error) {
	g.waiting = ""
	if wait := r.gate.until.sub(now); wait > 0 {
		if wait > longest {
			return nil, 0, g.blocked(r.gate.reason, r.gate.until)
		}
		g.waiting = r.gate.reason.String()
		return nil, wait, nil
	}
	if g.inFlight >= max(g.mostInFlight(r), leastConcurrency) {
		g.waiting = waitsForAnswers
		return nil, time.Minute, nil // Permit.Done ends the wait earlier
	}
	if wait := g.probeDelay(r, now); wait > 0 {
		g.waiting = waitsForAnswers
		return nil, wait, nil // Permit.Done ends the wait earlier
	}
	got, wait, err := g.reserve(r, now, longest)
	if got == nil {
		return nil, wait, err
	}
	g.inFlight++
	if r.gate.probing {
		g.probeUntil = now.add(probeWait)
	}
	return &Permit{g: g, grant: *got, epoch: r.gate.epoch, taken: now}, 0, nil
}

// Room returns how many more requests this process must send now to use the whole rate, although answers take time. The
// second result is how many requests may be under way in total, including those that wait for a permit. A caller that
// requests pages in advance calls Room first. Otherwise the requests of other streams would wait behind pages that are
// not needed yet.
func (g *Governor) Room() (room, most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	most = g.mostInFlight(g.record)
	return max(most-g.pending, 0), most
}

// Parallel returns how many requests must be under way at the same time to use the whole rate. The result is smaller
// than the number that may be under way, because it has no headroom.
func (g *Governor) Parallel() int {
	_, most := g.Room()
	return int(float64(most-spare) / headroom)
}

// mostInFlight returns how many requests of this process may be in flight. The caller holds g.mu.
func (g *Governor) mostInFlight(r *record) int {
	n, window := r.limit.allowed()
	var delay time.Duration
	if g.fleet != nil {
		delay = 2 * g.fleet.trip
		if !r.limit.certain() {
			delay += leaseSpan
		}
	}
	return g.load.most(n/window.Seconds(), delay)
}

// reserve returns a grant for a request that is sent at once, or how long to wait. The caller holds g.mu.
func (g *Governor) reserve(r *record, now instant, maxWait time.Duration) (*grant, time.Duration, error) {
	if g.fleet != nil {
		return g.leased(now, maxWait)
	}
	got, again, why := r.reserve(now, now, now)
	wait := again.sub(now)
	switch {
	case why == "":
		return &got, 0, nil
	case why == waitsForLimit && wait > maxWait:
		return nil, 0, g.blocked(usedUp, again)
	}
	g.waiting = why
	return nil, wait, nil
}

// probeDelay returns how long a request must still wait after the gate has opened. One request goes first. The others
// wait for its answer, and for the answers to requests that were sent before the gate closed. They wait for at most
// probeWait. This method is for the requests of this process. [record.reserve] does the same for the requests of all
// processes. The caller holds g.mu.
func (g *Governor) probeDelay(r *record, now instant) time.Duration {
	if !r.gate.probing || g.inFlight == 0 {
		return 0
	}
	until := r.gate.until.add(probeWait)
	if g.fleet != nil { // a request with a leased grant does not call record.reserve, so it waits here
		until = max(until, g.probeUntil)
	}
	return until.sub(now)
}

func (g *Governor) blocked(why reason, until instant) *BlockedError {
	return &BlockedError{Reason: why.String(), Until: g.time(until), Failing: why == failing}
}

func (g *Governor) poke() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// with() runs f on the current record, under a lock. It stores the record if f reports a change, or if a sign of life
// is due. If the record is in a ledger, f gets the local copy.
//
// Errors come from the file and are final, because a request that was not recorded would be missing from the count.
// Invariant 4
func (g *Governor) with(f func(r *record, now instant) bool) error {
	if done, err := g.change(f); done {
		return err
	}
	return g.waitForFile(f)
}

// change is like with(), but tries only once. The first result is false if another process has locked the file.
func (g *Governor) change(f func(r *record, now instant) bool) (done bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file != nil {
		return g.changeFile(f)
	}
	now := g.now()
	g.record.advance(now)
	f(g.record, now)
	return true, nil
}
