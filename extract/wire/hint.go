package wire

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// longestHint is the longest wait a header is believed to mean. Whatever asks
// for more is asked again a day later.
const longestHint = 24 * time.Hour

// now returns the time by the server's clock at an answer: the wait it asks
// for is measured from there, whatever the clock of this machine says.
func now(resp *http.Response) time.Time {
	if t, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		return t
	}
	return time.Now()
}

// retryAfter reads the Retry-After header in all its forms: seconds, with or
// without a fraction, or one of the three HTTP dates. It returns a wait between
// 0 and longestHint, and false for anything that is not one. Of several values
// the longest holds.
func retryAfter(h http.Header, serverNow time.Time) (time.Duration, bool) {
	longest, found := time.Duration(0), false
	for _, v := range h.Values("Retry-After") {
		if d, ok := parseRetryAfter(strings.TrimSpace(v), serverNow); ok {
			longest, found = max(longest, d), true
		}
	}
	return longest, found
}

func parseRetryAfter(v string, serverNow time.Time) (time.Duration, bool) {
	if n, ok := parseNumber(v); ok {
		return seconds(n), true
	}
	if t, err := http.ParseTime(v); err == nil {
		return clamp(t.Sub(serverNow)), true
	}
	return 0, false
}

// The sizes by which a reset value tells its unit.
const (
	leastEpochSeconds = 1e9
	leastEpochMillis  = 1e11
	mostEpochMillis   = 1e14
)

var resetLayouts = []string{
	http.TimeFormat, time.RFC1123, time.RFC3339Nano, "2006-01-02T15:04:05",
	time.DateTime, time.RFC850, time.ANSIC,
}

// resetAfter reads how long it is until the rate window begins anew. The unit
// is nowhere stated: large numbers are points in time, in seconds or
// milliseconds, small ones are seconds from now. A number of seconds beyond
// longest could as well be milliseconds, and says nothing.
func resetAfter(h http.Header, serverNow time.Time, longest time.Duration) (time.Duration, bool) {
	v := first(h, "X-RateLimit-Reset", "RateLimit-Reset", "X-Rate-Limit-Reset")
	n, ok := parseNumber(v)
	switch {
	case v == "":
		return 0, false
	case !ok:
		return resetText(v, serverNow)
	case n >= mostEpochMillis:
		return 0, false
	case n >= leastEpochMillis:
		return clamp(time.UnixMilli(int64(n)).Sub(serverNow)), true
	case n >= leastEpochSeconds:
		whole, part := math.Modf(n)
		return clamp(time.Unix(int64(whole), int64(part*1e9)).Sub(serverNow)), true
	}
	d := seconds(n)
	return d, d <= longest
}

func resetText(v string, serverNow time.Time) (time.Duration, bool) {
	if d, err := time.ParseDuration(v); err == nil && d >= 0 {
		return clamp(d), true
	}
	for _, layout := range resetLayouts {
		if t, err := time.Parse(layout, v); err == nil {
			return clamp(t.Sub(serverNow)), true
		}
	}
	return 0, false
}

// remaining reads how many requests the server says are left; -1 for nothing
// usable.
func remaining(h http.Header) int {
	return count(first(h, "X-RateLimit-Remaining", "RateLimit-Remaining", "X-Rate-Limit-Remaining"))
}

// statedLimit reads the size of the window, -1 for nothing usable. Of a list of
// several windows the first counts.
func statedLimit(h http.Header) int {
	v, _, _ := strings.Cut(first(h, "X-RateLimit-Limit", "RateLimit-Limit", "X-Rate-Limit-Limit"), ",")
	v, _, _ = strings.Cut(v, ";")
	return count(v)
}

func count(v string) int {
	n, err := strconv.Atoi(strings.TrimSpace(v))
	if err != nil || n < 0 || n > 1e9 {
		return -1
	}
	return n
}

func first(h http.Header, names ...string) string {
	for _, name := range names {
		if v := h.Get(name); v != "" {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// parseNumber reads digits with at most one point. Signs, exponents, hex, NaN
// and the like are not numbers here.
func parseNumber(v string) (float64, bool) {
	if v == "" || v[0] == '.' || strings.Trim(v, "0123456789.") != "" || strings.Count(v, ".") > 1 {
		return 0, false
	}
	n, err := strconv.ParseFloat(v, 64)
	return n, err == nil
}

func seconds(n float64) time.Duration {
	if n >= longestHint.Seconds() {
		return longestHint
	}
	return time.Duration(n * float64(time.Second))
}

func clamp(d time.Duration) time.Duration { return min(max(d, 0), longestHint) }

// standardWindow returns the usual length of a rate window that takes at least
// d to begin anew.
func standardWindow(d time.Duration) time.Duration {
	usual := []time.Duration{
		time.Second, 10 * time.Second, time.Minute, 5 * time.Minute,
		15 * time.Minute, time.Hour, 24 * time.Hour,
	}
	// The header counts whole seconds: it may say one more than is left.
	i := slices.IndexFunc(usual, func(w time.Duration) bool { return w >= d-time.Second })
	if i < 0 {
		return longestHint
	}
	return usual[i]
}
