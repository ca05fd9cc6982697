package budget

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// longestHint is the longest wait that a header can cause. Longer waits are shortened to it.
const longestHint = 24 * time.Hour

// longestReset is the longest plausible time until a window resets. It applies where the unit of a number, the zone of
// a date or a clock is uncertain. Longer times are then ignored.
const longestReset = 15 * time.Minute

// hints are what an answer's headers state about the rate limit.
type hints struct {
	retry    time.Duration // the wait that the answer requests
	hasRetry bool
	reset    time.Duration // time until the window resets
	hasReset bool
	left     int  // remaining requests of the window; -1 if unknown
	limit    Rate // the stated limit; Window is zero if not stated
}

// readHints reads the rate-limit headers of an answer. The argument `window` is the length of the limit's window, or
// zero if unknown. // Invariant 4
func readHints(h http.Header, window time.Duration) hints {
	at := clockOf(h)
	in := hints{left: count(firstItem(firstHeader(h, remainingNames...))), limit: statedLimit(h)}
	if in.limit.Window > 0 && window == 0 {
		window = in.limit.Window
	}
	in.retry, in.hasRetry = retryAfter(h, at)
	in.reset, in.hasReset = resetAfter(h, at, window)
	return in
}

// The header names in use, the best first. A number of seconds is better than a time of day, which depends on two
// clocks. All names are in canonical form, so lookups need not convert them.
var (
	resetNames = []string{
		"X-Ratelimit-Reset-After", "X-Ratelimit-Reset", "Ratelimit-Reset", "X-Rate-Limit-Reset",
		"X-Ratelimit-Requests-Reset", "X-Ratelimit-Reset-Requests", "Ratelimit-Reset-Date", "X-Ratelimit-Reset-Date",
	}
	remainingNames = []string{
		"X-Ratelimit-Remaining", "Ratelimit-Remaining", "X-Rate-Limit-Remaining",
		"X-Ratelimit-Requests-Remaining", "X-Ratelimit-Remaining-Requests",
	}
	limitNames = []string{
		"X-Ratelimit-Limit", "Ratelimit-Limit", "X-Rate-Limit-Limit",
		"X-Ratelimit-Requests-Limit", "X-Ratelimit-Limit-Requests", "Ratelimit-Policy",
	}
)

// clock is the time from which the waits of an answer are measured.
type clock struct {
	now    time.Time
	stated bool // the time comes from the Date header; otherwise it comes from this machine's clock, which may be wrong
}

// clockOf returns the server's time from an answer's Date header, or this machine's time.
func clockOf(h http.Header) clock {
	if t, err := http.ParseTime(h.Get("Date")); err == nil {
		return clock{t, true}
	}
	return clock{now: time.Now()}
}

// until returns the wait until t, between 0 and longestHint. It returns false if t is implausible: more than
// longestReset away by this machine's clock, which may be wrong.
func (c clock) until(t time.Time) (time.Duration, bool) {
	d := t.Sub(c.now)
	return clamp(d), c.stated || d <= longestReset && d >= -longestReset
}

// RetryAfter returns the wait that the Retry-After header requests. The bool is false if there is none.
func RetryAfter(h http.Header) (time.Duration, bool) { return retryAfter(h, clockOf(h)) }

// retryAfter reads all forms of Retry-After: seconds, with or without a fraction, or a date in one of the three
// formats of HTTP. The wait is between 0 and longestHint. Of several values, it returns the longest.
func retryAfter(h http.Header, at clock) (time.Duration, bool) {
	longest, found := time.Duration(0), false
	for _, v := range h.Values("Retry-After") {
		if d, ok := parseRetryAfter(strings.TrimSpace(v), at); ok {
			longest, found = max(longest, d), true
		}
	}
	return longest, found
}

func parseRetryAfter(v string, at clock) (time.Duration, bool) {
	if n, ok := parseNumber(v); ok {
		return seconds(n), true
	}
	if t, err := http.ParseTime(v); err == nil {
		return at.until(t)
	}
	return 0, false
}

// The smallest and largest reset values that are read as Unix times in seconds or milliseconds, or as milliseconds from
// now.
const (
	leastEpochSeconds = 1e9
	leastEpochMillis  = 1e11
	mostEpochMillis   = 1e14
	leastMillis       = 100 // a smaller value is read as seconds; if it was in milliseconds, the wait is only a little too long
)

// resetAfter returns the time until the rate window resets. No header states the unit. So large numbers are read as
// Unix times in seconds or milliseconds, and small numbers as times from now.
func resetAfter(h http.Header, at clock, window time.Duration) (time.Duration, bool) {
	v := firstItem(firstHeader(h, resetNames...))
	n, ok := parseNumber(v)
	switch {
	case v == "":
		return 0, false
	case !ok:
		return resetText(v, at)
	case n >= mostEpochMillis:
		return 0, false
	case n >= leastEpochMillis:
		return at.until(time.UnixMilli(int64(n)))
	case n >= leastEpochSeconds:
		whole, part := math.Modf(n)
		return at.until(time.Unix(int64(whole), int64(part*1e9)))
	}
	return resetDelta(n, window)
}

