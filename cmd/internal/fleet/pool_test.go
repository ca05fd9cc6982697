package fleet_test

import (
	"context"
	"fmt"
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

// TestPoolTurns has sources with many jobs take turns with those that have few.
func TestPoolTurns(t *testing.T) {
	var order []string
	job := func(source string) fleet.Job {
		return fleet.Job{Source: source, Run: func(context.Context, func()) { order = append(order, source) }}
	}
	n := fleet.Pool{Width: 1, Most: 1}.Run(t.Context(), []fleet.Job{job("a"), job("a"), job("a"), job("b"), job("c"), job("c")})
	require.Equal(t, 6, n)
	require.Equal(t, []string{"a", "b", "c", "a", "c", "a"}, order)
}

// TestPoolBounds holds any mixture of jobs to what is allowed at once.
func TestPoolBounds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			p := fleet.Pool{Width: rapid.IntRange(1, 4).Draw(rt, "width"), Each: rapid.IntRange(1, 2).Draw(rt, "each"), Patience: time.Second}
			p.Most = p.Width * rapid.IntRange(1, 3).Draw(rt, "most")
			var mu sync.Mutex
			all, of := 0, map[string]int{}
			var done atomic.Int64
			var jobs []fleet.Job
			for i := range rapid.IntRange(0, 30).Draw(rt, "jobs") {
				source := fmt.Sprint(rapid.IntRange(0, 5).Draw(rt, "source"))
				busy := time.Duration(rapid.IntRange(0, 5).Draw(rt, "busy")) * 400 * time.Millisecond
				jobs = append(jobs, fleet.Job{Source: source, Run: func(_ context.Context, beat func()) {
					mu.Lock()
					all, of[source] = all+1, of[source]+1
					if all > p.Most || of[source] > p.Each {
						t.Errorf("job %d: %d at once of %d, %d of its source", i, all, p.Most, of[source])
					}
					mu.Unlock()
					time.Sleep(busy)
					mu.Lock()
					all, of[source] = all-1, of[source]-1
					mu.Unlock()
					done.Add(1)
				}})
			}
			require.Equal(t, len(jobs), p.Run(t.Context(), jobs))
			require.EqualValues(t, len(jobs), done.Load())
		})
	})
}

// TestPoolWaits lets sources that do not answer keep nobody from theirs.
func TestPoolWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var jobs []fleet.Job
		var mu sync.Mutex
		var good []time.Duration
		began := time.Now()
		for i := range 200 {
			hangs := i%20 == 0 // ten of them, for minutes
			jobs = append(jobs, fleet.Job{Source: fmt.Sprint(i), Run: func(_ context.Context, beat func()) {
				if hangs {
					time.Sleep(10 * time.Minute)
					return
				}
				for range 10 {
					time.Sleep(100 * time.Millisecond)
					beat()
				}
				mu.Lock()
				defer mu.Unlock()
				good = append(good, time.Since(began))
			}})
		}
		require.Equal(t, 200, fleet.Pool{Width: 8, Most: 32}.Run(t.Context(), jobs))
		// 190 of a second each, eight at once; each of the hanging took a place for two.
		require.Less(t, slices.Max(good), 32*time.Second)
	})
}

// TestPoolStops begins no job once it shall stop, and leaves none behind.
func TestPoolStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var under atomic.Int64
		var jobs []fleet.Job
		for i := range 50 {
			jobs = append(jobs, fleet.Job{Source: fmt.Sprint(i), Run: func(ctx context.Context, _ func()) {
				under.Add(1)
				defer under.Add(-1)
				<-ctx.Done()
				time.Sleep(time.Second)
			}})
		}
		time.AfterFunc(500*time.Millisecond, cancel)
		require.Equal(t, 4, fleet.Pool{Width: 4, Most: 4}.Run(ctx, jobs))
		require.Zero(t, under.Load())
	})
}

// TestPoolThousands measures what sources in trouble cost the others: of 2,000,
// 500 fail at once and 500 hang for five minutes. Where that is known of them
// they come last, as a run over many sources has it, and cost nothing.
func TestPoolThousands(t *testing.T) {
	alone := last(t, func(i int) bool { return false }, false)
	known := last(t, func(i int) bool { return i%2 == 1 }, true)
	require.LessOrEqual(t, known, alone+alone/10, "alone %s, beside others %s", alone, known)
	t.Logf("1,000 sources alone %s, beside 1,000 known to be in trouble %s, not known %s", alone, known, last(t, func(i int) bool { return i%2 == 1 }, false))
}

// last is when the last of 1,000 sound sources is done. Those for which bad holds,
// of 2,000, are left out where there are none, and come last where they are known.
func last(t *testing.T, bad func(int) bool, known bool) (at time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex
		var sound, others []fleet.Job
		all := []fleet.Job{}
		for i := range 2000 {
			j := fleet.Job{Source: fmt.Sprint(i), Run: func(_ context.Context, beat func()) {
				switch {
				case bad(i) && i%4 == 1:
					time.Sleep(5 * time.Minute)
				case bad(i):
					time.Sleep(50 * time.Millisecond)
				default:
					for range 10 {
						time.Sleep(200 * time.Millisecond)
						beat()
					}
					mu.Lock()
					at = max(at, time.Since(began))
					mu.Unlock()
				}
			}}
			switch {
			case bad(i):
				others = append(others, j)
				all = append(all, j)
			case len(sound) < 1000:
				sound = append(sound, j)
				all = append(all, j)
			}
		}
		if known {
			all = append(sound, others...)
		}
		fleet.Pool{}.Run(t.Context(), all)
	})
	return at
}
