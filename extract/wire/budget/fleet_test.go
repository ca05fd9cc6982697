package budget

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// memoryLedger is a ledger in memory, with its own clock and a delay.
type memoryLedger struct {
	trip time.Duration
	slow time.Duration // how much longer a commit may take
	off  time.Duration // offset of its clock

	turn chan struct{}
	mu   sync.Mutex
	kept map[string][]byte
	down bool
	n    int // number of exchanges
}

func (d *memoryLedger) exchanges() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n
}

// spoil changes the version of a stored record, as if another release had written it.
func (d *memoryLedger) spoil(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept[name][0]++
}

func newMemoryLedger(trip time.Duration) *memoryLedger {
	return &memoryLedger{trip: trip, off: -3 * time.Hour, turn: make(chan struct{}, 1), kept: map[string][]byte{}}
}

func (d *memoryLedger) ChangeBudget(ctx context.Context, name string, change func(time.Time, []byte) ([]byte, error)) error {
	time.Sleep(d.trip/2 + rand.N(d.trip/4+1))
	defer func() { time.Sleep(d.trip/2 + rand.N(d.trip/4+1) + rand.N(d.slow+1)) }()
	d.turn <- struct{}{}
	defer func() { <-d.turn }()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n++
	if d.down {
		return errors.New("connection refused")
	}
	text, err := change(time.Now().Add(d.off), d.kept[name])
	if err == nil && text != nil {
		d.kept[name] = text
	}
	return err
}

func joinFleet(t *testing.T, d *memoryLedger, p Plan) *Governor {
	t.Helper()
	g := New(p)
	require.NoError(t, g.ShareLedger(t.Context(), d, Name(account)))
	return g
}

// fleet starts workers, each with callers that send requests for the given span. It returns a function that waits until
// all workers have ended.
func (l *link) fleet(t *testing.T, d *memoryLedger, p Plan, workers, callers int, span time.Duration) (wait func()) {
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			g := joinFleet(t, d, p)
			l.busy(t, g, callers, span)
			require.NoError(t, g.Close())
		})
	}
	return wg.Wait
}

// Workers on several hosts that share a ledger keep one limit, for every way in which the server counts. With -short,
// the test covers each limit and each number of workers, but not all combinations. // Invariant 4
func TestFleet(t *testing.T) {
	for _, workers := range []int{1, 4, 16} {
		for _, limit := range []Rate{{100, time.Second}, {60, time.Minute}} {
			for name, model := range modelsOf(limit) {
				t.Run(fmt.Sprintf("%s %s by %d", name, limit, workers), func(t *testing.T) {
					if testing.Short() && (workers == 4) != (limit.Window == time.Minute) {
						t.Skip("runs only without -short")
					}
					bubble(t, func(t *testing.T) { fleetUsesBudget(t, model, limit, workers) })
				})
			}
		}
	}
}

func fleetUsesBudget(t *testing.T, model counter, limit Rate, workers int) {
	d := newMemoryLedger(2 * time.Millisecond)
	l := &link{counter: model, latency: 200 * time.Millisecond, jitter: 5 * time.Millisecond, headers: true}
	begin := time.Now()
	wait := l.fleet(t, d, Plan{Rate: limit}, workers, max(8, limit.Limit/workers/2), 15*limit.Window)
	time.Sleep(time.Until(begin.Add(7 * limit.Window)))
	exchanges := d.exchanges()
	time.Sleep(time.Until(begin.Add(14 * limit.Window)))
	exchanges = d.exchanges() - exchanges
	wait()
	used := float64(between(l.Arrivals, begin.Add(7*limit.Window), begin.Add(14*limit.Window))) / float64(7*limit.Limit)
	t.Logf("used %.2f%%, %d requests, %d of %d exchanges", 100*used, len(l.Arrivals), exchanges, d.n)
	require.LessOrEqual(t, float64(exchanges), float64(workers)*(7*limit.Window).Seconds(), "exchanges")
	require.Empty(t, l.Refused, "429s")
	require.LessOrEqual(t, maxInWindow(l.Arrivals, limit.Window), limit.Limit, "arrivals in one window")
	require.GreaterOrEqual(t, used, 0.95, "used share")
}

