package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const account = Secret("sk_live_of_a_customer")

// join returns a governor that shares the budget in dir.
func join(t *testing.T, dir string, b Budget) *Governor {
	t.Helper()
	g := NewGovernor(b)
	require.NoError(t, g.Share(dir, account))
	return g
}

// Governors that share a budget keep one limit, however the server counts.
func TestShare(t *testing.T) {
	for _, limit := range []Rate{{100, time.Second}, {500, time.Second}, {60, time.Minute}} {
		for _, governors := range []int{2, 4} {
			for name, model := range modelsOf(limit) {
				t.Run(fmt.Sprintf("%s %s by %d", name, limit, governors), func(t *testing.T) {
					if testing.Short() && limit.Limit > 100 {
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
			g := join(t, dir, Budget{Rate: limit})
			l.busy(t, g, max(8, limit.Limit/governors/2), 15*limit.Window)
			require.NoError(t, g.Close())
		})
	}
	wg.Wait()
	used := float64(between(l.arrivals, begin.Add(7*limit.Window), begin.Add(14*limit.Window))) / float64(7*limit.Limit)
	t.Logf("used %.2f%%", 100*used)
	require.Empty(t, l.refused, "429s")
	require.LessOrEqual(t, maxInWindow(l.arrivals, limit.Window), limit.Limit, "arrivals in one window")
	require.GreaterOrEqual(t, used, 0.98, "used share")
}

// The reserve is left to other programs, and their use of it does not slow penstock down.
func TestReserve(t *testing.T) {
	bubble(t, func(t *testing.T) {
		model := &slidingWindow{limit: 100, window: time.Second}
		l := &link{counter: model, latency: 50 * time.Millisecond, headers: true, retry: "reset"}
		begin := time.Now()
		go func() {
			for time.Since(begin) < 30*time.Second {
				time.Sleep(55 * time.Millisecond) // 18 a second
				l.mu.Lock()
				model.take(time.Now())
				l.mu.Unlock()
			}
		}()
		l.busy(t, NewGovernor(Budget{Rate: Rate{100, time.Second}, Reserve: 0.2}), 20, 30*time.Second)
		require.Empty(t, l.refused)
		require.LessOrEqual(t, maxInWindow(l.arrivals, time.Second), 80)
		require.Greater(t, between(l.arrivals, begin.Add(5*time.Second), begin.Add(30*time.Second)), 25*77)
	})
}

// When one governor closes the gate, it is closed for all, and for those that join later.
func TestShareGate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		a, b := join(t, dir, Budget{}), join(t, dir, Budget{})
		l := &link{counter: closed{}, retry: "7200"}
		require.NoError(t, l.ask(t, a))
		until := time.Now().Add(2 * time.Hour)

		var parked *blockedError
		for _, g := range []*Governor{a, b} {
			require.ErrorAs(t, l.ask(t, g), &parked)
			require.Equal(t, Throttled, parked.class)
			require.WithinDuration(t, until, parked.until, time.Millisecond)
			require.NoError(t, g.Close())
		}
		require.Len(t, l.arrivals, 1)

		other := NewGovernor(Budget{})
		require.NoError(t, other.Share(dir, "another credential"))
		require.NoError(t, l.ask(t, other), "another credential's gate")
		require.NoError(t, other.Close())

		time.Sleep(90 * time.Minute)
		later := join(t, dir, Budget{})
		require.ErrorAs(t, l.ask(t, later), &parked)
		require.WithinDuration(t, until, parked.until, time.Millisecond)
		time.Sleep(30 * time.Minute)
		l.counter = &slidingWindow{limit: 10, window: time.Second}
		require.NoError(t, l.ask(t, later))
		require.NoError(t, later.Close())
	})
}

// A server outage does not keep the next run from sending requests.
func TestShareOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		a := join(t, dir, Budget{})
		s, err := a.acquire(t.Context(), time.Minute)
		require.NoError(t, err)
		s.wrote()
		s.answered(&http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {"7200"}}})
		s.done()
		_, err = a.acquire(t.Context(), time.Minute)
		require.Error(t, err)
		require.NoError(t, a.Close())
		b := join(t, dir, Budget{})
		s, err = b.acquire(t.Context(), time.Minute)
		require.NoError(t, err)
		s.done()
		require.NoError(t, b.Close())
	})
}

