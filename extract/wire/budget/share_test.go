package budget

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const account = "sk_live_of_a_customer"

// join returns a governor that shares the budget in dir.
func join(t *testing.T, dir string, p Plan) *Governor {
	t.Helper()
	g := New(p)
	require.NoError(t, g.ShareFile(dir, Name(account)))
	return g
}

// Governors that share a budget keep one limit, for every way in which the server counts. With -short, the test covers
// each limit below 500 and each number of governors once.
func TestShare(t *testing.T) {
	for _, limit := range []Rate{{100, time.Second}, {500, time.Second}, {60, time.Minute}} {
		for _, governors := range []int{2, 4} {
			for name, model := range modelsOf(limit) {
				t.Run(fmt.Sprintf("%s %s by %d", name, limit, governors), func(t *testing.T) {
					if testing.Short() && (limit.Limit > 100 || (governors == 4) != (limit.Window == time.Second)) {
						t.Skip("thousands of requests")
					}
					bubble(t, func(t *testing.T) { sharesBudget(t, model, limit, governors) })
				})
			}
		}
	}
}

func modelsOf(r Rate) map[string]counter {
	return map[string]counter{
		"fixed":   &fixedWindow{limit: r.Limit, window: r.Window, phase: 370 * time.Millisecond},
		"sliding": &slidingWindow{limit: r.Limit, window: r.Window},
		"bucket":  &tokenBucket{limit: r.Limit, window: r.Window},
	}
}

func sharesBudget(t *testing.T, model counter, limit Rate, governors int) {
	dir := t.TempDir()
	l := &link{counter: model, latency: 200 * time.Millisecond, jitter: 5 * time.Millisecond, headers: true}
	begin := time.Now()
	var wg sync.WaitGroup
	for range governors {
		wg.Go(func() {
			g := join(t, dir, Plan{Rate: limit})
			l.busy(t, g, max(8, limit.Limit/governors/2), 15*limit.Window)
			require.NoError(t, g.Close())
		})
	}
	wg.Wait()
	used := float64(between(l.Arrivals, begin.Add(7*limit.Window), begin.Add(14*limit.Window))) / float64(7*limit.Limit)
	t.Logf("used %.2f%%", 100*used)
	require.Empty(t, l.Refused, "429s")
	require.LessOrEqual(t, maxInWindow(l.Arrivals, limit.Window), limit.Limit, "arrivals in one window")
	require.GreaterOrEqual(t, used, 0.98, "used share")
}

// The reserve is left to other programs. While they use it, penstock does not become slower.
func TestReserve(t *testing.T) {
	bubble(t, func(t *testing.T) {
		model := &slidingWindow{limit: 100, window: time.Second}
		l := &link{counter: model, latency: 50 * time.Millisecond, headers: true, retry: "reset"}
		begin := time.Now()
		go func() {
			for time.Since(begin) < 30*time.Second {
				time.Sleep(55 * time.Millisecond) // 18 requests per second
				l.mu.Lock()
				model.take(time.Now())
				l.mu.Unlock()
			}
		}()
		l.busy(t, New(Plan{Rate: Rate{100, time.Second}, Reserve: 0.2}), 20, 30*time.Second)
		require.Empty(t, l.Refused)
		require.LessOrEqual(t, maxInWindow(l.Arrivals, time.Second), 80)
		require.Greater(t, between(l.Arrivals, begin.Add(5*time.Second), begin.Add(30*time.Second)), 25*77)
	})
}

// When one governor closes the gate, the gate is closed for all other governors, and for governors that join later.
func TestShareGate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		a, b := join(t, dir, Plan{}), join(t, dir, Plan{})
		l := &link{counter: closed{}, retry: "7200"}
		require.NoError(t, l.ask(t, a))
		until := time.Now().Add(2 * time.Hour)

		var parked *BlockedError
		for _, g := range []*Governor{a, b} {
			require.ErrorAs(t, l.ask(t, g), &parked)
			require.False(t, parked.Failing)
			require.WithinDuration(t, until, parked.Until, time.Millisecond)
			require.NoError(t, g.Close())
		}
		require.Len(t, l.Arrivals, 1)

		other := New(Plan{})
		require.NoError(t, other.ShareFile(dir, Name("another credential")))
		require.NoError(t, l.ask(t, other), "the gate of another credential is open")
		require.NoError(t, other.Close())

		time.Sleep(90 * time.Minute)
		later := join(t, dir, Plan{})
		require.ErrorAs(t, l.ask(t, later), &parked)
		require.WithinDuration(t, until, parked.Until, time.Millisecond)
		time.Sleep(30 * time.Minute)
		l.counter = &slidingWindow{limit: 10, window: time.Second}
		require.NoError(t, l.ask(t, later))
		require.NoError(t, later.Close())
	})
}

