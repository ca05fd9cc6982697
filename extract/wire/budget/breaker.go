package budget

import (
	"fmt"
	"time"

	"github.com/penstock-data/penstock/state/retry"
)

const (
	firstGate   = 250 * time.Millisecond // how long the gate is closed at least after a 429 without Retry-After
	longestGate = time.Minute
	parkedGate  = 16 * time.Minute // longer than any configured wait
	mostStrikes = 10               // refusals in a row after which the gate closes for parkedGate

	patience    = 16 // fewer failures in a row do not close the gate, because one bad stream may cause them
	mostOutages = 8  // outages in a row after which the gate closes for parkedGate
)

// How long the gate stays closed, unless the answer requests a longer time.
var (
	refusalGate = retry.Policy{First: firstGate * 9 / 8, Longest: longestGate * 9 / 8, Jitter: 1.0 / 9} // jitter shortens a wait by a ninth at most, so the waits are at least 1, 2, 4 … times firstGate
	outageGate  = retry.Policy{First: 2 * time.Second, Longest: longestGate, Jitter: 0.5}
)

// BlockedError says that the next request is allowed only after a longer wait than the caller accepts.
type BlockedError struct {
	Reason  string
	Until   time.Time // when the next request is allowed
	Failing bool      // the server is failing; otherwise the limit is reached
}

// Error returns the reason and the time of the next request.
func (e *BlockedError) Error() string {
	return fmt.Sprintf("%s, not before %s", e.Reason, e.Until.UTC().Format(time.RFC3339))
}

type reason uint8

const (
	tooMany reason = iota + 1
	usedUp         // the server reported no remaining requests
	failing
)

// String returns the reason as it appears in errors and statistics.
func (r reason) String() string {
	return [...]string{"", "too many requests", "request limit used up", "server is failing"}[r%4]
}

// After the gate opens, one request goes first. The others wait for its answer for at most probeWait. The wait is
// limited, because the process that sent the first request may have died.
const probeWait = 5 * time.Second

// breaker is the gate for all requests of a credential. It closes when the server refuses requests or is down. When
// the gate opens, one request goes first. Once it has succeeded, the others follow. The caller has exclusive access
// to the budget record.
type breaker struct {
	until      instant
	reason     reason
	epoch      int64   // number of closings; an answer counts only if its request was sent after the last closing
	probing    bool    // no request has succeeded since the gate closed
	probeUntil instant // until this instant, the other requests wait for the first request

	strikes  int64 // closings because of a 429, since the last request that succeeded
	failures int64 // failed requests since the last request that succeeded
	outages  int64 // closings because of failures, since the last request that succeeded
}

// refused records a 429 and closes the gate. If the request was sent before the last closing, refused only makes the
// wait longer, and returns false.
func (g *breaker) refused(epoch int64, now instant, retry time.Duration) bool {
	if epoch != g.epoch {
		g.extend(now.add(retry), tooMany)
		return false
	}
	g.strikes++
	wait := max(retry, refusalGate.Wait(int(g.strikes)))
	if g.strikes >= mostStrikes {
		wait = max(wait, parkedGate)
	}
	g.close(now.add(wait), tooMany)
	return true
}

// failed records a request that the server could not answer. Many failures in a row, or a Retry-After, close the
// gate.
func (g *breaker) failed(epoch int64, now instant, retry time.Duration) {
	g.failures++
	if epoch != g.epoch {
		return
	}
	if g.failures < patience && g.outages == 0 && retry == 0 {
		return
	}
	g.outages++
	wait := max(retry, outageGate.Wait(int(g.outages)))
	if g.outages >= mostOutages {
		wait = max(wait, parkedGate)
	}
	g.close(now.add(wait), failing)
}

// stumbled records a 5xx answer. If the request was a probe of how a list works, the probe itself may have caused the
// error, so the gate stays open. But if the answer has a Retry-After, the server is at fault, and the failure counts.
func (g *breaker) stumbled(epoch int64, now instant, retry time.Duration, probe bool) {
	if probe && retry == 0 {
		g.probeUntil = 0
		return
	}
	g.failed(epoch, now, retry)
}

func (g *breaker) passed(epoch int64) {
	g.failures = 0
	if epoch == g.epoch {
		g.probing, g.strikes, g.outages = false, 0, 0
	}
}

func (g *breaker) close(until instant, why reason) {
	g.epoch++
	g.probing, g.probeUntil = true, 0
	g.extend(until, why)
}

// extend keeps the gate closed at least until the given instant.
func (g *breaker) extend(end instant, why reason) {
	if end > g.until {
		g.until, g.reason = end, why
	}
}
