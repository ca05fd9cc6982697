package budget

import "time"

// Stats is the state of a governor, for all processes that share its budget.
type Stats struct {
	Sent      uint64        // requests sent since the record was created
	Refused   uint64        // 429 answers
	Limit     Rate          // stated or learned; zero while unknown
	Allowed   float64       // requests a second allowed at present
	Used      float64       // share of Allowed used in the last seconds, 0 to about 1
	InFlight  int           // requests of this process in flight
	WaitsFor  string        // what the next request waits for; "" for nothing
	GateUntil time.Time     // closed until then; zero or past if open
	Guard     time.Duration // mean time that a request counts beyond its window
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