// After an outage of the server, the next run sends requests.
func TestShareOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		a := join(t, dir, Plan{})
		s, err := a.Take(t.Context(), time.Minute)
		require.NoError(t, err)
		s.Sent()
		s.Answered(&http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {"7200"}}})
		s.Done()
		_, err = a.Take(t.Context(), time.Minute)
		require.Error(t, err)
		require.NoError(t, a.Close())
		b := join(t, dir, Plan{})
		s, err = b.Take(t.Context(), time.Minute)
		require.NoError(t, err)
		s.Done()
		require.NoError(t, b.Close())
	})
}

// For a day, a later run uses what an earlier run has learned.
func TestShareLearns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		l := &link{counter: &firstRequest{limit: 60, window: time.Minute}, latency: 50 * time.Millisecond, retry: "reset"}
		g := join(t, dir, Plan{})
		l.busy(t, g, 8, 10*time.Minute)
		learned := g.Stats().Limit
		require.Equal(t, time.Minute, learned.Window)
		require.NoError(t, g.Close())

		g = join(t, dir, Plan{})
		require.Equal(t, learned, g.Stats().Limit)
		require.NoError(t, g.Close())
		g = join(t, dir, Plan{Rate: Rate{5, time.Second}})
		require.Equal(t, Rate{5, time.Second}, g.Stats().Limit, "the new configuration")
		low := join(t, dir, Plan{Rate: Rate{2, time.Second}})
		require.Equal(t, Rate{2, time.Second}, low.Stats().Limit, "the lower of the two limits applies")
		high := join(t, dir, Plan{Rate: Rate{100, time.Second}})
		require.Equal(t, Rate{2, time.Second}, high.Stats().Limit, "the lower of the two limits applies")
		for _, g := range []*Governor{g, low, high} {
			require.NoError(t, g.Close())
		}
		time.Sleep(recordAge + time.Hour)
		g = join(t, dir, Plan{Rate: Rate{2, time.Second}})
		require.Equal(t, Rate{2, time.Second}, g.Stats().Limit)
		require.NoError(t, g.Close())
	})
}

// If a process dies, its permits count as requests for as long as the server may count them. // Invariant 4
func TestShareDeath(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		rate := Rate{20, time.Minute}
		dead := join(t, dir, Plan{Rate: rate})
		for i := range 10 {
			p, err := dead.Take(t.Context(), time.Minute)
			require.NoError(t, err)
			if i >= 5 {
				p.Sent()
			}
		}
		died := time.Now()
		heir := join(t, dir, Plan{Rate: rate})
		require.Equal(t, 10, occupied(t, heir))
		time.Sleep(time.Until(died.Add(time.Minute)))
		require.NotZero(t, occupied(t, heir))
		time.Sleep(mostGuard + time.Second)
		require.Equal(t, 0, occupied(t, heir))
		require.NoError(t, heir.Close())
	})
}

func occupied(t *testing.T, g *Governor) (n int) {
	t.Helper()
	require.NoError(t, g.with(func(r *record, _ instant) bool {
		n = int(r.window.total)
		return false
	}))
	return n
}

// A process that was suspended with permits replaces them before it sends the requests. // Invariant 4
func TestShareSuspended(t *testing.T) {
	for _, asleep := range []time.Duration{100 * time.Millisecond, 20 * time.Second, memberLease + time.Second} {
		bubble(t, func(t *testing.T) {
			dir := t.TempDir()
			limit := Rate{20, time.Second}
			g, other := join(t, dir, Plan{Rate: limit}), join(t, dir, Plan{Rate: limit})
			var permits []*Permit
			for range 15 {
				p, err := g.Take(t.Context(), time.Minute)
				require.NoError(t, err)
				permits = append(permits, p)
			}
			var sent []time.Time
			for end := time.Now().Add(asleep); time.Now().Before(end); {
				p, err := other.Take(t.Context(), time.Minute)
				require.NoError(t, err)
				p.Sent()
				sent = append(sent, time.Now())
				p.Answered(&http.Response{StatusCode: http.StatusOK})
				p.Done()
			}
			for _, p := range permits {
				require.NoError(t, p.Ready(t.Context(), time.Minute))
				p.Sent()
				sent = append(sent, time.Now())
			}
			require.LessOrEqual(t, maxInWindow(sent, limit.Window), limit.Limit)
			for _, p := range permits {
				p.Done()
			}
			require.NoError(t, errors.Join(g.Close(), other.Close()))
		})
	}
}