// The next run uses what an earlier one has learned, for a day.
func TestShareLearns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		l := &link{counter: &firstRequest{limit: 60, window: time.Minute}, latency: 50 * time.Millisecond, retry: "reset"}
		g := join(t, dir, Budget{})
		l.busy(t, g, 8, 10*time.Minute)
		learned := g.Stats().Limit
		require.Equal(t, time.Minute, learned.Window)
		require.NoError(t, g.Close())

		g = join(t, dir, Budget{})
		require.Equal(t, learned, g.Stats().Limit)
		require.NoError(t, g.Close())
		g = join(t, dir, Budget{Rate: Rate{5, time.Second}})
		require.Equal(t, Rate{5, time.Second}, g.Stats().Limit, "the new configuration")
		low := join(t, dir, Budget{Rate: Rate{2, time.Second}})
		require.Equal(t, Rate{2, time.Second}, low.Stats().Limit, "the lower of two")
		high := join(t, dir, Budget{Rate: Rate{100, time.Second}})
		require.Equal(t, Rate{2, time.Second}, high.Stats().Limit, "the lower of two")
		for _, g := range []*Governor{g, low, high} {
			require.NoError(t, g.Close())
		}
		time.Sleep(recordAge + time.Hour)
		g = join(t, dir, Budget{Rate: Rate{2, time.Second}})
		require.Equal(t, Rate{2, time.Second}, g.Stats().Limit)
		require.NoError(t, g.Close())
	})
}

// If a process dies, its unsent slots delay the others for memberLease at most, and its requests for as long as the
// server counts them.
func TestShareDeath(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		rate := Rate{20, time.Minute}
		dead := join(t, dir, Budget{Rate: rate})
		for range 5 {
			s, err := dead.acquire(t.Context(), time.Minute)
			require.NoError(t, err)
			defer s.done()
		}
		for range 5 {
			s, err := dead.acquire(t.Context(), time.Minute)
			require.NoError(t, err)
			s.wrote()
			defer s.done()
		}
		died := time.Now()
		heir := join(t, dir, Budget{Rate: rate})
		require.Equal(t, 10, occupied(t, heir))
		time.Sleep(memberLease)
		require.Equal(t, 5, occupied(t, heir))
		time.Sleep(time.Until(died.Add(time.Minute + mostGuard + time.Second)))
		require.Equal(t, 0, occupied(t, heir))
		require.NoError(t, heir.Close())
	})
}

func occupied(t *testing.T, g *Governor) (n int) {
	t.Helper()
	require.NoError(t, g.with(func(b *budgetRecord, now instant) bool {
		_, window := b.limit.allowed()
		n, _ = b.occupied(window, now)
		return false
	}))
	return n
}

// A process that was suspended with a slot drops it.
func TestShareSuspended(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := join(t, t.TempDir(), Budget{Rate: Rate{20, time.Second}})
		s, err := g.acquire(t.Context(), time.Minute)
		require.NoError(t, err)
		time.Sleep(memberLease + time.Second)
		w := newWatch(t.Context(), Timeouts{Total: time.Hour})
		s.hold(w, time.Minute)
		require.ErrorIs(t, w.explain(nil), errSuspended)
		w.stop()
		s.done()

		s, err = g.acquire(t.Context(), time.Minute)
		require.NoError(t, err)
		time.Sleep(20 * time.Second) // a slow handshake
		w = newWatch(t.Context(), Timeouts{Total: time.Hour})
		s.hold(w, time.Minute)
		require.NoError(t, w.ctx.Err())
		w.stop()
		s.done()
		require.NoError(t, g.Close())
	})
}

// A damaged file causes a pause of one window.
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
				g := join(t, dir, Budget{Rate: Rate{10, time.Second}})
				require.NoError(t, g.Close())
				file := filepath.Join(dir, BudgetName(account))
				held, err := os.ReadFile(file)
				require.NoError(t, err)
				require.NotContains(t, string(held), account.Reveal())
				require.NoError(t, os.WriteFile(file, spoil(held), 0o600))

				g = join(t, dir, Budget{Rate: Rate{10, time.Second}})
				begun := time.Now()
				s, err := g.acquire(t.Context(), time.Minute)
				require.NoError(t, err)
				s.done()
				require.NoError(t, g.Close())
				want := 2 * time.Second
				if name == "longer" {
					want = 0
				}
				require.InDelta(t, want.Seconds(), time.Since(begun).Seconds(), 0.01)
			})
		})
	}
}

// The clock was set back between two runs: no wait becomes longer.
func TestShareClockSetBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, by := range []time.Duration{2 * time.Hour, 10 * 365 * 24 * time.Hour} {
			dir := t.TempDir()
			g := join(t, dir, Budget{Rate: Rate{10, time.Second}})
			require.NoError(t, g.with(func(b *budgetRecord, now instant) bool {
				b.gate.extend(now.add(time.Hour), tooMany)
				return true
			}))
			g.base = g.base.Add(-by) // its clock is ahead by that
			require.NoError(t, g.with(func(b *budgetRecord, now instant) bool {
				b.gate.until = now.add(time.Hour)
				return true
			}))
			g.origin.Add(int64(by))
			g.record.ahead = 0
			g.record.written = g.record.checksum()
			require.NoError(t, os.WriteFile(filepath.Join(dir, BudgetName(account)), g.record.image(), 0o600))
			later := join(t, dir, Budget{Rate: Rate{10, time.Second}})
			_, err := later.acquire(t.Context(), time.Minute)
			var parked *blockedError
			require.ErrorAs(t, err, &parked)
			require.WithinDuration(t, time.Now().Add(time.Hour), parked.until, time.Second)
			require.NoError(t, later.Close())
		}
	})
}

