package budget

import (
	"context"
	"net/http"
	"time"
)

// Permit is the permission to send one request. The caller holds it until the answer has been read. Call
// [Permit.Ready] when the connection is open, and [Permit.Sent] when the request is on the wire. Then call
// [Permit.Answered] or [Permit.Lost], and [Permit.Done] last.
type Permit struct {
	// Probe marks a request that tests a hypothesis about the API. A 5xx answer to it does not count as a failure of the
	// server, unless the answer has a Retry-After.
	Probe bool

	g       *Governor
	grant   grant
	sent    instant // zero until the request is on the wire
	epoch   int64   // epoch of the gate when the permit was given
	settled bool
	taken   instant // when the caller got the permit
	got     bool    // the server answered
}

// Times for [Permit.Ready].
const (
	fresh     = 5 * time.Millisecond // a permit younger than this is not checked
	readyStep = 10 * time.Second     // how often to look at the record while the gate is closed
)

// Ready is called when the connection is open. If the gate has closed meanwhile, Ready waits until it opens. If the
// permit has expired meanwhile, Ready replaces the permit. Ready returns an error if the wait would be longer than
// maxWait.
// Invariant 4
func (p *Permit) Ready(ctx context.Context, maxWait time.Duration) error {
	for ctx.Err() == nil && p.g.now().sub(p.grant.at) >= fresh {
		wait, err := p.ready(maxWait)
		if err != nil || wait <= 0 {
			return err
		}
		select {
		case <-time.After(min(wait, readyStep)):
		case <-ctx.Done():
		}
	}
	return nil
}

// ready returns how long the request must still wait.
func (p *Permit) ready(maxWait time.Duration) (wait time.Duration, err error) {
	broken := p.g.with(func(r *record, now instant) (changed bool) {
		wait = r.gate.until.sub(now)
		switch {
		case wait > maxWait:
			err = p.g.blocked(r.gate.reason, r.gate.until)
		case wait <= 0 && now.sub(p.grant.at) > late:
			wait, err = p.replace(r, now, maxWait)
			return true
		}
		return false
	})
	if err == nil {
		err = broken
	}
	return wait, err
}

// replace replaces an expired permit. A permit expires if the connection takes long to open, or if this process is
// suspended. replace returns how long to wait for the new permit. The caller holds p.g.mu.
func (p *Permit) replace(r *record, now instant, maxWait time.Duration) (wait time.Duration, err error) {
	g := p.g
	if g.fleet == nil && r.window.holds(p.grant.noted) { // the window still counts the request
		p.move(r, now)
		p.grant.at = now
		return 0, nil
	}
	if g.fleet != nil {
		g.fleet.waiting++
		defer func() { g.fleet.waiting-- }()
	}
	got, wait, err := g.reserve(r, now, maxWait)
	if got == nil {
		return min(max(wait, time.Microsecond), longestWait), err
	}
	g.tell(r, report{outcome: expired, settles: true, noted: p.grant.noted, at: now})
	p.grant = *got
	return 0, nil
}

// move records that the request is sent now, and not at the planned instant. The caller holds p.g.mu.
func (p *Permit) move(r *record, now instant) {
	moved := r.noting(now, now)
	p.g.tell(r, report{outcome: delayed, noted: p.grant.noted, moved: moved, at: now})
	p.grant.noted = moved
}

// Sent records that the request is on the wire.
func (p *Permit) Sent() {
	_ = p.g.with(func(r *record, now instant) bool {
		return p.send(r, now)
	})
}

// send notes that the request is sent now, and reports whether it changed the record. If the request is sent in time,
// nothing changes, because the grant has counted the request already.
func (p *Permit) send(r *record, now instant) (changed bool) {
	if p.settled || p.sent != 0 {
		return false
	}
	p.sent = now
	if now.sub(p.grant.at) <= late {
		return false
	}
	p.move(r, now)
	return true
}

// Unwatched records that code other than the client has sent the request, some time ago.
func (p *Permit) Unwatched() {
	_ = p.g.with(func(r *record, now instant) bool {
		p.send(r, now)
		p.settle(r, now, report{outcome: dropped})
		return true
	})
}

// Answered learns from an answer's header.
func (p *Permit) Answered(resp *http.Response) {
	p.got = true
	p.tell(func(r *record) report {
		var window time.Duration
		if r.limit.known() {
			window = r.limit.window()
		}
		return report{outcome: answered, status: resp.StatusCode, header: readHints(resp.Header, window)}
	})
}

// Lost records that the request will get no answer.
func (p *Permit) Lost() { p.tell(func(*record) report { return report{outcome: lost} }) }

// tell applies a report about the request.
func (p *Permit) tell(f func(*record) report) {
	_ = p.g.with(func(r *record, now instant) bool {
		p.settle(r, now, f(r))
		return true
	})
	p.g.poke()
}

// settle completes a report and applies it. The first report decides how long the request counts. The caller holds
// p.g.mu.
func (p *Permit) settle(r *record, now instant, s report) {
	if p.sent == 0 && s.outcome == answered {
		p.send(r, now) // the answer came before Sent was called
	}
	s.at, s.settles, s.noted, s.sent = now, !p.settled, p.grant.noted, p.sent
	s.counted, s.epoch, s.probe = p.grant.counted, p.epoch, p.Probe
	p.settled = true
	p.g.tell(r, s)
}

// Done releases the permit. Call it exactly once, at the end.
func (p *Permit) Done() {
	if !p.settled {
		p.tell(func(*record) report { return report{outcome: dropped} })
	}
	p.g.mu.Lock()
	if now := p.g.now(); p.got {
		p.g.load.answered(now, now.sub(p.taken), p.g.inFlight)
	}
	p.g.inFlight--
	p.g.pending--
	p.g.mu.Unlock()
	p.g.poke()
}

// tell applies a report to the record. If the record is in a ledger, tell changes the local copy, and the next
// exchange changes the ledger. The caller holds g.mu.
func (g *Governor) tell(r *record, s report) {
	before := r.gate
	r.apply(s)
	if s.outcome == dropped {
		g.probeUntil = 0
	}
	if g.fleet != nil {
		g.queueReport(s, r.gate.until != before.until || r.gate.probing != before.probing)
		if r.gate.epoch != before.epoch { // the gate has closed; when it opens, only one request of all workers may go first
			g.dropLeases()
		}
	}
}
