package wire

import (
	"math"
	"slices"
	"time"
)

// How the ceiling moves.
const (
	startShare = 0.95 // of a known limit, until the headers have agreed
	leastShare = 0.1  // of a known limit, however often the server refuses

	firstLearned = 10.0  // requests a second where nothing is known
	mostLearned  = 500.0 // that silence alone can lead to
	leastLearned = 0.5
)

// limitEstimate is what is known about how many requests the server takes: a limit
// that was stated, that headers gave away, or that is being felt for. The
// caller holds the governor's lock.
type limitEstimate struct {
	asked    Rate    // the limit as configured: stated ones can be lower, not higher
	reserve  float64 // share of the limit that is left to others
	rate     Rate    // known limit; zero while it is being felt for
	share    float64 // of rate that is used
	stumbled bool    // share was lowered by a refusal, and has not come back
	guessed  bool    // rate follows from refusals: try more now and then
	unsure   bool    // the limit is stated, and the window is a guess

	// While nothing is known: requests a second, doubled each second until the
	// first refusal, then kept below the rate that was refused.
	felt float64
	top  float64 // rate at the last refusal; 0 before

	largest int        // largest remaining count seen, the request itself included
	stated  int        // smallest limit that answers have stated in this window; 0 none
	foreign [2]float64 // requests the server counts and we did not send: this window, the last
	agreed  bool       // headers were seen in this window

	windowEnds instant
	clean      int // windows since the last refusal
	used       int // requests sent in this window
	history    tally

	taken, takenBefore int // requests accepted since the last refusal, and before it
}

// newCeiling returns the ceiling for a limit as configured, zero for none, of
// which a share is left to others.
func newCeiling(r Rate, reserve float64) limitEstimate {
	c := limitEstimate{asked: r, reserve: reserve, felt: firstLearned}
	if r.Limit > 0 && r.Window > 0 {
		c.rate, c.share = r, startShare
	}
	return c
}

// tighter reports whether c, as configured, allows less than o: where two
// processes were told different limits for one credential, the lower holds.
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

// allowed returns how many requests may count in a window, and its length.
func (c *limitEstimate) allowed() (float64, time.Duration) {
	ours := 1 - c.reserve
	if !c.known() {
		return math.Max(c.felt*ours, leastLearned), time.Second
	}
	limit := float64(c.rate.Limit)
	// What others use they take out of the reserve first.
	n := math.Min(limit*c.share-math.Max(c.foreign[0], c.foreign[1]), limit*ours)
	return math.Max(n, math.Max(1, math.Min(leastShare, ours)*limit)), c.rate.Window
}

// atMost is the limit to go by where so much is stated.
func (c *limitEstimate) atMost(stated int) int {
	if c.asked.Limit > 0 && c.asked.Window == c.rate.Window {
		return min(stated, c.asked.Limit)
	}
	return stated
}

// most returns how many requests may be in the air: half a second's worth,
// which hides latencies up to there, or a few where nothing is known.
func (c *limitEstimate) most() int {
	if !c.known() {
		return 16
	}
	return min(max(32, int(c.rate.perSecond()/2)), 1024)
}

// interval returns the pace: the time between two requests.
func (c *limitEstimate) interval() time.Duration {
	n, window := c.allowed()
	return time.Duration(float64(window) / n)
}

// sent counts a request.
func (c *limitEstimate) sent(now instant) {
	c.used++
	c.turn(now)
}

// turn closes the window if its time is over, and moves the ceiling.
func (c *limitEstimate) turn(now instant) {
	if now.before(c.windowEnds) {
		return
	}
	n, window := c.allowed()
	full := c.windowEnds != 0 && float64(c.used+1) >= 0.7*n // the window may have begun just after one
	c.clean++
	if c.known() {
		c.climb()
	} else if full {
		c.feel()
	}
	c.foreign[1], c.foreign[0] = c.foreign[0], 0
	if c.known() && c.stated > c.rate.Limit && !c.guessed {
		c.rate.Limit = c.atMost(c.stated)
	}
	c.used, c.agreed, c.stated = 0, false, 0
	c.windowEnds = now.add(window)
}

// climb raises the share of a known limit: quickly back to where it starts and
// slowly to the whole, as long as the headers agree. Where there are none, a
// refusal is believed for a minute.
func (c *limitEstimate) climb() {
	step := 0.005
	switch {
	case c.agreed && c.share < startShare:
		step = 0.05
	case c.agreed:
		step = 0.01
	case c.stumbled && time.Duration(c.clean)*c.rate.Window < time.Minute:
		return
	}
	if c.guessed && c.clean%10 == 0 {
		c.rate.Limit += max(1, c.rate.Limit/20)
	}
	c.share = math.Min(1, c.share+step)
	c.stumbled = c.stumbled && c.share < startShare
}

// feel raises the rate where no limit is stated.
func (c *limitEstimate) feel() {
	switch {
	case c.top == 0:
		c.felt = math.Min(2*c.felt, mostLearned)
	case c.felt < startShare*c.top:
		c.felt = math.Min(c.felt+math.Max(0.05*c.top, 0.25), startShare*c.top)
	case c.clean > 60:
		c.top += math.Max(0.05*c.top, 0.5) // that was a minute ago: the plan may have changed, or it was never about our rate
	}
}