// When a 429 to one worker closes the gate, the gate closes for all workers. While the ledger does not answer, no
// worker sends requests.
func TestFleetGateAndOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newMemoryLedger(2 * time.Millisecond)
		a, b := joinFleet(t, d, Plan{Rate: Rate{10, time.Second}}), joinFleet(t, d, Plan{Rate: Rate{10, time.Second}})
		l := &link{counter: &slidingWindow{limit: 10, window: time.Second}}
		require.NoError(t, l.ask(t, a))
		require.NoError(t, l.ask(t, b))
		shut := &link{counter: closed{}, retry: "30"}
		require.NoError(t, shut.ask(t, a))
		closedAt := time.Now()
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, l.ask(t, b))
		require.GreaterOrEqual(t, time.Since(closedAt), 30*time.Second-time.Second)

		d.mu.Lock()
		d.down = true
		d.mu.Unlock()
		time.Sleep(5 * time.Second) // all leases have expired
		before := len(l.Arrivals)
		require.ErrorContains(t, l.ask(t, b), "cannot reach the rate-limit database")
		require.Len(t, l.Arrivals, before)
		d.mu.Lock()
		d.down = false
		d.mu.Unlock()
		time.Sleep(5 * time.Second)
		require.NoError(t, l.ask(t, a))
		require.NoError(t, errors.Join(a.Close(), b.Close()))
	})
}

// If the limit is far above what the workers need, they exchange data with the ledger once in a period, and the stored
// record stays small.
func TestFleetHighLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newMemoryLedger(2 * time.Millisecond)
		l := &link{counter: &slidingWindow{limit: 100_000, window: time.Second}, latency: 20 * time.Millisecond, headers: true}
		wait := l.fleet(t, d, Plan{Rate: Rate{100_000, time.Second}}, 2, 8, 15*time.Second)
		time.Sleep(5 * time.Second)
		before := d.exchanges()
		time.Sleep(10 * time.Second)
		require.LessOrEqual(t, d.exchanges()-before, 2*11)
		wait()
		require.Greater(t, len(l.Arrivals), 2*8*15*40, "the callers hardly wait")
		require.Less(t, len(d.kept[Name(account)]), 32_000)
	})
}

// A worker that sends one request after another is hardly slowed down by a busy worker, which uses the rest of the
// limit. A worker that begins later soon gets its share. No worker exchanges data with the ledger more than once a
// second.
func TestFleetShares(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newMemoryLedger(2 * time.Millisecond)
		limit := Rate{100, time.Second}
		count := locked{new(sync.Mutex), &slidingWindow{limit: 100, window: time.Second}}
		one := &link{counter: count, latency: 200 * time.Millisecond, jitter: 5 * time.Millisecond, headers: true}
		a, b := joinFleet(t, d, Plan{Rate: limit}), joinFleet(t, d, Plan{Rate: limit})
		one.busy(t, a, 1, 20*time.Second)
		require.GreaterOrEqual(t, len(one.Arrivals), 95, "without the busy worker, it never waits")

		many := &link{counter: count, latency: 200 * time.Millisecond, jitter: 5 * time.Millisecond, headers: true}
		one.Arrivals = nil
		begin := time.Now()
		var exchanges int
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(10 * time.Second)
			exchanges = d.exchanges()
			time.Sleep(20 * time.Second)
			exchanges = d.exchanges() - exchanges
		})
		wg.Go(func() { many.busy(t, b, 60, 30*time.Second) })
		wg.Go(func() { one.busy(t, a, 1, 30*time.Second) })
		wg.Wait()
		require.Empty(t, many.Refused)
		require.Empty(t, one.Refused)
		require.Less(t, many.Arrivals[20].Sub(begin), 3*time.Second, "the second worker begins")
		used := between(many.Arrivals, begin.Add(10*time.Second), begin.Add(30*time.Second))
		slow := between(one.Arrivals, begin.Add(10*time.Second), begin.Add(30*time.Second))
		t.Logf("%d and %d requests in 20 seconds, %d exchanges", slow, used, exchanges)
		require.Greater(t, slow, 60)
		require.Greater(t, used+slow, 1600)
		require.LessOrEqual(t, exchanges, 2*20, "exchanges")
		require.NoError(t, errors.Join(a.Close(), b.Close()))
	})
}

