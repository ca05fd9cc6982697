package budget

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func models(limit int) map[string]counter {
	return map[string]counter{
		"fixed":   &fixedWindow{limit: limit, window: time.Second, phase: 370 * time.Millisecond},
		"sliding": &slidingWindow{limit: limit, window: time.Second},
		"bucket":  &tokenBucket{limit: limit, window: time.Second},
	}
}

// Almost the whole limit is used, and no server answers 429.
func TestGovernorStatedLimit(t *testing.T) {
	for _, limit := range []int{100, 500, 2000} {
		for _, jitter := range []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond} {
			for name, model := range models(limit) {
				t.Run(fmt.Sprintf("%s %d per second jitter %s", name, limit, jitter), func(t *testing.T) {
					if testing.Short() && limit > 100 {
						t.Skip("thousands of requests")
					}
					bubble(t, func(t *testing.T) { usesBudget(t, model, limit, jitter) })
				})
			}
		}
	}
}

func usesBudget(t *testing.T, model counter, limit int, jitter time.Duration) {
	l := &link{counter: model, latency: 200 * time.Millisecond, jitter: jitter, headers: true}
	g := New(Plan{Rate: Rate{limit, time.Second}})
	begin := time.Now()
	l.busy(t, g, limit/2, 15*time.Second)
	used := float64(between(l.Arrivals, begin.Add(7*time.Second), begin.Add(14*time.Second))) / float64(7*limit)
	guard := max(leastGuard, jitter+guardSlack)
	t.Logf("used %.2f%%, mean guard %s", 100*used, g.Stats().Guard)
	require.Empty(t, l.Refused, "429s")
	require.LessOrEqual(t, maxInWindow(l.Arrivals, time.Second), limit, "arrivals in one window")
	require.GreaterOrEqual(t, used, 1-guard.Seconds()-0.005, "used share")
}

// A request with a permit counts before it is on the wire. Connections may open slowly, or many may open at the same
// moment. Expired permits are replaced.
func TestGovernorUnsent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		limit := Rate{10, time.Minute}
		g := New(Plan{Rate: limit})
		begun := time.Now()
		var permits []*Permit
		for range 9 { // until headers confirm the limit, only nine of the ten requests are sent
			p, err := g.Take(t.Context(), time.Minute)
			require.NoError(t, err)
			permits = append(permits, p)
		}
		early, cancel := context.WithDeadline(t.Context(), begun.Add(limit.Window))
		defer cancel()
		_, err := g.Take(early, 10*time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for range 9 {
			p, err := g.Take(t.Context(), 10*time.Minute)
			require.NoError(t, err)
			permits = append(permits, p)
		}
		var sent []time.Time
		for _, p := range permits {
			require.NoError(t, p.Ready(t.Context(), 10*time.Minute))
			p.Sent()
			sent = append(sent, time.Now())
		}
		require.LessOrEqual(t, maxInWindow(sent, limit.Window), limit.Limit)
		require.Less(t, time.Since(begun), 5*time.Minute)
		for _, p := range permits {
			p.Done()
		}
	})
}

// The more the delay of a connection varies, from 5 to 50 ms, the longer the guard becomes.
func TestGovernorJitter(t *testing.T) {
	for name, model := range models(100) {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				l := &link{counter: model, latency: 50 * time.Millisecond, jitter: 45 * time.Millisecond, headers: true}
				g := New(Plan{Rate: Rate{100, time.Second}})
				l.busy(t, g, 50, 60*time.Second)
				require.Empty(t, l.Refused, "429s")
				require.LessOrEqual(t, maxInWindow(l.Arrivals, time.Second), 100)
				require.GreaterOrEqual(t, len(l.Arrivals), 60*100*70/100)
			})
		})
	}
}

// A server that answers some requests slowly looks like a slow connection. This wastes only a small part of the limit.
func TestGovernorSlowServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &link{counter: &slidingWindow{limit: 100, window: time.Second}, latency: 100 * time.Millisecond, work: 300 * time.Millisecond, headers: true}
		l.busy(t, New(Plan{Rate: Rate{100, time.Second}}), 60, 30*time.Second)
		require.Empty(t, l.Refused)
		require.GreaterOrEqual(t, len(l.Arrivals), 30*93)
	})
}

// If the delays of requests on their way differ widely, the server refuses a few requests at first. Then the governor
// counts each request for as long as it may have been delayed, and the server refuses no more requests.
func TestGovernorLearnsDelays(t *testing.T) {
	for _, limit := range []int{7, 30, 100} {
		for _, latency := range []time.Duration{200 * time.Millisecond, time.Second} {
			t.Run(fmt.Sprintf("%d a second, %s", limit, latency), func(t *testing.T) {
				if testing.Short() && limit > 30 {
					t.Skip("repeats the test with more requests")
				}
				bubble(t, func(t *testing.T) {
					l := &link{counter: &slidingWindow{limit: limit, window: time.Second}, latency: latency, jitter: latency / 4, headers: true}
					begin := time.Now()
					l.busy(t, New(Plan{Rate: Rate{limit, time.Second}}), 16+2*int(float64(limit)*latency.Seconds()), 10*time.Minute)
					t.Logf("%d requests, %d refused", len(l.Arrivals), len(l.Refused))
					require.LessOrEqual(t, len(l.Refused), 8)
					// The delays are random, so that a rare extreme may come late: one of 60 runs has a refusal in this time.
					require.LessOrEqual(t, between(l.Refused, begin.Add(5*time.Minute), begin.Add(time.Hour)), 1, "429s after five minutes")
				})
			})
		}
	}
}

