package sandbox

import (
	"fmt"
	"time"
)

// Rate is a number of requests per window. Zero requests mean no limit.
type Rate struct {
	Requests int           `json:"requests"`
	Window   time.Duration `json:"window"`
}

// Counting is how a server counts requests against its limit.
type Counting string

// The ways of counting. The zero value is Sliding.
const (
	Sliding Counting = "sliding" // each request is checked against the requests in the window before it
	Fixed   Counting = "fixed"   // requests are counted in fixed windows of the server's clock
	Bucket  Counting = "bucket"  // each request takes a token; tokens are refilled at the rate of the limit
)

type meter interface {
	// take reports whether a request at the time now is accepted. It also returns how many further requests would be
	// accepted at that time, and how long it takes until one more would be accepted.
	take(now time.Duration, r Rate) (ok bool, left int, reset time.Duration)
}

func (c Counting) meter() meter {
	switch c {
	case Fixed:
		return &fixed{}
	case Bucket:
		return &bucket{}
	}
	return &window{}
}

func (c Counting) valid() error {
	switch c {
	case "", Sliding, Fixed, Bucket:
		return nil
	}
	return fmt.Errorf("unknown counting method %q: want sliding, fixed or bucket", c)
}

// window accepts a request if fewer requests than the limit were accepted in the time window before it. It stores the
// times of the newest requests, measured from the start of the server.
type window struct {
	moments []time.Duration // a ring buffer
	oldest  int
	count   int
}

func (w *window) take(now time.Duration, r Rate) (bool, int, time.Duration) {
	if len(w.moments) != r.Requests {
		w.resize(r.Requests)
	}
	for w.count > 0 && now-w.moments[w.oldest] >= r.Window {
		w.oldest = (w.oldest + 1) % len(w.moments)
		w.count--
	}
	ok := w.count < len(w.moments)
	if ok {
		w.moments[(w.oldest+w.count)%len(w.moments)] = now
		w.count++
	}
	return ok, len(w.moments) - w.count, w.moments[w.oldest] + r.Window - now
}

func (w *window) resize(size int) {
	moments := make([]time.Duration, size)
	kept := min(w.count, size)
	for i := range kept {
		moments[i] = w.moments[(w.oldest+w.count-kept+i)%len(w.moments)]
	}
	*w = window{moments: moments, count: kept}
}

type fixed struct {
	window int64
	count  int
}

func (f *fixed) take(now time.Duration, r Rate) (bool, int, time.Duration) {
	if n := int64(now / r.Window); n != f.window {
		f.window, f.count = n, 0
	}
	ok := f.count < r.Requests
	if ok {
		f.count++
	}
	return ok, max(r.Requests-f.count, 0), time.Duration(f.window+1)*r.Window - now
}

// bucket has as many tokens as the limit allows requests. Each request takes one token. Tokens are refilled evenly.
type bucket struct {
	used float64
	at   time.Duration
}

func (b *bucket) take(now time.Duration, r Rate) (bool, int, time.Duration) {
	each := r.Window / time.Duration(r.Requests)
	b.used = max(0, b.used-float64(now-b.at)/float64(each))
	b.at = now
	ok := b.used+1 <= float64(r.Requests)
	if ok {
		b.used++
	}
	left := float64(r.Requests) - b.used
	if left >= 1 {
		return ok, int(left), r.Window
	}
	return ok, 0, time.Duration((1 - left) * float64(each))
}
