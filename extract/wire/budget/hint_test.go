package budget

import (
	"math"
	"math/big"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The server's clock is one hour ahead of this machine's clock.
var serverNow = time.Date(2026, 11, 21, 11, 0, 0, 0, time.UTC)

func TestRetryAfter(t *testing.T) {
	tests := []struct {
		value string
		want  time.Duration
		ok    bool
	}{
		{"3", 3 * time.Second, true},
		{" 3 ", 3 * time.Second, true},
		{"1.5", 1500 * time.Millisecond, true},
		{"0", 0, true},
		{"99999999999", longestHint, true},
		{strings.Repeat("9", 400), 0, false},
		{"Sat, 21 Nov 2026 11:00:03 GMT", 3 * time.Second, true},
		{"Saturday, 21-Nov-26 11:00:03 GMT", 3 * time.Second, true},
		{"Sat Nov 21 11:00:03 2026", 3 * time.Second, true},
		{"Sat, 21 Nov 2020 11:00:03 GMT", 0, true},
		{"Sat, 21 Nov 2099 11:00:03 GMT", longestHint, true},
		{"-5", 0, false}, {"abc", 0, false}, {"", 0, false}, {"1e3", 0, false}, {"+3", 0, false},
		{"0x10", 0, false}, {"NaN", 0, false}, {"Inf", 0, false}, {"1.2.3", 0, false}, {".5", 0, false}, {"1_000", 0, false},
	}
	for _, tt := range tests {
		got, ok := retryAfter(http.Header{"Retry-After": {tt.value}}, clock{serverNow, true})
		require.Equal(t, tt.ok, ok, "%q", tt.value)
		require.Equal(t, tt.want, got, "%q", tt.value)
	}
	got, ok := retryAfter(http.Header{"Retry-After": {"1", "x", "7", "3"}}, clock{serverNow, true})
	require.True(t, ok)
	require.Equal(t, 7*time.Second, got, "two headers")
}

func TestResetAfter(t *testing.T) {
	epoch := serverNow.Unix()
	tests := []struct {
		value string
		want  time.Duration
		ok    bool
	}{
		{"3", 3 * time.Second, true},
		{"0", 0, true},
		{"0.25", 250 * time.Millisecond, true},
		{strconv.FormatInt(epoch+3, 10), 3 * time.Second, true},
		{strconv.FormatInt(epoch+3, 10) + ".500", 3500 * time.Millisecond, true},
		{strconv.FormatInt(epoch*1000+3000, 10), 3 * time.Second, true},
		{strconv.FormatInt(epoch-60, 10), 0, true},
		{"600000", 0, false},  // unknown: seconds or milliseconds
		{"2163603", 0, false}, // the reset of a monthly quota
		{"9223372036854775808", 0, false},
		{"2026-11-21T11:00:03Z", 3 * time.Second, true},
		{"2026-11-21 11:00:03", 3 * time.Second, true},
		{"Sat, 21 Nov 2026 11:00:03 GMT", 3 * time.Second, true},
		{"6m0s", 6 * time.Minute, true}, {"250ms", 250 * time.Millisecond, true},
		{"-3", 0, false}, {"-3s", 0, false}, {"soon", 0, false}, {"", 0, false},
		{"Tue Feb 16 2021 09:02:42 GMT+0100 (Central European Standard Time)", 0, true},
	}
	for _, tt := range tests {
		got, ok := resetAfter(http.Header{"X-Ratelimit-Reset": {tt.value}}, clock{serverNow, true}, 0)
		require.Equal(t, tt.ok, ok, "%q", tt.value)
		if ok {
			require.InDelta(t, tt.want, got, float64(time.Millisecond), "%q", tt.value)
		}
	}
}

func TestRemaining(t *testing.T) {
	for value, want := range map[string]int{"99": 99, " 0 ": 0, "-1": -1, "": -1, "many": -1, "9999999999999": -1, "98, 98;window=60": 98} {
		require.Equal(t, want, readHints(http.Header{"X-Ratelimit-Remaining": {value}}, 0).left, "%q", value)
	}
	require.Equal(t, 7, readHints(http.Header{"Ratelimit-Remaining": {"7"}}, 0).left)
}

func TestStatedLimit(t *testing.T) {
	for value, want := range map[string]Rate{
		"60": {Limit: 60}, "": {}, "many": {}, "0": {}, "-5": {}, "1e9": {},
		"100, 100;window=60, 10000;window=86400": {100, time.Minute},
		"10000;w=86400, 100;w=60":                {100, time.Minute},
		"50, 100;window=60":                      {Limit: 50}, // the limit of another window
		`"default";q=20;w=10`:                    {20, 10 * time.Second},
		"100;w=0":                                {}, "100;w=99999999": {}, ";;;": {}, ",,": {},
	} {
		require.Equal(t, want, statedLimit(http.Header{"X-Ratelimit-Limit": {value}}), "%q", value)
	}
	require.Equal(t, Rate{5, time.Second}, statedLimit(http.Header{"Ratelimit-Policy": {"5;w=1"}}))
}

// The units of all known reset headers are recognized.
func TestKnownResetHeaders(t *testing.T) {
	const epoch = 1795258800
	require.Equal(t, int64(epoch), serverNow.Unix())
	tests := []struct {
		name, value string
		window      time.Duration
		want        time.Duration
		ok          bool
	}{
		{"X-RateLimit-Reset", "1795258803", 0, 3 * time.Second, true},
		{"X-RateLimit-Reset", "1795258803.250", 0, 3250 * time.Millisecond, true},
		{"X-RateLimit-Reset-After", "0.470", 0, 470 * time.Millisecond, true},
		{"X-RateLimit-Requests-Reset", "1795258800123", 0, 123 * time.Millisecond, true},
		{"X-RateLimit-Reset", "41", time.Minute, 41 * time.Second, true},
		{"RateLimit-Reset", "60", 0, time.Minute, true},
		{"X-RateLimit-Reset", "2163603", 0, 0, false},
		{"X-RateLimit-Reset", "2163603", time.Second, 0, false},
		{"X-Rate-Limit-Reset", "600000", 0, 0, false},
		{"X-Rate-Limit-Reset", "600000", 15 * time.Minute, 10 * time.Minute, true},
		{"X-RateLimit-Reset", "734", time.Second, 734 * time.Millisecond, true},
		{"X-RateLimit-Reset", "734", time.Hour, 734 * time.Second, true},
		{"X-RateLimit-Reset", "3000", time.Hour, 50 * time.Minute, true},
		{"RateLimit-Reset-Date", "2026-11-21T11:00:05Z", 0, 5 * time.Second, true},
		{"X-RateLimit-Reset", "2026-11-21T12:00:05+01:00", 0, 5 * time.Second, true},
		{"X-RateLimit-Reset", "2026-11-21 11:00:05", 0, 5 * time.Second, true},
		{"X-RateLimit-Reset", "2026-11-21 13:00:05", 0, 0, false}, // the zone is unknown
		{"X-RateLimit-Reset", "2026-11-21 10:59:05", 0, 0, false},
		{"X-RateLimit-Reset", "Sat Nov 21 2026 12:00:05 GMT+0100 (Central European Standard Time)", 0, 5 * time.Second, true},
		{"X-RateLimit-Reset", "Sat, 21 Nov 2026 11:00:05 GMT", 0, 5 * time.Second, true},
		{"X-RateLimit-Reset-Requests", "6m0s", 0, 6 * time.Minute, true},
		{"X-RateLimit-Reset", "250ms", 0, 250 * time.Millisecond, true},
		{"X-RateLimit-Reset", "3, 3;window=60", 0, 3 * time.Second, true},
		{"X-RateLimit-Reset", "1795258000", 0, 0, true}, // past
		{"X-RateLimit-Reset", "9223372036854775808", 0, 0, false},
	}
	for _, tt := range tests {
		h := http.Header{}
		h.Set(tt.name, tt.value)
		got, ok := resetAfter(h, clock{serverNow, true}, tt.window)
		require.Equal(t, tt.ok, ok, "%s: %s", tt.name, tt.value)
		if ok {
			require.InDelta(t, tt.want, got, float64(time.Millisecond), "%s: %s", tt.name, tt.value)
		}
	}
}

// A time in a header is compared with the Date header of the same answer. This machine's clock may differ from it by
// years. Without a Date header, a distant time is not a wait.
func TestResetByDate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, ahead := range []time.Duration{0, 2 * time.Hour, -2 * time.Hour, 87600 * time.Hour, -87600 * time.Hour} {
			server := time.Now().Add(ahead)
			reset := strconv.FormatInt(server.Add(4*time.Second).UnixMilli(), 10)
			h := http.Header{"Date": {server.UTC().Format(http.TimeFormat)}, "X-Ratelimit-Reset": {reset}}
			in := readHints(h, 0)
			require.True(t, in.hasReset)
			require.InDelta(t, 4.5, in.reset.Seconds(), 0.51, ahead.String())

			h.Del("Date")
			h.Set("Retry-After", server.Add(4*time.Second).UTC().Format(http.TimeFormat))
			in = readHints(h, 0)
			require.Equal(t, ahead == 0, in.hasReset, ahead.String())
			require.Equal(t, ahead == 0, in.hasRetry, ahead.String())
		}
	})
}