// Another program uses a fifth of the limit, and the server states what is left. Workers that share a ledger leave that
// fifth to the other program.
func TestFleetBesideOthers(t *testing.T) {
	for _, workers := range []int{1, 3} {
		bubble(t, func(t *testing.T) {
			d := newMemoryLedger(2 * time.Millisecond)
			model := &slidingWindow{limit: 100, window: time.Second}
			l := &link{counter: model, latency: 100 * time.Millisecond, headers: true, retry: "reset"}
			begin := time.Now()
			var wg sync.WaitGroup
			wg.Go(func() {
				for time.Since(begin) < 2*time.Minute {
					time.Sleep(50 * time.Millisecond)
					l.mu.Lock()
					model.take(time.Now())
					l.mu.Unlock()
				}
			})
			for i := range workers {
				wg.Go(func() {
					g := joinFleet(t, d, Plan{Rate: Rate{100, time.Second}})
					for n := range 12 { // sometimes few callers, sometimes many
						l.busy(t, g, 1+(n+i)%3*20, 10*time.Second)
					}
					require.NoError(t, g.Close())
				})
			}
			wg.Wait()
			t.Logf("%d workers: %d requests in 2 minutes, %d refused", workers, len(l.Arrivals), len(l.Refused))
			require.Less(t, len(l.Refused), 20)
			require.Greater(t, len(l.Arrivals), 3500)
		})
	}
}

// The commits of the ledger are slow, some more than others. The limit is kept, because a slow commit does not delay
// the clock of a worker. // Invariant 4
func TestFleetWithSlowLedger(t *testing.T) {
	for _, slow := range []time.Duration{300 * time.Millisecond, 600 * time.Millisecond} {
		bubble(t, func(t *testing.T) {
			d := newMemoryLedger(4 * time.Millisecond)
			d.slow = slow
			limit := Rate{30, time.Second}
			l := &link{counter: &slidingWindow{limit: 30, window: time.Second}, latency: 100 * time.Millisecond, jitter: 2 * time.Millisecond, headers: true}
			begin := time.Now()
			l.fleet(t, d, Plan{Rate: limit}, 3, 8, 3*time.Minute)()
			used := between(l.Arrivals, begin.Add(time.Minute), begin.Add(3*time.Minute))
			t.Logf("slow by %s: %d of %d requests", slow, used, 120*limit.Limit)
			require.Empty(t, l.Refused)
			require.LessOrEqual(t, maxInWindow(l.Arrivals, time.Second), limit.Limit)
			require.Greater(t, used, 120*limit.Limit*7/10)
		})
	}
}

// A worker dies while it has a lease. The requests that it may have sent count for as long as the server may count
// them. Then the other workers use the whole limit. // Invariant 4
func TestFleetDeath(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newMemoryLedger(2 * time.Millisecond)
		limit := Rate{100, time.Second}
		l := &link{counter: &slidingWindow{limit: 100, window: time.Second}, latency: 50 * time.Millisecond, jitter: 5 * time.Millisecond, headers: true}
		dead, heir := joinFleet(t, d, Plan{Rate: limit}), joinFleet(t, d, Plan{Rate: limit})
		var wg sync.WaitGroup
		wg.Go(func() { l.busy(t, heir, 40, 30*time.Second) })
		l.busy(t, dead, 40, 10*time.Second)
		died := time.Now()
		dead.fleet.stop() // as if the process had been killed: it reports nothing
		wg.Wait()
		require.Empty(t, l.Refused)
		require.LessOrEqual(t, maxInWindow(l.Arrivals, time.Second), limit.Limit)
		require.Greater(t, between(l.Arrivals, died.Add(5*time.Second), died.Add(15*time.Second)), 930)
		require.NoError(t, heir.Close())
	})
}

// Workers that share a ledger learn a limit that is not configured.
func TestFleetLearns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newMemoryLedger(2 * time.Millisecond)
		l := &link{counter: &slidingWindow{limit: 50, window: time.Second}, latency: 50 * time.Millisecond, headers: true, retry: "1"}
		begin := time.Now()
		l.fleet(t, d, Plan{}, 3, 10, time.Minute)()
		used := between(l.Arrivals, begin.Add(30*time.Second), begin.Add(time.Minute))
		t.Logf("%d of 1500 requests in 30 seconds, %d refused, %d exchanges", used, len(l.Refused), d.n)
		require.Greater(t, used, 1300)
		require.Less(t, len(l.Refused), 20)
	})
}