// The machine was asleep, or its clock was set, after one process had joined and before another did. No process waits
// for the difference of their clocks, and each counts the requests of the other.
func TestShareClocksApart(t *testing.T) {
	for _, by := range []time.Duration{8 * time.Hour, -time.Hour} {
		bubble(t, func(t *testing.T) {
			dir := t.TempDir()
			rate := Rate{10, time.Minute}
			old := join(t, dir, Budget{Rate: rate})
			time.Sleep(time.Minute)
			young := join(t, dir, Budget{Rate: rate})
			young.origin.Add(int64(by)) // as if it had read another clock
			begun := time.Now()
			for i := range 30 {
				g := []*Governor{old, young}[i%2]
				s, err := g.acquire(t.Context(), 10*time.Minute)
				require.NoError(t, err)
				s.wrote()
				s.answered(&http.Response{StatusCode: http.StatusOK})
				s.done()
				require.Equal(t, occupied(t, young), occupied(t, old))
			}
			require.Less(t, time.Since(begun), 7*time.Minute)
			require.InDelta(t, 0, old.now().sub(young.now()).Seconds(), clockSlack.Seconds())
			require.NoError(t, errors.Join(old.Close(), young.Close()))
		})
	}
}

// The record has room for many members. One member too many gets an error, until another member leaves.
func TestShareFull(t *testing.T) {
	dir := t.TempDir()
	var all []*Governor
	for range mostMembers {
		all = append(all, join(t, dir, Budget{}))
	}
	late := NewGovernor(Budget{})
	require.ErrorIs(t, late.Share(dir, account), errTooManyMembers)
	for _, g := range all {
		require.NoError(t, g.Close())
	}
	require.NoError(t, NewGovernor(Budget{}).Share(dir, account))
}

// If the file cannot be created, nothing is sent.
func TestShareRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.ErrorContains(t, NewGovernor(Budget{}).Share(file, account), "share the rate limit: open ")
}

// With real processes and sockets: together they use the budget and never exceed it.
func TestShareProcesses(t *testing.T) {
	if env := os.Getenv("PENSTOCK_TEST_SHARE"); env != "" {
		runChild(t, env)
		return
	}
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, tt := range []struct{ processes, limit int }{{2, 200}, {4, 600}} {
		t.Run(fmt.Sprintf("%d processes %d a second", tt.processes, tt.limit), func(t *testing.T) {
			sharedByProcesses(t, tt.processes, tt.limit)
		})
	}
}

// childTask is the task of a child process.
type childTask struct {
	URL, Dir string
	Limit    int
	Seconds  int
}

func runChild(t *testing.T, env string) {
	var a childTask
	require.NoError(t, json.Unmarshal([]byte(env), &a))
	g := join(t, a.Dir, Budget{Rate: Rate{a.Limit, time.Second}})
	c, err := New(Options{BaseURL: a.URL, Allow: reads, Governor: g})
	require.NoError(t, err)
	var wg sync.WaitGroup
	end := time.Now().Add(time.Duration(a.Seconds) * time.Second)
	for range 16 {
		wg.Go(func() {
			for time.Now().Before(end) {
				resp, err := c.Read(t.Context(), contacts)
				require.NoError(t, err)
				resp.Release()
			}
		})
	}
	wg.Wait()
	require.NoError(t, c.Close())
	require.NoError(t, g.Close())
}

func sharedByProcesses(t *testing.T, processes, limit int) {
	const seconds = 6
	l := &link{counter: &slidingWindow{limit: limit, window: time.Second}, headers: true, retry: "reset"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp := l.arrive()
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		if resp.StatusCode != http.StatusOK {
			w.WriteHeader(resp.StatusCode)
		}
		good(w, r)
	}))
	defer server.Close()
	env, err := json.Marshal(childTask{server.URL, t.TempDir(), limit, seconds})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestShareProcesses$")
			child.Env = append(os.Environ(), "PENSTOCK_TEST_SHARE="+string(env))
			out, err := child.CombinedOutput()
			require.NoError(t, err, string(out))
		})
	}
	wg.Wait()
	require.LessOrEqual(t, maxInWindow(l.arrivals, time.Second), limit) // which sorts them
	from := l.arrivals[0].Add(2500 * time.Millisecond)                  // the start is slower by five percent
	used := float64(between(l.arrivals, from, from.Add(3*time.Second))) / float64(3*limit)
	t.Logf("%d requests, used %.1f%%, most %d", len(l.arrivals), 100*used, maxInWindow(l.arrivals, time.Second))
	require.Empty(t, l.refused, "429s")
	require.GreaterOrEqual(t, used, 0.95, "used share")
}
