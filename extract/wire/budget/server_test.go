package budget

import (
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type counter interface {
	// take reports whether the request is accepted, how many requests remain, and when the count resets.
	take(now time.Time) (ok bool, left int, reset time.Time)
}

// fixedWindow counts requests in windows that begin at fixed times of its own clock.
type fixedWindow struct {
	limit  int
	window time.Duration
	phase  time.Duration
	start  time.Time
	n      int
}

func (f *fixedWindow) take(now time.Time) (bool, int, time.Time) {
	start := now.Add(-f.phase).Truncate(f.window).Add(f.phase)
	if !start.Equal(f.start) {
		f.start, f.n = start, 0
	}
	reset := start.Add(f.window)
	if f.n >= f.limit {
		return false, 0, reset
	}
	f.n++
	return true, f.limit - f.n, reset
}

// firstRequest counts requests in windows, like Laravel's limiter. A window begins with the first request after the
// previous window.
type firstRequest struct {
	limit  int
	window time.Duration
	until  time.Time
	n      int
}

func (f *firstRequest) take(now time.Time) (bool, int, time.Time) {
	if !now.Before(f.until) {
		f.until, f.n = now.Add(f.window), 0
	}
	if f.n >= f.limit {
		return false, 0, f.until
	}
	f.n++
	return true, f.limit - f.n, f.until
}

type slidingWindow struct {
	limit  int
	window time.Duration
	seen   []time.Time
}

func (s *slidingWindow) take(now time.Time) (bool, int, time.Time) {
	from := now.Add(-s.window)
	for len(s.seen) > 0 && !s.seen[0].After(from) {
		s.seen = s.seen[1:]
	}
	reset := now.Add(s.window)
	if len(s.seen) > 0 {
		reset = s.seen[max(0, len(s.seen)-s.limit)].Add(s.window)
	}
	if len(s.seen) >= s.limit {
		return false, 0, reset
	}
	s.seen = append(s.seen, now)
	return true, s.limit - len(s.seen), reset
}

// tokenBucket holds up to t.limit tokens. An empty bucket is full again after a window.
type tokenBucket struct {
	limit  int
	window time.Duration
	tokens float64
	at     time.Time
}

func (t *tokenBucket) take(now time.Time) (bool, int, time.Time) {
	perSecond := float64(t.limit) / t.window.Seconds()
	if t.at.IsZero() {
		t.tokens = float64(t.limit)
	} else {
		t.tokens = math.Min(float64(t.limit), t.tokens+now.Sub(t.at).Seconds()*perSecond)
	}
	t.at = now
	if t.tokens < 1 {
		return false, 0, now.Add(time.Duration((1 - t.tokens) / perSecond * float64(time.Second)))
	}
	t.tokens--
	return true, int(t.tokens), now.Add(t.window)
}

type link struct {
	counter counter
	latency time.Duration // time of a round trip
	jitter  time.Duration // random delay on the way to the server, uniform
	work    time.Duration // random delay in the server, uniform
	headers bool          // every answer has X-RateLimit headers
	retry   string        // Retry-After of a 429: "", "reset" or a literal value

	mu       sync.Mutex
	sends    []time.Time
	Arrivals []time.Time
	Refused  []time.Time
	gates    []span // periods in which the client must not send
}

type span struct{ from, to time.Time }

func (l *link) ask(t *testing.T, g *Governor) error {
	s, err := g.Take(t.Context(), 15*time.Minute)
	if err != nil {
		return err
	}
	defer s.Done()
	s.Sent()
	sent := time.Now()
	time.Sleep(l.latency/2 + rand.N(l.jitter+1))
	resp := l.Arrive()
	time.Sleep(l.latency/2 + rand.N(l.work+1))
	s.Answered(resp)
	l.note(sent, resp)
	return nil
}

func (l *link) note(sent time.Time, resp *http.Response) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sends = append(l.sends, sent)
	if d, ok := retryAfter(resp.Header, clockOf(resp.Header)); ok {
		at := time.Now()
		l.gates = append(l.gates, span{at, at.Add(d)})
	}
}

func (l *link) inGates() int {
	n := 0
	for _, g := range l.gates {
		n += between(l.sends, g.from.Add(1), g.to)
	}
	return n
}

func (l *link) Arrive() *http.Response {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.Arrivals = append(l.Arrivals, now)
	ok, left, reset := l.counter.take(now)
	h := http.Header{"Date": {now.UTC().Format(http.TimeFormat)}}
	if l.headers {
		h.Set("X-RateLimit-Remaining", strconv.Itoa(left))
		h.Set("X-RateLimit-Reset", strconv.FormatInt(int64(math.Ceil(float64(reset.UnixNano())/1e9)), 10))
	}
	if ok {
		return &http.Response{StatusCode: http.StatusOK, Header: h}
	}
	l.Refused = append(l.Refused, now)
	switch l.retry {
	case "":
	case "reset":
		wait := math.Ceil(reset.Sub(now).Seconds())
		h.Set("Retry-After", strconv.Itoa(int(wait)))
	default:
		h.Set("Retry-After", l.retry)
	}
	return &http.Response{StatusCode: http.StatusTooManyRequests, Header: h}
}

func (l *link) busy(t *testing.T, g *Governor, workers int, d time.Duration) {
	end := time.Now().Add(d)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for time.Now().Before(end) {
				if l.ask(t, g) != nil {
					return
				}
			}
		})
	}
	wg.Wait()
}

func maxInWindow(arrivals []time.Time, window time.Duration) int {
	slices.SortFunc(arrivals, time.Time.Compare)
	most, from := 0, 0
	for i, at := range arrivals {
		for at.Sub(arrivals[from]) >= window {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

func between(arrivals []time.Time, from, to time.Time) int {
	n := 0
	for _, at := range arrivals {
		if !at.Before(from) && at.Before(to) {
			n++
		}
	}
	return n
}

// bubble runs f in virtual time. Virtual time begins in the year 2000, and Unix times of that year are not recognized
// in headers. So bubble first waits until 2026.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 21, 10, 0, 0, 123456789, time.UTC)))
		f(t)
	})
}