// If the file is damaged, the governor sends no requests for one window.
func TestShareDamaged(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"cut":     func(b []byte) []byte { return b[:len(b)/2] },
		"flipped": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"foreign": func([]byte) []byte { return []byte("not a record, and no longer than this text") },
		"longer":  func(b []byte) []byte { return append(b, 1, 2, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				dir := t.TempDir()
				g := join(t, dir, Plan{Rate: Rate{10, time.Second}})
				require.NoError(t, g.Close())
				file := filepath.Join(dir, Name(account))
				held, err := os.ReadFile(file)
				require.NoError(t, err)
				require.NotContains(t, string(held), account)
				require.NoError(t, os.WriteFile(file, spoil(held), 0o600))

				g = join(t, dir, Plan{Rate: Rate{10, time.Second}})
				begun := time.Now()
				s, err := g.Take(t.Context(), time.Minute)
				require.NoError(t, err)
				s.Done()
				require.NoError(t, g.Close())
				want := time.Second + late + mostGuard
				if name == "longer" {
					want = 0
				}
				require.InDelta(t, want.Seconds(), time.Since(begun).Seconds(), 0.01)
			})
		})
	}
}

// The clock is set back between two runs. No wait becomes longer.
func TestShareClockSetBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, by := range []time.Duration{2 * time.Hour, 10 * 365 * 24 * time.Hour} {
			dir := t.TempDir()
			now := instant(time.Now().Add(by).UnixNano()) // the clock was ahead by this much
			r := newRecord(Plan{Rate: Rate{10, time.Second}})
			r.stamp = now
			r.gate.extend(now.add(time.Hour), tooMany)
			require.NoError(t, os.WriteFile(filepath.Join(dir, Name(account)), r.store(nil), 0o600))
			later := join(t, dir, Plan{Rate: Rate{10, time.Second}})
			_, err := later.Take(t.Context(), time.Minute)
			var parked *BlockedError
			require.ErrorAs(t, err, &parked)
			require.WithinDuration(t, time.Now().Add(time.Hour), parked.Until, time.Second)
			require.NoError(t, later.Close())
		}
	})
}

// The machine slept, or its clock was set, after one process joined and before another process joined. No process waits
// for the difference between their clocks, and each counts the other's requests.
func TestShareClocksApart(t *testing.T) {
	for _, by := range []time.Duration{8 * time.Hour, -time.Hour} {
		bubble(t, func(t *testing.T) {
			dir := t.TempDir()
			rate := Rate{10, time.Minute}
			old := join(t, dir, Plan{Rate: rate})
			time.Sleep(time.Minute)
			young := join(t, dir, Plan{Rate: rate})
			young.origin.Add(int64(by)) // as if the governor had read another clock
			begun := time.Now()
			for i := range 30 {
				g := []*Governor{old, young}[i%2]
				s, err := g.Take(t.Context(), 10*time.Minute)
				require.NoError(t, err)
				s.Sent()
				s.Answered(&http.Response{StatusCode: http.StatusOK})
				s.Done()
				require.Equal(t, occupied(t, young), occupied(t, old))
			}
			require.Less(t, time.Since(begun), 7*time.Minute)
			require.InDelta(t, 0, old.now().sub(young.now()).Seconds(), clockSlack.Seconds())
			require.NoError(t, errors.Join(old.Close(), young.Close()))
		})
	}
}

// Many processes that share a record keep the limit together. With -short, there are only 40 processes, to save time:
// each process looks at the record 50 times per second of virtual time. // Invariant 4
func TestShareFull(t *testing.T) {
	governors := 100
	if testing.Short() {
		governors = 40
	}
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		limit := Rate{governors / 2, time.Minute}
		var all []*Governor
		for range governors {
			all = append(all, join(t, dir, Plan{Rate: limit}))
		}
		l := &link{counter: modelsOf(limit)["sliding"], latency: 200 * time.Millisecond}
		var wg sync.WaitGroup
		for _, g := range all {
			wg.Go(func() {
				for range 3 {
					require.NoError(t, l.ask(t, g))
				}
				require.NoError(t, g.Close())
			})
		}
		wg.Wait()
		require.Len(t, l.Arrivals, 3*governors)
		require.Empty(t, l.Refused)
		require.LessOrEqual(t, maxInWindow(l.Arrivals, limit.Window), limit.Limit)
		g := join(t, dir, Plan{})
		require.Len(t, g.record.members, 1, "the others have left")
		require.NoError(t, g.Close())
	})
}

// If the file cannot be created, nothing is sent.
func TestShareRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.ErrorContains(t, New(Plan{}).ShareFile(file, Name(account)), "share the rate limit: open ")
}