// One request in three is refused at random. All requests wait for as long as the answer says, and then continue.
func TestGovernorStorm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &link{counter: &storm{every: 3}, latency: 50 * time.Millisecond, retry: "1"}
		l.busy(t, New(Plan{Rate: Rate{100, time.Second}}), 8, 5*time.Minute)
		require.Zero(t, l.inGates(), "requests while the gate was closed")
		require.Greater(t, len(l.Arrivals), 300)
	})
}

// storm refuses about one request in s.every, at random.
type storm struct{ every, n int }

func (s *storm) take(now time.Time) (bool, int, time.Time) {
	s.n++
	return s.n*7919%s.every != 0, 0, now.Add(time.Second)
}

// closed is a server that refuses every request.
type closed struct{}

func (closed) take(now time.Time) (bool, int, time.Time) { return false, 0, now }

// After each refusal without Retry-After, the wait becomes longer. Finally the request fails.
func TestGovernorRefusalsWithoutRetryAfter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &link{counter: closed{}, latency: 20 * time.Millisecond}
		g := New(Plan{})
		begin := time.Now()
		l.busy(t, g, 8, 10*time.Minute)
		require.LessOrEqual(t, between(l.Arrivals, begin, begin.Add(10*time.Minute)), 12+8)
		require.LessOrEqual(t, between(l.Arrivals, begin.Add(time.Second), begin.Add(10*time.Minute)), 12)
		gap := l.Arrivals[len(l.Arrivals)-1].Sub(l.Arrivals[len(l.Arrivals)-2])
		require.GreaterOrEqual(t, gap, 30*time.Second)

		_, err := g.Take(t.Context(), 15*time.Minute)
		var parked *BlockedError
		require.ErrorAs(t, err, &parked)
		require.False(t, parked.Failing)
		require.Greater(t, time.Until(parked.Until), time.Minute)
	})
}

// Useless values of Retry-After never cause a busy loop.
func TestGovernorUselessRetryAfter(t *testing.T) {
	for _, value := range []string{"-5", "0", "Mon, 02 Jan 1995 15:04:05 GMT", "abc", " ", "1e9", "0x10", "NaN"} {
		t.Run(value, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				l := &link{counter: closed{}, latency: time.Millisecond, retry: value}
				g := New(Plan{Rate: Rate{100, time.Second}})
				begin := time.Now()
				l.busy(t, g, 1, 10*time.Second)
				require.LessOrEqual(t, between(l.Arrivals, begin, begin.Add(2*time.Second)), 5)
			})
		})
	}
}

// A request fails at once if it would have to wait longer than MaxWait.
func TestGovernorParks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &link{counter: closed{}, latency: time.Millisecond, retry: "99999999999"}
		g := New(Plan{Rate: Rate{100, time.Second}})
		begin := time.Now()
		l.busy(t, g, 8, time.Hour)
		require.Less(t, time.Since(begin), time.Second)
		require.LessOrEqual(t, len(l.Arrivals), 8)
		_, err := g.Take(t.Context(), 15*time.Minute)
		var parked *BlockedError
		require.ErrorAs(t, err, &parked)
		require.Equal(t, longestHint.Round(time.Minute), time.Until(parked.Until).Round(time.Minute))
	})
}

// changing is a sliding window whose limit changes.
type changing struct {
	slidingWindow
	at    time.Time
	later int
}

func (c *changing) take(now time.Time) (bool, int, time.Time) {
	if now.After(c.at) {
		c.limit = c.later
	}
	return c.slidingWindow.take(now)
}

// The limit changes during the run.
func TestGovernorLimitHalves(t *testing.T) {
	for _, headers := range []bool{true, false} {
		t.Run(fmt.Sprintf("headers %t", headers), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				change := time.Now().Add(20 * time.Second)
				model := &changing{slidingWindow{limit: 100, window: time.Second}, change, 50}
				l := &link{counter: model, latency: 100 * time.Millisecond, headers: headers, retry: "reset"}
				l.busy(t, New(Plan{Rate: Rate{100, time.Second}}), 8, 50*time.Second)
				require.LessOrEqual(t, len(l.Refused), 1+8, "429s")
				require.LessOrEqual(t, maxInWindow(after(l.Arrivals, change.Add(2*time.Second)), time.Second), 50)
				require.Greater(t, between(l.Arrivals, change.Add(5*time.Second), change.Add(25*time.Second)), 20*50*80/100)
			})
		})
	}
}