// refused lowers the ceiling after a 429 which asked to wait for retry and
// may have stated the limit. again says that no request has passed since the one
// before.
func (c *limitEstimate) refused(now instant, retry time.Duration, stated Rate, again bool) {
	taken, before := c.taken, c.takenBefore
	c.clean, c.taken, c.takenBefore = 0, 0, taken
	window := standardWindow(retry)
	switch {
	case retry > 2*time.Second && (!c.known() || c.unsure && window > c.rate.Window) && stated.Limit > 0:
		c.learn(Rate{Limit: stated.Limit, Window: max(window, stated.Window)})
	case retry > 2*time.Second && window > c.rate.Window && alike(taken, before):
		// Twice the server took as many and then asked for as long a pause: that
		// is its limit.
		c.learn(Rate{Limit: min(taken, before), Window: window})
		c.guessed = true
	case c.known():
		c.share = math.Max(leastShare, c.share/2)
		c.stumbled = true
	case again && c.top > 0:
		// Nothing went out in between, so this says nothing of how fast is too fast.
		c.felt = math.Max(leastLearned, c.felt/2)
	default:
		c.top = math.Max(leastLearned, math.Min(c.felt, float64(c.history.busiest(now))))
		c.felt = math.Max(leastLearned, 0.7*c.top)
	}
}

// alike reports whether two counts are large and near enough to mean the same.
func alike(a, b int) bool { return min(a, b) >= 10 && 5*min(a, b) >= 4*max(a, b) }

func (c *limitEstimate) learn(r Rate) {
	c.rate, c.share = r, startShare
	c.stumbled, c.guessed, c.unsure = false, false, false
	c.foreign = [2]float64{}
	c.windowEnds = 0
}

// observe learns from what an answer states: counted is how many requests counted
// when its own was sent, that one included. It returns for how long no request
// should go because none is left, and others have had them.
func (c *limitEstimate) observe(in hints, counted int) (pause time.Duration) {
	c.heed(in)
	if in.left < 0 {
		return 0
	}
	c.agreed = true
	c.largest = max(c.largest, in.left+1)
	if !c.known() && in.hasReset {
		c.learn(Rate{Limit: c.largest, Window: resetWindow(in.reset)})
		return 0
	}
	if !c.known() {
		return c.none(in)
	}
	slack := 2 + 0.05*float64(c.rate.Limit)
	missing := float64(c.rate.Limit - counted - in.left)
	if missing > slack {
		c.foreign[0] = math.Max(c.foreign[0], missing)
		if in.hasReset && in.reset > c.rate.Window+time.Second {
			return c.none(in) // of another, longer window
		}
	}
	if c.unsure && missing < -slack {
		c.shorten()
	}
	return 0
}

// heed takes a limit that an answer states: a lower one at once, a higher one
// when nothing but that was heard for a window.
func (c *limitEstimate) heed(in hints) {
	if in.limit.Limit <= 0 {
		return
	}
	if !c.known() {
		r := in.limit
		switch {
		case r.Window > 0:
		case in.hasReset:
			r.Window = resetWindow(in.reset)
		default:
			r.Window = time.Minute // the usual one, and no shorter than most
		}
		c.learn(r)
		c.unsure = in.limit.Window == 0 && !in.hasReset
		return
	}
	if in.limit.Window > 0 && in.limit.Window != c.rate.Window {
		if c.asked.Limit == 0 {
			c.learn(in.limit)
		}
		return
	}
	if c.stated == 0 || in.limit.Limit < c.stated {
		c.stated = in.limit.Limit
	}
	if in.limit.Limit < c.rate.Limit {
		c.rate.Limit = in.limit.Limit
	}
}

// none is the pause after the last request there was room for.
func (c *limitEstimate) none(in hints) time.Duration {
	switch {
	case in.left > 0:
		return 0
	case in.hasReset:
		return max(in.reset, firstGate)
	}
	return time.Second
}

// shorten tries a shorter window: the server has forgotten requests that would
// count in the one that was taken for the usual.
func (c *limitEstimate) shorten() {
	switch {
	case c.rate.Window > 10*time.Second:
		c.rate.Window = 10 * time.Second
	default:
		c.rate.Window, c.unsure = time.Second, false
	}
	c.windowEnds = 0
}

// resetWindow returns the window's length from the time that is left of it.
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

// tally counts accepted requests in each of the last few seconds.
type tally struct {
	seconds [4]int
	last    int64 // the newest second in it
}

func (t *tally) add(at instant) {
	t.advance(at.second())
	if at.second() > t.last-int64(len(t.seconds)) {
		t.seconds[at.second()%int64(len(t.seconds))]++
	}
}

// advance forgets what is too long ago.
func (t *tally) advance(second int64) {
	size := int64(len(t.seconds))
	for s := max(t.last, second-size) + 1; s <= second; s++ {
		t.seconds[s%size] = 0
	}
	t.last = max(t.last, second)
}

// busiest returns the most that were accepted in one second.
func (t *tally) busiest(now instant) int {
	t.advance(now.second())
	return slices.Max(t.seconds[:])
}

// mean returns how many were accepted a second, the current one left out.
func (t *tally) mean(now instant) float64 {
	t.advance(now.second())
	n := -t.seconds[now.second()%int64(len(t.seconds))]
	for _, s := range t.seconds {
		n += s
	}
	return float64(n) / float64(len(t.seconds)-1)
}
