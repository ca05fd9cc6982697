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

// ceiling is what is known about how many requests the server takes: a limit
// that was stated, that headers gave away, or that is being felt for. The
// caller holds the governor's lock.
type ceiling struct {
	rate     Rate    // known limit; zero while it is being felt for
	share    float64 // of rate that is used
	stumbled bool    // share was lowered by a refusal, and has not come back
	guessed  bool    // rate follows from refusals: try more now and then

	// While nothing is known: requests a second, doubled each second until the
	// first refusal, then kept below the rate that was refused.
	felt float64
	top  float64 // rate at the last refusal; 0 before

	largest int        // largest remaining count seen, the request itself included
	foreign [2]float64 // requests the server counts and we did not send: this window, the last
	agreed  bool       // headers were seen in this window

	windowEnds time.Time
	clean      int // windows since the last refusal
	used       int // requests sent in this window
	history    tally

	taken, takenBefore int // requests accepted since the last refusal, and before it
}

func newCeiling(r Rate) ceiling {
	if r.Limit > 0 && r.Window > 0 {
		return ceiling{rate: r, share: startShare}
	}
	return ceiling{felt: firstLearned}
}

func (c *ceiling) known() bool { return c.rate.Limit > 0 }

// allowed returns how many requests may count in a window, and its length.
func (c *ceiling) allowed() (float64, time.Duration) {
	if !c.known() {
		return math.Max(c.felt, leastLearned), time.Second
	}
	n := float64(c.rate.Limit)*c.share - math.Max(c.foreign[0], c.foreign[1])
	return math.Max(n, math.Max(1, leastShare*float64(c.rate.Limit))), c.rate.Window
}

// most returns how many requests may be in the air: half a second's worth,
// which hides latencies up to there, or a few where nothing is known.
func (c *ceiling) most() int {
	if !c.known() {
		return 16
	}
	return min(max(32, int(c.rate.perSecond()/2)), 1024)
}

// interval returns the pace: the time between two requests.
func (c *ceiling) interval() time.Duration {
	n, window := c.allowed()
	return time.Duration(float64(window) / n)
}

// sent counts a request.
func (c *ceiling) sent(now time.Time) {
	c.used++
	c.turn(now)
}

// turn closes the window if its time is over, and moves the ceiling.
func (c *ceiling) turn(now time.Time) {
	if now.Before(c.windowEnds) {
		return
	}
	n, window := c.allowed()
	full := !c.windowEnds.IsZero() && float64(c.used) >= 0.7*n
	c.clean++
	if c.known() {
		c.climb()
	} else if full {
		c.feel()
	}
	c.foreign[1], c.foreign[0] = c.foreign[0], 0
	c.used, c.agreed = 0, false
	c.windowEnds = now.Add(window)
}

// climb raises the share of a known limit: quickly back to where it starts and
// slowly to the whole, as long as the headers agree. Where there are none, a
// refusal is believed for a minute.
func (c *ceiling) climb() {
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
func (c *ceiling) feel() {
	switch {
	case c.top == 0:
		c.felt = math.Min(2*c.felt, mostLearned)
	case c.felt < startShare*c.top:
		c.felt = math.Min(c.felt+math.Max(0.05*c.top, 0.25), startShare*c.top)
	case c.clean > 60:
		c.top *= 1.05 // it was a minute ago: the plan may have changed
		c.clean = 0
	}
}

// refused lowers the ceiling after a 429 which asked to wait for retry and
// may have stated the limit.
func (c *ceiling) refused(now time.Time, retry time.Duration, stated int) {
	taken, before := c.taken, c.takenBefore
	c.clean, c.taken, c.takenBefore = 0, 0, taken
	window := standardWindow(retry)
	switch {
	case retry > 2*time.Second && !c.known() && stated > 0:
		c.learn(Rate{Limit: stated, Window: window})
	case retry > 2*time.Second && window > c.rate.Window && alike(taken, before):
		// Twice the server took as many and then asked for as long a pause: that
		// is its limit.
		c.learn(Rate{Limit: min(taken, before), Window: window})
		c.guessed = true
	case c.known():
		c.share = math.Max(leastShare, c.share/2)
		c.stumbled = true
	default:
		c.top = math.Max(leastLearned, math.Min(c.felt, float64(c.history.busiest(now))))
		c.felt = math.Max(leastLearned, 0.7*c.top)
	}
}

// alike reports whether two counts are large and near enough to mean the same.
func alike(a, b int) bool { return min(a, b) >= 10 && 5*min(a, b) >= 4*max(a, b) }

func (c *ceiling) learn(r Rate) {
	c.rate, c.share = r, startShare
	c.stumbled, c.guessed = false, false
	c.foreign = [2]float64{}
	c.windowEnds = time.Time{}
}

// observe compares what the server says is left with what was sent: counted is
// how many requests counted when this one was sent, itself included.
func (c *ceiling) observe(left, counted int, reset time.Duration, hasReset bool) {
	if left < 0 {
		return
	}
	c.agreed = true
	c.largest = max(c.largest, left+1)
	if !c.known() {
		if hasReset {
			c.learn(Rate{Limit: c.largest, Window: resetWindow(reset)})
		}
		return
	}
	missing := float64(c.rate.Limit - counted - left)
	if missing > 2+0.05*float64(c.rate.Limit) {
		c.foreign[0] = math.Max(c.foreign[0], missing)
	}
}

// resetWindow returns the window's length from the time that is left of it.
func resetWindow(left time.Duration) time.Duration {
	if left <= 2*time.Second {
		return time.Second
	}
	return standardWindow(left)
}

// accepted counts a request that was not refused.
func (c *ceiling) accepted(sent time.Time) {
	c.taken++
	c.history.add(sent)
}

// tally counts accepted requests in each of the last few seconds.
type tally struct {
	seconds [4]int
	last    int64 // the newest second in it
}

func (t *tally) add(at time.Time) {
	t.advance(at.Unix())
	if at.Unix() > t.last-int64(len(t.seconds)) {
		t.seconds[at.Unix()%int64(len(t.seconds))]++
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
func (t *tally) busiest(now time.Time) int {
	t.advance(now.Unix())
	return slices.Max(t.seconds[:])
}

// mean returns how many were accepted a second, the current one left out.
func (t *tally) mean(now time.Time) float64 {
	t.advance(now.Unix())
	n := -t.seconds[now.Unix()%int64(len(t.seconds))]
	for _, s := range t.seconds {
		n += s
	}
	return float64(n) / float64(len(t.seconds)-1)
}
