package fleet_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/penstock-data/penstock/cmd/internal/fleet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPoolOrder(t *testing.T) {
	var order []string
	job := func(source string, silent bool) fleet.Job {
		return fleet.Job{Silent: silent, Run: func(context.Context, func()) bool { order = append(order, source); return false }}
	}
	n := fleet.Pool{Width: 1, Most: 1}.Run(t.Context(), []fleet.Job{job("a", false), job("b", true), job("c", false), job("d", true)})
	require.Equal(t, 4, n)
	require.Equal(t, []string{"a", "c", "b", "d"}, order, "sources that were silent the last time come last")
}

func TestPoolBounds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			p := fleet.Pool{Width: rapid.IntRange(1, 4).Draw(rt, "width"), Patience: time.Second}
			p.Most = p.Width * rapid.IntRange(1, 3).Draw(rt, "most")
			var under, done atomic.Int64
			var jobs []fleet.Job
			for i := range rapid.IntRange(0, 30).Draw(rt, "jobs") {
				busy := time.Duration(rapid.IntRange(0, 5).Draw(rt, "busy")) * 400 * time.Millisecond
				jobs = append(jobs, fleet.Job{Run: func(_ context.Context, beat func()) bool {
					if all := int(under.Add(1)); all > p.Most {
						t.Errorf("job %d: %d jobs under way, want at most %d", i, all, p.Most)
					}
					time.Sleep(busy)
					under.Add(-1)
					done.Add(1)
					return false
				}})
			}
			require.Equal(t, len(jobs), p.Run(t.Context(), jobs))
			require.EqualValues(t, len(jobs), done.Load())
		})
	})
}

func TestPoolWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var jobs []fleet.Job
		var mu sync.Mutex
		var good []time.Duration
		began := time.Now()
		for i := range 200 {
			hangs := i%20 == 0
			jobs = append(jobs, fleet.Job{Run: func(ctx context.Context, beat func()) bool {
				if hangs {
					return sleep(ctx, 10*time.Minute)
				}
				for range 10 {
					sleep(ctx, 100*time.Millisecond)
					beat()
				}
				mu.Lock()
				defer mu.Unlock()
				good = append(good, time.Since(began))
				return false
			}})
		}
		require.Equal(t, 200, fleet.Pool{Width: 8, Most: 32}.Run(t.Context(), jobs))
		// 190 sources take a second each, eight at once; each hanging source takes one of the eight slots for two
		// seconds.
		require.Less(t, slices.Max(good), 32*time.Second)
	})
}

func TestPoolStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var under atomic.Int64
		var jobs []fleet.Job
		for range 50 {
			jobs = append(jobs, fleet.Job{Run: func(ctx context.Context, _ func()) bool {
				under.Add(1)
				defer under.Add(-1)
				<-ctx.Done()
				time.Sleep(time.Second)
				return true
			}})
		}
		time.AfterFunc(500*time.Millisecond, cancel)
		require.Equal(t, 4, fleet.Pool{Width: 4, Most: 4}.Run(ctx, jobs))
		require.Zero(t, under.Load())
	})
}

// If a destination is slow, the pool starts no further jobs, and puts off none: the sources are not silent.
func TestPoolSlowDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts, under, most atomic.Int64
		var jobs []fleet.Job
		for i := range 50 {
			jobs = append(jobs, fleet.Job{Run: func(ctx context.Context, beat func()) bool {
				attempts.Add(1)
				most.Store(max(most.Load(), under.Add(1)))
				defer under.Add(-1)
				for range 3 {
					if i%2 == 0 { // the job opens the destination before it reads
						time.Sleep(time.Minute)
					}
					if sleep(ctx, 100*time.Millisecond) {
						return true
					}
					beat()
					select {
					case <-time.After(time.Minute):
					case <-ctx.Done():
						return true
					}
				}
				return false
			}})
		}
		require.Equal(t, 50, fleet.Pool{Width: 4}.Run(t.Context(), jobs))
		require.EqualValues(t, 50, attempts.Load())
		require.EqualValues(t, 4, most.Load())
	})
}

// If all sources answer late, because the machine is busy, none of them is put off.
func TestPoolLateAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int64
		var jobs []fleet.Job
		for i := range 200 {
			jobs = append(jobs, fleet.Job{Run: func(ctx context.Context, beat func()) bool {
				attempts.Add(1)
				for range 5 {
					if sleep(ctx, time.Duration(3+i%3)*time.Second) {
						return true
					}
					beat()
				}
				return false
			}})
		}
		require.Equal(t, 200, fleet.Pool{Width: 4}.Run(t.Context(), jobs))
		require.EqualValues(t, 200, attempts.Load())
	})
}
