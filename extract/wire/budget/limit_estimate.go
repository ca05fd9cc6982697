package budget

import (
	"math"
	"slices"
	"time"
)

// Constants of the estimate.
const (
	startShare = 0.95 // used share of a known limit until headers confirm the limit
	leastShare = 0.1  // smallest used share of a known limit, after many refusals

	firstLearned = 10.0  // first rate in requests per second while the limit is unknown
	mostLearned  = 500.0 // highest rate that is tried
	leastLearned = 0.5

	certainAfter = 3 // the estimate is certain after this many windows without a refusal
)

// limitEstimate estimates how many requests the server accepts. It learns from a stated limit, from headers, or by
// trial. The caller holds the governor's lock.
type limitEstimate struct {
	configured    Rate    // the configured limit; headers may lower the limit, but not raise it above this
	reserve       float64 // share of the limit that is left to other programs
	rate          Rate    // known limit; zero while it is found by trial
	share         float64 // share of the known limit that is used
	stumbled      bool    // a refusal has lowered the used share, which has not recovered yet
	guessed       bool    // rate comes from refusals, so a higher rate is tried from time to time
	windowGuessed bool    // the server states the limit, but the length of the window is a guess

	// learned is the rate in requests per second while no limit is known. It doubles after each second in which it was
	// used up. After the first refusal it stays below refusedRate.
	learned     float64
	refusedRate float64 // rate at the last refusal; 0 before the first refusal

	largestRemaining int        // largest stated number of remaining requests, plus 1 for the answered request
	stated           int        // smallest limit that an answer stated in this window; 0 if none
	foreign          [2]float64 // requests of other programs that the server counted: in this window, and in the previous window
	sawHeaders       bool       // an answer in this window stated the remaining requests

	windowEnds   instant
	cleanWindows int // windows since the last refusal
	used         int // requests sent in this window
	history      tally

	taken, takenBefore int // accepted requests since the last refusal, and between the last two refusals
}

// newLimitEstimate returns the estimate for a configured limit.
func newLimitEstimate(p Plan) limitEstimate {
	c := limitEstimate{configured: p.Rate, reserve: p.Reserve, learned: firstLearned}
	if p.Rate.Limit > 0 && p.Rate.Window > 0 {
		c.rate, c.share = p.Rate, startShare
	}
	return c
}

// sameConfig reports whether both estimates have the same configuration.
func (c *limitEstimate) sameConfig(o *limitEstimate) bool {
	return c.configured == o.configured && c.reserve == o.reserve
}

// tighter reports whether c allows fewer requests per second than o. If processes configure different limits for one
// credential, the lowest limit applies.
func (c *limitEstimate) tighter(o *limitEstimate) bool {
	a, _ := c.allowed()
	b, _ := o.allowed()
	return a/c.window().Seconds() < b/o.window().Seconds()
}

func (c *limitEstimate) window() time.Duration {
	_, window := c.allowed()
	return window
}

func (c *limitEstimate) known() bool { return c.rate.Limit > 0 }

// certain reports whether no part of the limit is a guess, and the server has refused no request for some windows.
func (c *limitEstimate) certain() bool {
	return c.known() && !c.guessed && !c.windowGuessed && c.cleanWindows >= certainAfter
}

// allowed returns how many requests a window may have, and the window's length.
func (c *limitEstimate) allowed() (float64, time.Duration) {
	ours := 1 - c.reserve
	if !c.known() {
		return math.Max(c.learned*ours, leastLearned), time.Second
	}
	limit := float64(c.rate.Limit)
	// Requests of other programs use up the reserve first.
	n := math.Min(limit*c.share-math.Max(c.foreign[0], c.foreign[1]), limit*ours)
	return math.Max(n, math.Max(1, math.Min(leastShare, ours)*limit)), c.rate.Window
}

// atMost returns the stated limit. If the configured limit has the same window and is lower, it returns the
// configured limit.
func (c *limitEstimate) atMost(stated int) int {
	if c.configured.Limit > 0 && c.configured.Window == c.rate.Window {
		return min(stated, c.configured.Limit)
	}
	return stated
}

