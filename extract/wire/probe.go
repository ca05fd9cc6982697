package wire

import "time"

// probeWait is how long others wait for the request that goes ahead: it may have
// ended with its process, or its answer may never come.
const probeWait = 5 * time.Second

// behind is how long others wait for the request that goes ahead once the gate has
// opened, and for those from before it closed. One that hangs holds nobody for longer
// than probeWait: then the next in the line goes ahead. Where a ledger gives leave to
// do so, only what this process has in the air counts here. g.mu is held.
func (g *Governor) behind(b *budgetRecord, now instant) time.Duration {
	if !b.gate.probing || g.fleet != nil && g.inFlight == 0 {
		return 0
	}
	until := b.gate.probe
	if g.fleet != nil {
		until = g.ahead // what the ledger says is about the next of all
	}
	if g.inFlight > 0 {
		until = max(until, b.gate.until.add(probeWait))
	}
	return until.sub(now)
}
