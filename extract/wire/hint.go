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

// longestReset is the longest wait until a window begins anew that is believed
// where nothing but the size of a number speaks for its unit.
const longestReset = 15 * time.Minute

// hints are what an answer tells about the limit, as far as it is beyond doubt.
type hints struct {
	retry    time.Duration // what the answer asks to wait
	hasRetry bool
	reset    time.Duration // until the window begins anew
	hasReset bool
	left     int  // requests in the window; -1 unknown
	limit    Rate // as stated: without a window where none is
}

// readHints reads the headers of an answer for a client that knows the window of
// the limit, or zero. // Invariant 4
func readHints(h http.Header, window time.Duration) hints {
	at := clockOf(h)
	in := hints{left: count(head(first(h, remainingNames...))), limit: statedLimit(h)}
	if in.limit.Window > 0 && window == 0 {
		window = in.limit.Window
	}
	in.retry, in.hasRetry = retryAfter(h, at)
	in.reset, in.hasReset = resetAfter(h, at, window)
	return in
}

// The names under which the same is told. A delta is preferred to a time, which
// is worth no more than the two clocks. All are spelt as a header has them, which
// saves the look-up from doing so.
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

// clock is the time that the waits an answer asks for are measured from.
type clock struct {
	now    time.Time
	stated bool // by the server; else it is this machine's, which may be wrong
}

// clockOf returns the time by the server's clock at an answer, whatever the
// clock of this machine says.
func clockOf(h http.Header) clock {
	if t, err := http.ParseTime(h.Get("Date")); err == nil {
		return clock{t, true}
	}
	return clock{now: time.Now()}
}

// until is how long it is to t: between 0 and longestHint. By the clock of this
// machine alone, what seems to be far away is no wait.
func (c clock) until(t time.Time) (time.Duration, bool) {
	d := t.Sub(c.now)
	return clamp(d), c.stated || d <= longestReset && d >= -longestReset
}

// retryAfter reads the Retry-After header in all its forms: seconds, with or
// without a fraction, or one of the three HTTP dates. It returns a wait between
// 0 and longestHint, and false for anything that is not one. Of several values
// the longest holds.
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

// The sizes by which a reset value tells its unit.
const (
	leastEpochSeconds = 1e9
	leastEpochMillis  = 1e11
	mostEpochMillis   = 1e14
	leastMillis       = 100 // below, to take them for seconds costs little
)

// resetAfter reads how long it is until the rate window begins anew. The unit
// is nowhere stated: large numbers are points in time, in seconds or
// milliseconds, small ones are counted from now.
func resetAfter(h http.Header, at clock, window time.Duration) (time.Duration, bool) {
	v := head(first(h, resetNames...))
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

// resetDelta reads a time that is counted from now. Seconds are the rule; what is
// more seconds than a window has, and fits into it as milliseconds, is these. A
// number that is too large for a wait could mean either, and says nothing.
func resetDelta(n float64, window time.Duration) (time.Duration, bool) {
	const whole = time.Second // servers round up
	d := seconds(n)
	if ms := seconds(n / 1000); window > 0 && d > window+whole && n >= leastMillis && ms <= window+whole {
		return ms, true
	}
	return d, d <= max(longestReset, min(window+whole, longestHint))
}

// The forms of a date that say where they are, and those that do not.
var (
	resetLayouts = []string{
		http.TimeFormat, time.RFC1123, time.RFC1123Z, time.RFC3339Nano, time.RFC850, "Mon Jan 02 2006 15:04:05 GMT-0700",
	}
	resetLocals = []string{"2006-01-02T15:04:05", time.DateTime, time.ANSIC}
)

// resetText reads a duration or a date. A date without a zone is taken for UTC
// only where that makes sense of it: in a zone of the server's it would lie hours
// away.
func resetText(v string, at clock) (time.Duration, bool) {
	if d, err := time.ParseDuration(v); err == nil && d >= 0 {
		return clamp(d), true
	}
	v, _, _ = strings.Cut(v, " (") // the name of the zone, as JavaScript adds it
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

// statedLimit reads the size of the window and, where it is told, its length. Of
// a list of several windows the shortest counts, as that is what bursts are held
// against; the others speak up by themselves when they are used up. The usual
// list repeats the limit of the window at hand, without its length, before them.
func statedLimit(h http.Header) Rate {
	var bare, best Rate
	for item := range strings.SplitSeq(first(h, limitNames...), ",") {
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
		return bare // of a window that the list does not tell
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

// head is the first item of a list of numbers, without its parameters; what is no
// such list stays as it is, as dates have commas as well.
func head(v string) string {
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