func TestBodyHints(t *testing.T) {
	tests := map[string]http.Header{
		`{"error":{"code":429,"metadata":{"headers":{"X-RateLimit-Limit":"20","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1795258860000"}}}}`: {
			"X-Ratelimit-Limit": {"20"}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1795258860000"}},
		`{"message":"You are being rate limited.","retry_after":1.5,"global":false}`: {"Retry-After": {"1.5"}},
		`{"retry_after":2,"inner":{"retry-after":7}}`:                                {"Retry-After": {"2"}},
		`{"error":"slow down"}`: {}, `[1,2]`: {}, `<html>`: {}, ``: {}, `{"a":{"a":{"a":{"a":{"a":{"retry_after":1}}}}}}`: {},
	}
	for body, want := range tests {
		require.Equal(t, want, bodyHints([]byte(body)), body)
	}
}

func TestStandardWindow(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		0: time.Second, time.Second: time.Second, 2 * time.Second: time.Second, 3 * time.Second: 10 * time.Second,
		37 * time.Second: time.Minute, 61 * time.Second: time.Minute, 62 * time.Second: 5 * time.Minute, 100 * time.Hour: longestHint,
	} {
		require.Equal(t, want, standardWindow(d), d.String())
	}
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]Rate{
		"": {}, "100/s": {100, time.Second}, "60/m": {60, time.Minute}, "2,000/s": {2000, time.Second}, "1000/h": {1000, time.Hour}, "20/10s": {20, 10 * time.Second},
		" 5 / min ": {5, time.Minute},
	} {
		got, err := ParseRate(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		again, err := ParseRate(got.String())
		require.NoError(t, err)
		require.Equal(t, got, again)
	}
	for _, text := range []string{"100", "/s", "x/s", "0/s", "-1/s", "1/x", "1/0s", "1/48h", "1/1ms", "1e9/s", "9999999999/s"} {
		_, err := ParseRate(text)
		require.ErrorContains(t, err, text)
	}
}