// The ledger's clock is set back while workers have leases. No worker waits for the instants of those leases, which are
// now far in the future.
func TestFleetClockSetBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newMemoryLedger(2 * time.Millisecond)
		limit := Rate{50, time.Second}
		l := &link{counter: &slidingWindow{limit: 50, window: time.Second}, latency: 50 * time.Millisecond, headers: true}
		begin := time.Now()
		wait := l.fleet(t, d, Plan{Rate: limit}, 2, 10, 30*time.Second)
		time.Sleep(10 * time.Second)
		d.mu.Lock()
		d.off -= time.Hour
		d.mu.Unlock()
		wait()
		require.Empty(t, l.Refused)
		require.LessOrEqual(t, maxInWindow(l.Arrivals, time.Second), limit.Limit)
		require.Greater(t, between(l.Arrivals, begin.Add(16*time.Second), begin.Add(26*time.Second)), 450)
	})
}

// If the limit allows fewer requests than there are workers, the workers take turns.
func TestFleetTakesTurns(t *testing.T) {
	for _, limit := range []Rate{{1000, time.Hour}, {54, time.Minute}, {100, time.Minute}} {
		bubble(t, func(t *testing.T) {
			d := newMemoryLedger(2 * time.Millisecond)
			count := locked{new(sync.Mutex), &slidingWindow{limit: limit.Limit, window: limit.Window}}
			var wg sync.WaitGroup
			counts := make([]int, 4)
			for i := range counts {
				wg.Go(func() {
					g := joinFleet(t, d, Plan{Rate: limit})
					l := &link{counter: count, latency: 200 * time.Millisecond, headers: true}
					l.busy(t, g, 4, 15*time.Minute)
					counts[i] = len(l.Arrivals)
					require.Empty(t, l.Refused)
					require.NoError(t, g.Close())
				})
			}
			wg.Wait()
			t.Logf("%s: requests of the workers: %d", limit, counts)
			even := int(float64(limit.Limit) * (15 * time.Minute).Seconds() / limit.Window.Seconds() / 4)
			for _, n := range counts {
				require.Greater(t, n, even*6/10)
				require.Less(t, n, even*15/10)
			}
		})
	}
}

// locked is a counter that several links share.
type locked struct {
	*sync.Mutex
	counter
}

func (c locked) take(now time.Time) (bool, int, time.Time) {
	c.Lock()
	defer c.Unlock()
	return c.counter.take(now)
}

// If another release of penstock has written the record, a new worker replaces the record and then pauses. A worker
// that has already joined sends no more requests, because the other release counts differently. // Invariant 4
func TestFleetOtherRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newMemoryLedger(2 * time.Millisecond)
		limit := Rate{10, time.Second}
		l := &link{counter: &slidingWindow{limit: 10, window: time.Second}}
		old := joinFleet(t, d, Plan{Rate: limit})
		require.NoError(t, l.ask(t, old))
		time.Sleep(3 * time.Second)
		d.spoil(Name(account))
		require.ErrorContains(t, l.ask(t, old), errOtherVersion.Error())
		begin := time.Now()
		young := joinFleet(t, d, Plan{Rate: limit})
		require.NoError(t, l.ask(t, young))
		require.GreaterOrEqual(t, time.Since(begin), limit.Window+mostGuard)
		require.NoError(t, errors.Join(young.Close(), old.Close()))
	})
}

// The machine sleeps, and the governor's clock stops meanwhile. Afterwards the governor does not use its old grants.
// Invariant 4
func TestFleetSuspended(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newMemoryLedger(2 * time.Millisecond)
		l := &link{counter: &slidingWindow{limit: 100, window: time.Second}, headers: true}
		g := joinFleet(t, d, Plan{Rate: Rate{100, time.Second}})
		l.busy(t, g, 4, 10*time.Second)
		g.mu.Lock()
		require.Greater(t, len(g.fleet.leases), 20)
		g.fleet.wall = g.fleet.wall.Add(-time.Minute) // the machine's clock has gone on for a minute
		g.mu.Unlock()
		before := d.exchanges()
		require.NoError(t, l.ask(t, g))
		require.Equal(t, before+1, d.exchanges(), "a new lease")
		require.NoError(t, g.Close())
	})
}