// sent counts a request.
func (c *limitEstimate) sent(now instant) {
	c.used++
	c.advance(now)
}

// advance starts a new window if the current one has ended, and adjusts the estimate.
func (c *limitEstimate) advance(now instant) {
	if now.before(c.windowEnds) {
		return
	}
	n, window := c.allowed()
	full := c.windowEnds != 0 && float64(c.used+1) >= 0.7*n // + 1, because the window may have begun just after a request
	c.cleanWindows++
	if c.known() {
		c.raiseShare()
	} else if full {
		c.raiseRate()
	}
	c.foreign[1], c.foreign[0] = c.foreign[0], 0
	if c.known() && c.stated > c.rate.Limit && !c.guessed {
		c.rate.Limit = c.atMost(c.stated)
	}
	c.used, c.sawHeaders, c.stated = 0, false, 0
	c.windowEnds = now.add(window)
}

// raiseShare raises the used share of a known limit. While headers confirm the limit, the share rises quickly to
// startShare, and then slowly to the whole limit. Without headers it rises very slowly, and not in the first minute
// after a refusal.
func (c *limitEstimate) raiseShare() {
	step := 0.005
	switch {
	case c.sawHeaders && c.share < startShare:
		step = 0.05
	case c.sawHeaders:
		step = 0.01
	case c.stumbled && time.Duration(c.cleanWindows)*c.rate.Window < time.Minute:
		return
	}
	if c.guessed && c.cleanWindows%10 == 0 {
		c.rate.Limit += max(1, c.rate.Limit/20)
	}
	c.share = math.Min(1, c.share+step)
	c.stumbled = c.stumbled && c.share < startShare
}

// raiseRate raises the rate while no limit is known.
func (c *limitEstimate) raiseRate() {
	switch {
	case c.refusedRate == 0:
		c.learned = math.Min(2*c.learned, mostLearned)
	case c.learned < startShare*c.refusedRate:
		c.learned = math.Min(c.learned+math.Max(0.05*c.refusedRate, 0.25), startShare*c.refusedRate)
	case c.cleanWindows > 60:
		c.refusedRate += math.Max(0.05*c.refusedRate, 0.5) // after a minute, the limit may have changed
	}
}

// refused lowers the estimate after a 429. The arguments retryAfter and stated come from the headers of the 429: its
// Retry-After and its limit, if any. If repeated is true, the server has accepted no request since the previous 429.
func (c *limitEstimate) refused(now instant, retryAfter time.Duration, stated Rate, repeated bool) {
	taken, before := c.taken, c.takenBefore
	c.cleanWindows, c.taken, c.takenBefore = 0, 0, taken
	window := standardWindow(retryAfter)
	switch {
	case retryAfter > 2*time.Second && (!c.known() || c.windowGuessed && window > c.rate.Window) && stated.Limit > 0:
		c.learn(Rate{Limit: stated.Limit, Window: max(window, stated.Window)})
	case retryAfter > 2*time.Second && window > c.rate.Window && similar(taken, before):
		// The server has twice accepted about the same number of requests before a 429. So this number is its limit for
		// this window.
		c.learn(Rate{Limit: min(taken, before), Window: window})
		c.guessed = true
	case c.known():
		c.share = math.Max(leastShare, c.share/2)
		c.stumbled = true
	case repeated && c.refusedRate > 0:
		// No request was accepted since the previous 429, so this 429 does not show which rate is too fast.
		c.learned = math.Max(leastLearned, c.learned/2)
	default:
		c.refusedRate = math.Max(leastLearned, math.Min(c.learned, float64(c.history.busiest(now))))
		c.learned = math.Max(leastLearned, 0.7*c.refusedRate)
	}
}

// similar reports whether two counts are both large and nearly equal.
func similar(a, b int) bool { return min(a, b) >= 10 && 5*min(a, b) >= 4*max(a, b) }

func (c *limitEstimate) learn(r Rate) {
	c.rate, c.share = r, startShare
	c.stumbled, c.guessed, c.windowGuessed = false, false, false
	c.foreign = [2]float64{}
	c.windowEnds = 0
}

