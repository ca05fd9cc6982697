package wire

import "time"

// probeWait is how long other requests wait for the first one after the gate opens: its process may have died,
// or its answer may never come.
const probeWait = 5 * time.Second

// probeDelay returns how long a request waits for the first one after the gate has opened, and for those sent
// before it closed. After probeWait the next request goes first. If a ledger grants slots, only this process's
// requests in flight count. g.mu is held.
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
