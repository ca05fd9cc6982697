package budget

import (
	"context"
	"net/http"
	"time"
)

// Permit is the permission to send one request, held until its answer has been read. Call [Permit.Ready] when the
// connection is open, [Permit.Sent] when the request is on the wire, then [Permit.Answered] or [Permit.Lost], and
// [Permit.Done] last.
type Permit struct {
	// Probe marks a request that tests a hypothesis about the API: a 5xx answer without Retry-After does not count as a
	// failure of the server.
	Probe bool

	g       *Governor
	grant   grant
	sent    instant // zero until the request is on the wire
	epoch   int64   // of the gate when the permit was given
	settled bool
}

// How Ready checks a permit before the request is sent.
const (
	fresh     = 5 * time.Millisecond // a younger permit needs no check
	readyStep = 10 * time.Second     // interval between looks at the record while the gate is closed
)

// Ready delays a request if the gate closed while its connection was being opened, or if that took so long that the
// permit has expired and must be replaced. It returns an error if the wait exceeds longest. // Invariant 4
func (p *Permit) Ready(ctx context.Context, longest time.Duration) error {
	for ctx.Err() == nil && p.g.now().sub(p.grant.at) >= fresh {
		wait, err := p.ready(longest)
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

// ready returns how long a request with a permit must wait.
func (p *Permit) ready(longest time.Duration) (wait time.Duration, err error) {
	broken := p.g.with(func(r *record, now instant) (changed bool) {
		wait = r.gate.until.sub(now)
		switch {
		case wait > longest:
			err = p.g.blocked(r.gate.reason, r.gate.until)
		case wait <= 0 && now.sub(p.grant.at) > late:
			wait, err = p.replace(r, now, longest)
			return true
		}
		return false
	})
	if err == nil {
		err = broken
	}
	return wait, err
}

// replace replaces a permit that has expired because its connection took long to open, or because this process was
// suspended. It returns how long to wait for the new one. p.g.mu is held.
func (p *Permit) replace(r *record, now instant, longest time.Duration) (wait time.Duration, err error) {
	g := p.g
	if g.fleet == nil && r.window.holds(p.grant.noted) { // the request still has its place in the window
		p.move(r, now)
		p.grant.at = now
		return 0, nil
	}
	if g.fleet != nil {
		g.fleet.waiting++
		defer func() { g.fleet.waiting-- }()
	}
	got, wait, err := g.reserve(r, now, longest)
	if got == nil {
		return min(max(wait, time.Microsecond), lookAgain), err
	}
	g.tell(r, report{outcome: expired, settles: true, noted: p.grant.noted, at: now})
	p.grant = *got
	return 0, nil
}

// move counts the request as sent now. p.g.mu is held.
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

// send reports whether it changed the record: a request that is sent in time has been counted before.
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

// Unwatched records a request that was sent outside the client, at an unknown time before now.
func (p *Permit) Unwatched() {
	_ = p.g.with(func(r *record, now instant) bool {
		p.send(r, now)
		p.settle(r, now, report{outcome: dropped})
		return true
	})
}

// Answered learns from an answer's header.
func (p *Permit) Answered(resp *http.Response) {
	p.tell(func(r *record) report {
		var window time.Duration
		if r.limit.known() {
			window = r.limit.window()
		}
		return report{outcome: answered, status: resp.StatusCode, in: readHints(resp.Header, window)}
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

// settle completes a report and applies it. The first report fixes until when the request counts. p.g.mu is held.
func (p *Permit) settle(r *record, now instant, s report) {
	if p.sent == 0 && s.outcome == answered {
		p.send(r, now) // answered before the request was reported as sent
	}
	s.at, s.settles, s.noted, s.sent = now, !p.settled, p.grant.noted, p.sent
	s.counted, s.epoch, s.probe = p.grant.counted, p.epoch, p.Probe
	p.settled = true
	p.g.tell(r, s)
}

// Done releases the permit. It must be called exactly once, last.
func (p *Permit) Done() {
	if !p.settled {
		p.tell(func(*record) report { return report{outcome: dropped} })
	}
	p.g.mu.Lock()
	p.g.inFlight--
	p.g.mu.Unlock()
	p.g.poke()
}

// tell applies a report to the record. If the record is in a ledger, tell applies the report to the copy, and to the
// ledger with the next exchange. g.mu is held.
func (g *Governor) tell(r *record, s report) {
	before := r.gate
	r.apply(s)
	if s.outcome == dropped {
		g.probeUntil = 0
	}
	if g.fleet != nil {
		g.queueReport(s, r.gate.until != before.until || r.gate.probing != before.probing)
	}
}