// observe learns from an answer's headers. The argument `counted` is the number of requests that the window had when
// the answered request was sent, including this request. If the limit is used up, observe returns a pause.
func (c *limitEstimate) observe(header hints, counted int) (pause time.Duration) {
	c.applyStated(header)
	if header.left < 0 {
		return 0
	}
	c.sawHeaders = true
	c.largestRemaining = max(c.largestRemaining, header.left+1)
	if !c.known() && header.hasReset {
		c.learn(Rate{Limit: c.largestRemaining, Window: resetWindow(header.reset)})
		return 0
	}
	if !c.known() {
		return c.pauseIfUsedUp(header)
	}
	slack := 2 + 0.05*float64(c.rate.Limit)
	missing := float64(c.rate.Limit - counted - header.left)
	if missing > slack {
		c.foreign[0] = math.Max(c.foreign[0], missing)
		if header.hasReset && header.reset > c.rate.Window+time.Second {
			return c.pauseIfUsedUp(header) // the headers describe a longer window
		}
	}
	if c.windowGuessed && missing < -slack {
		c.tryShorterWindow()
	}
	return 0
}

// applyStated applies a stated limit. A lower limit applies at once. A higher limit applies at the end of a window, if
// all answers in the window stated a higher limit.
func (c *limitEstimate) applyStated(header hints) {
	if header.limit.Limit <= 0 {
		return
	}
	if !c.known() {
		r := header.limit
		switch {
		case r.Window > 0:
		case header.hasReset:
			r.Window = resetWindow(header.reset)
		default:
			r.Window = time.Minute // the most common window
		}
		c.learn(r)
		c.windowGuessed = header.limit.Window == 0 && !header.hasReset
		return
	}
	if header.limit.Window > 0 && header.limit.Window != c.rate.Window {
		if c.configured.Limit == 0 {
			c.learn(header.limit)
		}
		return
	}
	if c.stated == 0 || header.limit.Limit < c.stated {
		c.stated = header.limit.Limit
	}
	if header.limit.Limit < c.rate.Limit {
		c.rate.Limit = header.limit.Limit
	}
}

// pauseIfUsedUp returns how long to pause if the answer reports no remaining requests.
func (c *limitEstimate) pauseIfUsedUp(header hints) time.Duration {
	switch {
	case header.left > 0:
		return 0
	case header.hasReset:
		return max(header.reset, firstGate)
	}
	return time.Second
}

// tryShorterWindow shortens the guessed window. The server no longer counts some requests that are still in this
// window, so the guess was too long.
func (c *limitEstimate) tryShorterWindow() {
	switch {
	case c.rate.Window > 10*time.Second:
		c.rate.Window = 10 * time.Second
	default:
		c.rate.Window, c.windowGuessed = time.Second, false
	}
	c.windowEnds = 0
}

// resetWindow guesses the length of the window from the time until its reset.
func resetWindow(left time.Duration) time.Duration {
	if left <= 2*time.Second {
		return time.Second
	}
	return standardWindow(left)
}

// accepted counts a request that was not refused.
func (c *limitEstimate) accepted(sent instant) {
	c.taken++
	c.history.add(sent)
}

// tally counts the accepted requests of each of the last seconds.
type tally struct {
	seconds [4]int
	last    int64 // the newest second counted
}

func (t *tally) add(at instant) {
	t.advance(at.second())
	if at.second() > t.last-int64(len(t.seconds)) {
		t.seconds[at.second()%int64(len(t.seconds))]++
	}
}

// advance clears the seconds that are too old.
func (t *tally) advance(second int64) {
	size := int64(len(t.seconds))
	for s := max(t.last, second-size) + 1; s <= second; s++ {
		t.seconds[s%size] = 0
	}
	t.last = max(t.last, second)
}

// busiest returns the largest number of requests that were accepted in one second.
func (t *tally) busiest(now instant) int {
	t.advance(now.second())
	return slices.Max(t.seconds[:])
}

// mean returns the mean number of accepted requests per second. It leaves out the current second.
func (t *tally) mean(now instant) float64 {
	t.advance(now.second())
	n := -t.seconds[now.second()%int64(len(t.seconds))]
	for _, s := range t.seconds {
		n += s
	}
	return float64(n) / float64(len(t.seconds)-1)
}
