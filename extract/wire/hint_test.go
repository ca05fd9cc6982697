package wire

import (
	"math"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The server's clock is an hour ahead of everybody's.
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
		got, ok := retryAfter(http.Header{"Retry-After": {tt.value}}, serverNow)
		require.Equal(t, tt.ok, ok, "%q", tt.value)
		require.Equal(t, tt.want, got, "%q", tt.value)
	}
	got, ok := retryAfter(http.Header{"Retry-After": {"1", "x", "7", "3"}}, serverNow)
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
		{"600000", 0, false},  // seconds or milliseconds: nobody knows
		{"2163603", 0, false}, // a monthly quota
		{"9223372036854775808", 0, false},
		{"2026-11-21T11:00:03Z", 3 * time.Second, true},
		{"2026-11-21 11:00:03", 3 * time.Second, true},
		{"Sat, 21 Nov 2026 11:00:03 GMT", 3 * time.Second, true},
		{"6m0s", 6 * time.Minute, true}, {"250ms", 250 * time.Millisecond, true},
		{"-3", 0, false}, {"-3s", 0, false}, {"soon", 0, false}, {"", 0, false},
		{"Tue Feb 16 2021 09:02:42 GMT+0100 (Central European Standard Time)", 0, false},
	}
	for _, tt := range tests {
		got, ok := resetAfter(http.Header{"X-Ratelimit-Reset": {tt.value}}, serverNow, 15*time.Minute)
		require.Equal(t, tt.ok, ok, "%q", tt.value)
		if ok {
			require.InDelta(t, tt.want, got, float64(time.Millisecond), "%q", tt.value)
		}
	}
}

func TestRemaining(t *testing.T) {
	for value, want := range map[string]int{"99": 99, " 0 ": 0, "-1": -1, "": -1, "many": -1, "9999999999999": -1} {
		require.Equal(t, want, remaining(http.Header{"X-Ratelimit-Remaining": {value}}), "%q", value)
	}
	require.Equal(t, 7, remaining(http.Header{"Ratelimit-Remaining": {"7"}}))
	require.Equal(t, 100, statedLimit(http.Header{"X-Ratelimit-Limit": {"100, 100;window=60, 10000;window=86400"}}))
	require.Equal(t, 60, statedLimit(http.Header{"X-Ratelimit-Limit": {"60"}}))
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

// Whatever the header says, the wait is neither negative nor longer than a
// day, and digits mean exactly what they say.
func FuzzRetryAfter(f *testing.F) {
	for _, v := range []string{"3", "1.5", "-5", "abc", "", "99999999999", "Sat, 21 Nov 2026 11:00:03 GMT", "Sat Nov 21 11:00:03 2026", "\x00", "1e9", "٣"} {
		f.Add(v, int64(0))
	}
	f.Fuzz(func(t *testing.T, v string, clock int64) {
		at := serverNow.Add(time.Duration(clock))
		d, ok := retryAfter(http.Header{"Retry-After": {v}}, at)
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
	whole, part, point := strings.Cut(v, ".")
	if whole == "" || strings.Trim(whole+part, "0123456789") != "" || point && part == "" && false {
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
	for _, v := range []string{"3", "0.25", "1795258803", "1795258803000", "600000", "9223372036854775808", "2026-11-21T11:00:03Z", "6m0s", "-3s", "9999999h", "soon"} {
		f.Add(v, int64(0))
	}
	f.Fuzz(func(t *testing.T, v string, clock int64) {
		at := serverNow.Add(time.Duration(clock))
		longest := 15 * time.Minute
		d, ok := resetAfter(http.Header{"X-Ratelimit-Reset": {v}}, at, longest)
		if !ok {
			return
		}
		require.GreaterOrEqual(t, d, time.Duration(0))
		require.LessOrEqual(t, d, longestHint)
		n, isNumber := slowSeconds(strings.TrimSpace(v))
		switch {
		case !isNumber:
		case n >= leastEpochMillis:
			require.Less(t, n, float64(mostEpochMillis))
			require.InDelta(t, within(n/1000-float64(at.UnixNano())/1e9), d.Seconds(), 0.002)
		case n >= leastEpochSeconds:
			require.InDelta(t, within(n-float64(at.UnixNano())/1e9), d.Seconds(), 0.002)
		default:
			require.LessOrEqual(t, d, longest)
			require.InDelta(t, n, d.Seconds(), 1e-6)
		}
	})
}

func within(seconds float64) float64 {
	return math.Min(math.Max(seconds, 0), longestHint.Seconds())
}
