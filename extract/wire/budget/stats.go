package budget

import "time"

// Stats is the state of a governor. The counts are those of all processes that share its budget, except InFlight.
type Stats struct {
	Sent      uint64        // requests sent since the record was created
	Refused   uint64        // 429 answers
	Limit     Rate          // stated or learned; zero while unknown
	Allowed   float64       // requests a second allowed at present
	Used      float64       // used share of Allowed in the last seconds, from 0 to about 1
	InFlight  int           // requests of this process in flight
	WaitsFor  string        // what the next request waits for; "" if it does not wait
	GateUntil time.Time     // the gate is closed until this time; zero or in the past: the gate is open
	Guard     time.Duration // mean time for which a request counts beyond its window
}

// Stats returns a snapshot, for progress and metrics.
func (g *Governor) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.record
	n, window := b.limit.allowed()
	s := Stats{
		Sent: b.sent, Refused: b.refused, Limit: b.limit.rate,
		Allowed: n / window.Seconds(), InFlight: g.inFlight,
		WaitsFor: g.waiting, GateUntil: g.time(b.gate.until), Guard: b.window.guard,
	}
	s.Used = b.limit.history.mean(g.now()) / s.Allowed
	return s
}
