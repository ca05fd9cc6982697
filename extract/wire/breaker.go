package wire

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// How the gate closes.
const (
	firstGate   = 250 * time.Millisecond // after a 429 that says nothing
	longestGate = time.Minute
	parkedGate  = 16 * time.Minute // beyond what anybody sleeps through
	mostStrikes = 10               // refusals in a row until it parks

	patience    = 16 // failures in a row that count as one stream's bad luck
	firstOutage = 2 * time.Second
	mostOutages = 8 // closings in a row until it parks
)

// blockedError says that no request may go for longer than anybody would wait.
type blockedError struct {
	class  Class
	reason string
	until  time.Time
}

// Error says until when, and why.
func (e *blockedError) Error() string {
	return fmt.Sprintf("%s, not before %s", e.reason, e.until.UTC().Format(time.RFC3339))
}

// reason is why the gate is closed.
type reason uint8

const (
	tooMany reason = iota + 1 // 429
	usedUp                    // answered, as the last that there was room for
	failing
)

// String is the reason in words.
func (r reason) String() string {
	return [...]string{"", "too many requests", "request limit used up", "server is failing"}[r%4]
}

func (r reason) class() Class {
	if r == failing {
		return Transient
	}
	return Throttled
}

// breaker closes for every request of a credential when the server refuses, or is
// down. When it opens, one request goes ahead, and the others follow once it
// has passed. The caller holds the budget record.
type breaker struct {
	until   instant
	reason  reason
	epoch   int64   // counts closings: answers to requests from before one are no news
	probing bool    // opened, and nothing has passed yet
	probe   instant // until then, the request that goes ahead is waited for

	strikes  int64 // closings by 429 since a request passed
	failures int64 // failed requests since one passed
	outages  int64 // closings by failures since one passed
}

// refused closes the gate after a 429 which asked to wait for retry. It
// reports false for the late answers to requests that went out together with
// one that has closed it already.
func (g *breaker) refused(epoch int64, now instant, retry time.Duration) bool {
	if epoch != g.epoch {
		g.extend(now.add(retry), tooMany)
		return false
	}
	g.strikes++
	floor := backoff(firstGate, longestGate, int(g.strikes))
	wait := max(retry, floor+rand.N(floor/8+1))
	if g.strikes >= mostStrikes {
		wait = max(wait, parkedGate)
	}
	g.close(now.add(wait), tooMany)
	return true
}

// failed notes a request that the server could not answer. A run of them, or a
// server that asks to wait, closes the gate.
func (g *breaker) failed(epoch int64, now instant, retry time.Duration) {
	g.failures++
	if epoch != g.epoch {
		return
	}
	if g.failures < patience && g.outages == 0 && retry == 0 {
		return
	}
	g.outages++
	wait := max(retry, jittered(backoff(firstOutage, longestGate, int(g.outages))))
	if g.outages >= mostOutages {
		wait = max(wait, parkedGate)
	}
	g.close(now.add(wait), failing)
}

// stumbled notes an answer 5xx. One to a probe speaks of what the probe asked for,
// not of the server, unless it asks to wait: the gate stays as it is, and the next
// request may go ahead.
func (g *breaker) stumbled(epoch int64, now instant, retry time.Duration, probe bool) {
	if probe && retry == 0 {
		g.probe = 0
		return
	}
	g.failed(epoch, now, retry)
}

// passed notes a request that the server took.
func (g *breaker) passed(epoch int64) {
	g.failures = 0
	if epoch == g.epoch {
		g.probing, g.strikes, g.outages = false, 0, 0
	}
}

func (g *breaker) close(until instant, why reason) {
	g.epoch++
	g.probing, g.probe = true, 0
	g.extend(until, why)
}

// extend keeps the gate closed until then, if it is not for longer.
func (g *breaker) extend(until instant, why reason) {
	if until > g.until {
		g.until, g.reason = until, why
	}
}
