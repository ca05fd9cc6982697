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

// parkedError says that no request may go for longer than anybody would wait.
type parkedError struct {
	class  Class
	reason string
	until  time.Time
}

func (e *parkedError) Error() string {
	return fmt.Sprintf("%s, not before %s", e.reason, e.until.UTC().Format(time.RFC3339))
}

// gate closes for every request of a credential when the server refuses, or is
// down. When it opens, one request goes ahead, and the others follow once it
// has passed. The caller holds the governor's lock.
type gate struct {
	until   time.Time
	class   Class
	reason  string
	epoch   int  // counts closings: answers to requests from before one are no news
	probing bool // opened, and nothing has passed yet

	strikes  int // closings by 429 since a request passed
	failures int // failed requests since one passed
	outages  int // closings by failures since one passed
}

func (g *gate) parked() *parkedError {
	return &parkedError{class: g.class, reason: g.reason, until: g.until}
}

// refused closes the gate after a 429 which asked to wait for retry. It
// reports false for the late answers to requests that went out together with
// one that has closed it already.
func (g *gate) refused(epoch int, now time.Time, retry time.Duration) bool {
	if epoch != g.epoch {
		g.extend(now.Add(retry))
		return false
	}
	g.strikes++
	floor := backoff(firstGate, longestGate, g.strikes)
	wait := max(retry, floor+rand.N(floor/8+1))
	if g.strikes >= mostStrikes {
		wait = max(wait, parkedGate)
	}
	g.close(now.Add(wait), Throttled, "too many requests")
	return true
}

// failed notes a request that the server could not answer. A run of them, or a
// server that asks to wait, closes the gate.
func (g *gate) failed(epoch int, now time.Time, retry time.Duration) {
	g.failures++
	if epoch != g.epoch {
		return
	}
	if g.failures < patience && g.outages == 0 && retry == 0 {
		return
	}
	g.outages++
	wait := max(retry, jittered(backoff(firstOutage, longestGate, g.outages)))
	if g.outages >= mostOutages {
		wait = max(wait, parkedGate)
	}
	g.close(now.Add(wait), Transient, "server is failing")
}

// passed notes a request that the server took.
func (g *gate) passed(epoch int) {
	g.failures = 0
	if epoch == g.epoch {
		g.probing, g.strikes, g.outages = false, 0, 0
	}
}

func (g *gate) close(until time.Time, class Class, reason string) {
	g.epoch++
	g.probing = true
	g.class, g.reason = class, reason
	g.extend(until)
}

func (g *gate) extend(until time.Time) {
	if until.After(g.until) {
		g.until = until
	}
}