// For any header, the wait is between zero and a day. Digits are read exactly.
func FuzzRetryAfter(f *testing.F) {
	for _, v := range []string{"3", "1.5", "-5", "abc", "", "99999999999", "Sat, 21 Nov 2026 11:00:03 GMT", "Sat Nov 21 11:00:03 2026", "\x00", "1e9", "٣"} {
		f.Add(v, int64(0))
	}
	f.Fuzz(func(t *testing.T, v string, ahead int64) {
		at := serverNow.Add(time.Duration(ahead))
		d, ok := retryAfter(http.Header{"Retry-After": {v}}, clock{at, true})
		require.GreaterOrEqual(t, d, time.Duration(0))
		require.LessOrEqual(t, d, longestHint)
		if want, isNumber := slowSeconds(strings.TrimSpace(v)); isNumber {
			require.True(t, ok)
			require.InDelta(t, math.Min(want, longestHint.Seconds()), d.Seconds(), 1e-6)
			return
		}
		if date, err := http.ParseTime(strings.TrimSpace(v)); err == nil {
			require.True(t, ok)
			require.Equal(t, min(max(date.Sub(at), 0), longestHint), d)
			return
		}
		require.False(t, ok, "%q", v)
	})
}

// slowSeconds reads a plain decimal number with exact arithmetic.
func slowSeconds(v string) (float64, bool) {
	whole, part, _ := strings.Cut(v, ".")
	if whole == "" || strings.Trim(whole+part, "0123456789") != "" {
		return 0, false
	}
	r, ok := new(big.Rat).SetString(whole + "." + part + "0")
	if !ok {
		return 0, false
	}
	n, _ := r.Float64()
	return n, !math.IsInf(n, 0)
}

