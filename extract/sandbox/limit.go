package sandbox

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"
)

func planRate(plan string) (Rate, error) {
	switch plan {
	case "", "free", "pro":
		return Rate{100, time.Second}, nil
	case "business":
		return Rate{500, time.Second}, nil
	case "agency":
		return Rate{2000, time.Second}, nil
	}
	return Rate{}, fmt.Errorf("unknown plan %q: want free, pro, business or agency", plan)
}

// ResetUnit is the unit of X-RateLimit-Reset.
type ResetUnit string

// The units that real servers use. The zero value is ResetDelta.
const (
	ResetDelta   ResetUnit = "delta"    // seconds from now
	ResetEpoch   ResetUnit = "epoch"    // Unix seconds
	ResetEpochMs ResetUnit = "epoch_ms" // Unix milliseconds
)

type limiter struct {
	mu    sync.Mutex
	log   map[string]meter // meters by credential or user
	count Counting
	rate  Rate
}

type verdict struct {
	ok        bool
	limit     int
	remaining int
	reset     time.Duration
}

func newLimiter(rate Rate, count Counting) *limiter {
	return &limiter{log: map[string]meter{}, rate: rate, count: count}
}

func (l *limiter) set(rate Rate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rate = rate
}

func (l *limiter) limit() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rate.Requests
}

func (l *limiter) take(who string, now time.Duration) verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rate.Requests <= 0 {
		return verdict{ok: true, limit: math.MaxInt32, remaining: math.MaxInt32}
	}
	if l.log[who] == nil {
		l.log[who] = l.count.meter()
	}
	v := verdict{limit: l.rate.Requests}
	v.ok, v.remaining, v.reset = l.log[who].take(now, l.rate)
	return v
}

func resetHeader(unit ResetUnit, now time.Time, in time.Duration) string {
	switch unit {
	case ResetEpoch:
		return strconv.FormatInt(int64(math.Ceil(float64(now.Add(in).UnixNano())/1e9)), 10)
	case ResetEpochMs:
		return strconv.FormatInt(now.Add(in+time.Millisecond).UnixMilli(), 10)
	}
	return strconv.Itoa(seconds(in))
}

func (s *Server) now() time.Time { return time.Now().Add(s.options.Skew) }

func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

func (s *Server) announce(h http.Header, c credential) {
	if c.surface == "v2" && !s.options.NoLimits {
		h.Set("X-RateLimit-Remaining", strconv.Itoa(s.v2Limit.limit()))
		h.Set("X-RateLimit-Reset", resetHeader(s.options.Reset, s.now(), time.Second))
	}
}

// throttle returns nil if the limit allows the request. The versioned surface sends limit headers with every answer.
// The application surface sends them only with a 429.
func (s *Server) throttle(h http.Header, c credential) *reply {
	now := time.Since(s.start)
	if c.surface == "v2" {
		v := s.v2Limit.take(c.user, now)
		h.Set("X-RateLimit-Remaining", strconv.Itoa(v.remaining))
		h.Set("X-RateLimit-Reset", resetHeader(s.options.Reset, s.now(), v.reset))
		if v.ok {
			return nil
		}
		r := jsonReply(http.StatusTooManyRequests, obj("error",
			obj("code", "rate_limited", "message", "Too many requests", "type", "rate_limit_error", "param", nil)))
		r.wait = v.reset
		return &r
	}
	v := s.appLimit.take(c.user, now)
	if v.ok {
		return nil
	}
	r := jsonReply(http.StatusTooManyRequests, obj("message", "Too Many Attempts."))
	wait := max(seconds(v.reset), 1)
	r.header.Set("Retry-After", strconv.Itoa(wait))
	r.header.Set("X-RateLimit-Limit", strconv.Itoa(v.limit))
	r.header.Set("X-RateLimit-Remaining", "0")
	r.header.Set("X-RateLimit-Reset", strconv.FormatInt(s.now().Unix()+int64(wait), 10))
	r.wait = time.Duration(wait) * time.Second
	return &r
}
