package serve

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// If the source cannot return single records of a stream, a webhook causes a run of that stream.
func TestDeltas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var mu sync.Mutex // guards applied, orders and closed
		var applied []time.Duration
		begun := time.Now()
		answers := []Deltas{{}, {Applied: 3, ApplyAfter: 5 * time.Second}, {Refresh: []string{"crm.deals"}}, {}}
		p, closed := r.pipeline("p", Plan{}), 0
		p.Concurrent = true
		p.Deltas = func(context.Context, []string) (Deltas, error) {
			mu.Lock()
			defer mu.Unlock()
			applied = append(applied, time.Since(begun))
			if len(applied) > len(answers) {
				return Deltas{}, errors.New("inbox: disk full")
			}
			return answers[len(applied)-1], nil
		}
		at := func() []time.Duration {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(applied)
		}
		p.Close = func() { mu.Lock(); closed++; mu.Unlock() }
		var orders []RunRequest
		r.run = func(_ context.Context, o RunRequest) (pipeline.Report, error) {
			mu.Lock()
			defer mu.Unlock()
			orders = append(orders, o)
			return pipeline.Report{Status: pipeline.StatusComplete}, nil
		}
		r.start(p)
		require.Len(t, at(), 1, "events that an earlier process has left are applied at once")
		time.Sleep(10 * time.Second)
		r.d.Received("main")
		r.d.Received("other")
		time.Sleep(time.Minute)
		require.Equal(t, []time.Duration{0, 10 * time.Second, 15 * time.Second, 15*time.Second + applyPause}, at()[:4], "events are applied again when the run has ended")
		mu.Lock()
		require.Equal(t, []string{"crm.deals"}, orders[0].Streams)
		require.Equal(t, TriggerRefresh, orders[0].Trigger)
		mu.Unlock()
		for range 1000 {
			r.d.Received("main")
		}
		time.Sleep(applyRetry / 2)
		require.LessOrEqual(t, len(at()), 6, "many events are applied together")
		require.Error(t, seen[DeltasApplied](r)[4].Err)
		before := len(at())
		time.Sleep(applyRetry)
		require.Len(t, at(), before+1, "events are applied again after an error")

		r.d.Reload = func(context.Context) ([]Pipeline, error) { return []Pipeline{p}, nil }
		require.NoError(t, r.d.ReloadNow(t.Context()))
		synctest.Wait()
		mu.Lock()
		require.Equal(t, 1, closed, "the old definition is closed")
		mu.Unlock()
		r.stop()
		require.Equal(t, 2, closed)
	})
}

func TestDeltasBetweenRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		running, applying := false, false
		p := r.pipeline("p", plan(t, "@hourly", CatchUpOnce))
		work := func(is *bool, other *bool, d time.Duration) {
			require.False(t, *other)
			*is = true
			time.Sleep(d)
			*is = false
		}
		r.run = func(context.Context, RunRequest) (pipeline.Report, error) {
			work(&running, &applying, 20*time.Minute)
			return pipeline.Report{Status: pipeline.StatusComplete}, nil
		}
		applied := 0
		p.Deltas = func(context.Context, []string) (Deltas, error) {
			work(&applying, &running, 7*time.Second)
			applied++
			return Deltas{ApplyAfter: time.Second}, nil
		}
		r.start(p)
		time.Sleep(5*time.Hour - time.Minute)
		r.stop()
		require.Greater(t, applied, 1000)
		require.Len(t, seen[RunEnded](r), 4)
	})
}

// Received does not wait for a worker that is writing, because the sender of the event waits for Received.
func TestReceivedWaitsForNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start(r.pipeline("p", Plan{}))
		synctest.Wait()
		w, err := r.d.worker("p")
		require.NoError(t, err)
		w.mu.Lock()
		r.d.Received("main")
		w.mu.Unlock()
		r.stop()
	})
}

// The records of a run that has ended are written without a deadline. A deadline applies only while the daemon stops.
func TestOutlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		late, cancel := outlive(ctx)
		defer cancel()
		time.Sleep(10 * recordGrace)
		synctest.Wait()
		require.NoError(t, late.Err())
		stop()
		synctest.Wait()
		require.NoError(t, late.Err())
		time.Sleep(recordGrace)
		synctest.Wait()
		require.Error(t, late.Err())
	})
}
