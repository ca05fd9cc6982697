package wire

import "time"

// probeWait is how long other requests wait for the first one after the gate opens. The process of the first request
// may have died, or the answer may never come.
const probeWait = 5 * time.Second

// probeDelay returns how long a request must still wait after the gate has opened: until the first request and the
// requests from before the gate closed are answered, but at most probeWait. If a ledger grants slots, requests wait
// only for requests of this process. g.mu is held.
func (g *Governor) probeDelay(b *budgetRecord, now instant) time.Duration {
	if !b.gate.probing || g.fleet != nil && g.inFlight == 0 {
		return 0
	}
	until := b.gate.probeUntil
	if g.fleet != nil {
		until = g.probeUntil // the record's time, from the ledger, is for the next request of any process
	}
	if g.inFlight > 0 {
		until = max(until, b.gate.until.add(probeWait))
	}
	return until.sub(now)
}
