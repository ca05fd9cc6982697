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
	off  time.Duration // offset of its clock

	turn chan struct{}
	mu   sync.Mutex
	kept map[string][]byte
	down bool
	n    int
}

func newMemoryLedger(trip time.Duration) *memoryLedger {
	return &memoryLedger{trip: trip, off: -3 * time.Hour, turn: make(chan struct{}, 1), kept: map[string][]byte{}}
}

func (d *memoryLedger) ChangeBudget(ctx context.Context, name string, change func(time.Time, []byte) ([]byte, error)) error {
	time.Sleep(d.trip/2 + rand.N(d.trip/4+1))
	defer func() { time.Sleep(d.trip/2 + rand.N(d.trip/4+1)) }()
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

// Workers on several hosts that share a ledger keep one limit, for every way in which the server counts. The short form
// has each limit and each number of workers. // Invariant 4
func TestFleet(t *testing.T) {
	for _, workers := range []int{1, 4, 16} {
		for _, limit := range []Rate{{100, time.Second}, {60, time.Minute}} {
			for name, model := range modelsOf(limit) {
				t.Run(fmt.Sprintf("%s %s by %d", name, limit, workers), func(t *testing.T) {
					if testing.Short() && (workers == 4) != (limit.Window == time.Minute) {
						t.Skip("runs in the long form")
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
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			g := joinFleet(t, d, Plan{Rate: limit})
			l.busy(t, g, max(8, limit.Limit/workers/2), 15*limit.Window)
			require.NoError(t, g.Close())
		})
	}
	wg.Wait()
	used := float64(between(l.Arrivals, begin.Add(7*limit.Window), begin.Add(14*limit.Window))) / float64(7*limit.Limit)
	t.Logf("used %.2f%%, %d requests, %d exchanges", 100*used, len(l.Arrivals), d.n)
	require.Empty(t, l.Refused, "429s")
	require.LessOrEqual(t, maxInWindow(l.Arrivals, limit.Window), limit.Limit, "arrivals in one window")
	require.GreaterOrEqual(t, used, 0.95, "used share")
}

// When one worker's 429 closes the gate, the gate closes for all. While the ledger does not answer, nothing is sent.
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
