package budget

import (
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	firstGate   = 250 * time.Millisecond // after a 429 without Retry-After
	longestGate = time.Minute
	parkedGate  = 16 * time.Minute // longer than any configured wait
	mostStrikes = 10               // refusals in a row after which the gate closes for parkedGate

	patience    = 16 // fewer failures in a row do not close the gate: one stream may have caused them all
	firstOutage = 2 * time.Second
	mostOutages = 8 // outages in a row after which the gate closes for parkedGate
)

// BlockedError says that the next request is allowed only after a longer wait than the caller accepts.
type BlockedError struct {
	Reason  string
	Until   time.Time // of the next request
	Failing bool      // the server is failing; otherwise it asks to slow down
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

// String returns the reason as errors and statistics show it.
func (r reason) String() string {
	return [...]string{"", "too many requests", "request limit used up", "server is failing"}[r%4]
}

// probeWait is how long other requests wait for the first one after the gate opens. It is limited because the
// process of the first request may have died, or the answer may never come.
const probeWait = 5 * time.Second

// breaker is the gate for all requests of a credential. It closes when the server refuses requests or is down. When
// it opens, one request goes first, and the others follow once it has succeeded. The caller has exclusive access to
// the budget record.
type breaker struct {
	until      instant
	reason     reason
	epoch      int64   // number of closings: answers to requests from an earlier epoch are ignored
	probing    bool    // open again, but no request has succeeded yet
	probeUntil instant // until when the other requests wait for the first one

	strikes  int64 // 429 closings since a request succeeded
	failures int64 // failed requests since one succeeded
	outages  int64 // failure closings since a request succeeded
}

// refused returns false for a late answer, whose request was in flight when the gate closed. Such an answer can only
// make the wait longer.
func (g *breaker) refused(epoch int64, now instant, retry time.Duration) bool {
	if epoch != g.epoch {
		g.extend(now.add(retry), tooMany)
		return false
	}
	g.strikes++
	floor := doubled(firstGate, g.strikes)
	wait := max(retry, floor+rand.N(floor/8+1))
	if g.strikes >= mostStrikes {
		wait = max(wait, parkedGate)
	}
	g.close(now.add(wait), tooMany)
	return true
}

// failed records a request that the server could not answer. Many in a row, or a Retry-After, close the gate.
func (g *breaker) failed(epoch int64, now instant, retry time.Duration) {
	g.failures++
	if epoch != g.epoch {
		return
	}
	if g.failures < patience && g.outages == 0 && retry == 0 {
		return
	}
	g.outages++
	longest := doubled(firstOutage, g.outages)
	wait := max(retry, longest/2+rand.N(longest/2+1))
	if g.outages >= mostOutages {
		wait = max(wait, parkedGate)
	}
	g.close(now.add(wait), failing)
}

// doubled returns first, doubled for each closing in a row but the first.
func doubled(first time.Duration, closings int64) time.Duration {
	return min(longestGate, first<<min(closings-1, 20))
}

// stumbled records a 5xx answer. If the request was a probe and the answer has no Retry-After, the probe caused the
// error, so the gate stays as it is.
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
func (g *breaker) extend(until instant, why reason) {
	if until > g.until {
		g.until, g.reason = until, why
	}
}