func after(arrivals []time.Time, from time.Time) []time.Time {
	var later []time.Time
	for _, at := range arrivals {
		if at.After(from) {
			later = append(later, at)
		}
	}
	return later
}

// Another program uses the same key, and gets its share.
func TestGovernorForeignUse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		model := &slidingWindow{limit: 100, window: time.Second}
		l := &link{counter: model, latency: 50 * time.Millisecond, headers: true, retry: "reset"}
		end := time.Now().Add(30 * time.Second)
		go func() {
			for time.Now().Before(end) {
				time.Sleep(25 * time.Millisecond)
				l.mu.Lock()
				model.take(time.Now())
				l.mu.Unlock()
			}
		}()
		l.busy(t, New(Plan{Rate: Rate{100, time.Second}}), 20, 30*time.Second)
		require.LessOrEqual(t, len(l.Refused), 2)
		require.Greater(t, len(l.Arrivals), 30*50)
	})
}

// The governor finds a limit that is not stated.
func TestGovernorLearns(t *testing.T) {
	tests := []struct {
		name    string
		model   counter
		headers bool
		retry   string
		latency time.Duration
		span    time.Duration
		least   int // smallest number of requests
		refused int // largest number of refused requests
	}{
		{"headers state the limit", &fixedWindow{limit: 100, window: time.Second}, true, "reset", 20 * time.Millisecond, 30 * time.Second, 30 * 90, 0},
		{"headers of a token bucket", &tokenBucket{limit: 100, window: time.Second}, true, "reset", 20 * time.Millisecond, 30 * time.Second, 30 * 90, 0},
		{"60 a minute, counted from the first request", &firstRequest{limit: 60, window: time.Minute}, false, "reset", 50 * time.Millisecond, 10 * time.Minute, 10 * 50, 20},
		{"sliding window, with only Retry-After", &slidingWindow{limit: 50, window: time.Second}, false, "reset", 20 * time.Millisecond, time.Minute, 60 * 30, 40},
		{"fixed window, without headers", &fixedWindow{limit: 80, window: time.Second}, false, "", 20 * time.Millisecond, time.Minute, 60 * 40, 40},
		{"no limit", &slidingWindow{limit: 1 << 30, window: time.Second}, false, "", 20 * time.Millisecond, 10 * time.Second, 2000, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				l := &link{counter: tt.model, latency: tt.latency, headers: tt.headers, retry: tt.retry}
				g := New(Plan{})
				l.busy(t, g, 16, tt.span)
				t.Logf("%d requests, %d refused, limit %q, %.1f/s allowed", len(l.Arrivals), len(l.Refused), g.Stats().Limit, g.Stats().Allowed)
				require.GreaterOrEqual(t, len(l.Arrivals), tt.least)
				require.LessOrEqual(t, len(l.Refused), tt.refused)
				require.Zero(t, l.inGates())
			})
		})
	}
}

// After several refusals in a row, the governor waits longer. Only the first of these refusals shows which rate is too
// fast.
func TestGovernorRefusedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &link{counter: &refuseRange{from: 100, to: 103}, latency: 20 * time.Millisecond, retry: "3"}
		g := New(Plan{})
		l.busy(t, g, 16, 2*time.Minute)
		require.NotEmpty(t, l.Refused)
		require.Zero(t, l.inGates())
		require.Greater(t, g.Stats().Allowed, 10.0)
		require.Greater(t, len(l.Arrivals), 1000)
	})
}

// refuseRange refuses the requests with numbers from s.from to s.to, whatever their rate.
type refuseRange struct{ from, to, n int }

func (s *refuseRange) take(now time.Time) (bool, int, time.Time) {
	s.n++
	return s.n < s.from || s.n > s.to, 0, now.Add(3 * time.Second)
}

// If the first requests are refused, the rate stays low for a minute. After that, accepted requests raise it.
func TestGovernorRefusedEarly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &link{counter: &refuseRange{from: 2, to: 3}, latency: 20 * time.Millisecond, retry: "3"}
		g := New(Plan{})
		l.busy(t, g, 16, 5*time.Minute)
		require.Zero(t, l.inGates())
		require.Greater(t, g.Stats().Allowed, 20.0, "the rate rose to only %.1f/s", g.Stats().Allowed)
	})
}

// BenchmarkGovernor measures how long the governor takes for one request, with the record in memory and in a file.
func BenchmarkGovernor(b *testing.B) {
	for _, where := range []string{"memory", "file"} {
		b.Run(where, func(b *testing.B) { governs(b, where == "file") })
	}
}

func governs(b *testing.B, file bool) {
	g := New(Plan{Rate: Rate{1_000_000, time.Second}})
	if file {
		require.NoError(b, g.ShareFile(b.TempDir(), "budget"))
		defer g.Close()
	}
	resp := &http.Response{StatusCode: 200, Header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		s, err := g.Take(b.Context(), time.Minute)
		require.NoError(b, err)
		s.Sent()
		s.Answered(resp)
		s.Done()
	}
}