func FuzzReset(f *testing.F) {
	for _, v := range []string{
		"3", "0.25", "1795258803", "1795258803000", "600000", "9223372036854775808", "2026-11-21T11:00:03Z", "6m0s", "-3s", "9999999h", "soon",
		"734", "3, 3;window=60", "2026-11-21 11:00:03", "Sat Nov 21 2026 12:00:05 GMT+0100 (CET)", "100;w=60", "Sat, 21 Nov 2026 11:00:03 GMT",
	} {
		f.Add(v, int64(0), uint32(0), true)
		f.Add(v, int64(time.Hour), uint32(1), false)
	}
	f.Fuzz(func(t *testing.T, v string, at int64, window uint32, stated bool) {
		c := clock{serverNow.Add(time.Duration(at)), stated}
		w := time.Duration(window%86400) * time.Second
		d, ok := resetAfter(http.Header{"X-Ratelimit-Reset": {v}}, c, w)
		if !ok {
			return
		}
		require.GreaterOrEqual(t, d, time.Duration(0))
		require.LessOrEqual(t, d, longestHint)
		item, _, _ := strings.Cut(strings.TrimSpace(v), ",")
		item, _, _ = strings.Cut(item, ";")
		n, isNumber := slowSeconds(strings.TrimSpace(item))
		switch now := float64(c.now.UnixNano()) / 1e9; {
		case !isNumber:
			plausibleText(t, v, d, c)
		case n >= leastEpochMillis:
			require.Less(t, n, float64(mostEpochMillis))
			require.InDelta(t, within(n/1000-now), d.Seconds(), 0.002)
			require.True(t, stated || math.Abs(n/1000-now) <= longestReset.Seconds()+0.002)
		case n >= leastEpochSeconds:
			require.InDelta(t, within(n-now), d.Seconds(), 0.002)
			require.True(t, stated || math.Abs(n-now) <= longestReset.Seconds()+0.002)
		case math.Abs(d.Seconds()-n) <= 1e-6:
			require.LessOrEqual(t, d, max(longestReset, w+time.Second), "a wait whose unit is unknown")
		default: // milliseconds, if seconds make no sense
			require.InDelta(t, n/1000, d.Seconds(), 1e-6)
			require.GreaterOrEqual(t, n, 100.0)
			require.Greater(t, n, (w + time.Second).Seconds())
			require.LessOrEqual(t, d, w+time.Second)
			require.Positive(t, w)
		}
	})
}

// plausibleText compares a wait from a text with the known forms.
func plausibleText(t *testing.T, v string, d time.Duration, c clock) {
	v = strings.TrimSpace(v)
	if want, err := time.ParseDuration(v); err == nil {
		require.Equal(t, min(want, longestHint), d, "%q", v)
		return
	}
	v, _, _ = strings.Cut(v, " (")
	for _, layout := range slices.Concat(resetLayouts, resetLocals) {
		if at, err := time.Parse(layout, v); err == nil {
			require.Equal(t, clamp(at.Sub(c.now)), d, "%q", v)
			return
		}
	}
	t.Fatalf("%q is a wait of %s", v, d)
}

// A limit is the number that an item states, never a larger number.
func FuzzLimit(f *testing.F) {
	for _, v := range []string{"60", "100, 100;window=60, 10000;window=86400", `"default";q=20;w=10`, "5;w=1", ";;", "100;w=-1", "\x00", "1e3", "٣"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v string) {
		r := statedLimit(http.Header{"X-Ratelimit-Limit": {v}})
		if r == (Rate{}) {
			return
		}
		require.Contains(t, v, strconv.Itoa(r.Limit)[:1])
		require.True(t, r.Limit > 0 && r.Limit <= 1e9)
		require.True(t, r.Window >= 0 && r.Window <= longestHint)
		require.Zero(t, r.Window%time.Second)
		digits := regexp.MustCompile("[0-9]+").FindAllString(v, -1)
		require.True(t, slices.ContainsFunc(digits, func(d string) bool { n, err := strconv.Atoi(d); return err == nil && n == r.Limit }), "%q: %s", v, r)
	})
}

// bodyHints() accepts any body, and returns only headers that are known hints.
func FuzzBodyHints(f *testing.F) {
	f.Add([]byte(`{"error":{"metadata":{"headers":{"X-RateLimit-Reset":"1795258860000"}}}}`))
	f.Add([]byte(`{"retry_after":1e400}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for name, values := range bodyHints(body) {
			require.True(t, isHint(name), name)
			require.Len(t, values, 1)
		}
		in := readHints(bodyHints(body), 0)
		require.True(t, in.retry >= 0 && in.retry <= longestHint && in.reset >= 0 && in.reset <= longestHint)
	})
}

func within(seconds float64) float64 {
	return math.Min(math.Max(seconds, 0), longestHint.Seconds())
}