// resetDelta reads a reset value that is a time from now. The unit is seconds, unless the value fits into the window
// only as milliseconds: for a window of one second, 734 means 734 ms. A number that is too large for a wait is ignored.
func resetDelta(n float64, window time.Duration) (time.Duration, bool) {
	const whole = time.Second // servers round the time up to whole seconds
	d := seconds(n)
	if ms := seconds(n / 1000); window > 0 && d > window+whole && n >= leastMillis && ms <= window+whole {
		return ms, true
	}
	return d, d <= max(longestReset, min(window+whole, longestHint))
}

// Date layouts with a time zone, and without one.
var (
	resetLayouts = []string{
		http.TimeFormat, time.RFC1123, time.RFC1123Z, time.RFC3339Nano, time.RFC850, "Mon Jan 02 2006 15:04:05 GMT-0700",
	}
	resetLocals = []string{"2006-01-02T15:04:05", time.DateTime, time.ANSIC}
)

// resetText reads a duration or a date. A date without a zone is read as UTC. But the server may have used its local
// zone, and then the wait would be wrong by hours. So the date counts only if the wait is plausible.
func resetText(v string, at clock) (time.Duration, bool) {
	if d, err := time.ParseDuration(v); err == nil && d >= 0 {
		return clamp(d), true
	}
	v, _, _ = strings.Cut(v, " (") // JavaScript appends the name of the zone
	for _, layout := range resetLayouts {
		if t, err := time.Parse(layout, v); err == nil {
			return at.until(t)
		}
	}
	for _, layout := range resetLocals {
		if t, err := time.Parse(layout, v); err == nil {
			d := t.Sub(at.now)
			return clamp(d), d >= 0 && d <= longestReset
		}
	}
	return 0, false
}

// statedLimit reads the stated limit and, if stated, the length of its window. Of several windows it takes the
// shortest, which limits bursts. A longer window is noticed when its limit is used up. A list often begins with the
// limit of the current window, without its length: 100, 100;w=60.
func statedLimit(h http.Header) Rate {
	var bare, best Rate
	for item := range strings.SplitSeq(firstHeader(h, limitNames...), ",") {
		r, ok := parseLimit(item)
		switch {
		case !ok:
		case r.Window == 0 && bare.Limit == 0:
			bare = r
		case r.Window > 0 && (best.Window == 0 || r.Window < best.Window):
			best = r
		}
	}
	if bare.Limit > 0 && bare.Limit != best.Limit {
		return bare // the list does not state the length of this window
	}
	return best.or(bare)
}

func (r Rate) or(otherwise Rate) Rate {
	if r.Limit > 0 {
		return r
	}
	return otherwise
}

// parseLimit reads one item of a list: 100, 100;w=60 or "default";q=100;w=60.
func parseLimit(item string) (Rate, bool) {
	name, params, _ := strings.Cut(strings.TrimSpace(item), ";")
	r := Rate{Limit: count(name)}
	for p := range strings.SplitSeq(params, ";") {
		key, v, _ := strings.Cut(strings.TrimSpace(p), "=")
		switch n := count(v); strings.ToLower(key) {
		case "q":
			r.Limit = n
		case "w", "window":
			if n < 1 || n > int(longestHint/time.Second) {
				return Rate{}, false
			}
			r.Window = time.Duration(n) * time.Second
		}
	}
	return r, r.Limit > 0
}

// firstItem returns the first number of a list, without parameters: 3 for "3, 3;window=60". It returns any other value
// unchanged, because dates contain commas too.
func firstItem(v string) string {
	item, _, _ := strings.Cut(v, ",")
	item, _, _ = strings.Cut(item, ";")
	item = strings.TrimSpace(item)
	if _, ok := parseNumber(item); ok {
		return item
	}
	return v
}

func count(v string) int {
	n, err := strconv.Atoi(strings.TrimSpace(v))
	if err != nil || n < 0 || n > 1e9 {
		return -1
	}
	return n
}

func firstHeader(h http.Header, names ...string) string {
	for _, name := range names {
		if v := h.Get(name); v != "" {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// parseNumber reads digits with at most one point. It rejects signs, exponents, hex and NaN.
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

// standardWindow returns the shortest usual length of a window that is not shorter than d.
func standardWindow(d time.Duration) time.Duration {
	usual := []time.Duration{
		time.Second, 10 * time.Second, time.Minute, 5 * time.Minute,
		15 * time.Minute, time.Hour, 24 * time.Hour,
	}
	// The header counts whole seconds, so it may be one second too high.
	i := slices.IndexFunc(usual, func(w time.Duration) bool { return w >= d-time.Second })
	if i < 0 {
		return longestHint
	}
	return usual[i]
}
