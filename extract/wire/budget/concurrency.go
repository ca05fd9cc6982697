package budget

import (
	"slices"
	"time"
)

// How the bound changes: see concurrency.
const (
	leastConcurrency = 32   // the bound is at least this, because some requests may hang until their timeout
	mostConcurrency  = 1024 // each request in flight has a connection of its own
	spare            = 8    // added to the number of requests that the rate and the latency require

	headroom = 1.25        // how much longer than p95 an answer may take without slowing down other requests
	gain     = 1.1         // a higher bound must raise the answers per second by this factor
	slowness = 1.5         // if answers take this much longer than before, a lower bound is tried
	mostHold = time.Minute // after changes that did not help, the next change is tried after this time at the latest
)

// concurrency decides how many requests of this process may be under way at once. By Little's law, a rate of r
// requests per second keeps r*l requests in flight if answers take l seconds.
//
// A busy server answers later, and then the law would keep raising the number. So there is also a bound. If the bound
// holds requests back, it is doubled. If answers take longer than before, it is halved. After each change, a round
// measures some answers with the new bound. If the answers per second have not risen after a doubling, or have fallen
// after a halving, the earlier bound is restored.
type concurrency struct {
	took  [128]time.Duration // how long each of the newest answered requests took
	count int                // answered requests
	p95   time.Duration
	base  time.Duration // shortest mean time of answers

	bound  int
	before int     // the bound before its last change, while a round tests this change; otherwise 0
	rate   float64 // answers per second with the bound before the last change
	hold   time.Duration
	retry  instant // when the next change may be tried

	now     int           // the newest result of most()
	size    int           // the result of most() when this round began
	answers int           // answers in this round
	full    int           // answers in this round that arrived while about `size` requests were in flight
	sum     time.Duration // total time of the answered requests that were certainly sent in this round
}

// most returns how many requests may be under way at the given rate, in requests per second. The delay is the time from
// a permit's reservation until its use.
func (c *concurrency) most(rate float64, delay time.Duration) int {
	if c.bound == 0 {
		c.bound = min(max(leastConcurrency, int(rate/4)), mostConcurrency)
	}
	needed := headroom*rate*(c.p95+delay).Seconds() + spare
	if c.count == 0 {
		needed = leastConcurrency / 2
	}
	c.now = int(min(needed, float64(c.bound)))
	return c.now
}

// answered records how long a request was under way. When it ended, n requests were in flight.
func (c *concurrency) answered(now instant, took time.Duration, n int) {
	c.took[c.count%len(c.took)] = took
	c.count++
	if have := min(c.count, len(c.took)); have <= leastConcurrency || c.count%leastConcurrency == 0 {
		sorted := slices.Sorted(slices.Values(c.took[:have]))
		c.p95 = sorted[have*95/100]
	}
	if c.base == 0 {
		c.base = took
	}
	if c.answers++; c.answers == 1 || n > c.size+c.size/8 { // if more than size are in flight, some of the requests were sent in the previous round
		c.answers, c.size, c.full, c.sum = 1, max(c.now, leastConcurrency), 0, 0
	}
	if n < c.size-c.size/8 {
		if c.answers >= 4*c.size { // the pace or the callers keep fewer requests in flight than the bound allows
			c.answers, c.before = 0, 0
		}
		return
	}
	older := c.size + c.size/4 // at most this many of the answered requests were sent before this round
	if c.full++; c.full > older {
		c.sum += took
	}
	if c.full == older+c.size {
		c.endRound(now)
		c.answers = 0
	}
}

// endRound decides whether the last change of the bound helped, and changes the bound again.
func (c *concurrency) endRound(now instant) {
	mean := max(c.sum/time.Duration(c.size), 1)
	rate := float64(c.size) / mean.Seconds() // Little's law
	before := c.before
	c.before = 0
	switch {
	case before > 0 && before < c.bound && rate < gain*c.rate, before > c.bound && rate*gain < c.rate:
		if before > c.bound {
			c.base = mean // the lower bound did not help, so the server is not busy, and this is the usual time of its answers
		}
		c.bound = before
		c.hold = min(max(2*c.hold, time.Second), mostHold)
		c.retry = now.add(c.hold)
		return
	case !now.before(c.retry):
		if before > 0 {
			c.hold = 0
		}
		c.change(mean, rate)
	}
	c.base = min(c.base, mean)
}

func (c *concurrency) change(mean time.Duration, rate float64) {
	bound := min(2*c.bound, mostConcurrency)
	if mean.Seconds() > slowness*c.base.Seconds() {
		bound = max(c.size/2, leastConcurrency)
	}
	if bound != c.bound {
		c.before, c.rate, c.bound = c.bound, rate, bound
	}
}
