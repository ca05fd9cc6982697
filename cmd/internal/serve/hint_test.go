package serve

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// Many unverified deliveries cause few runs. The last delivery causes a run too. If the configuration lists no streams,
// the deliveries cause no run.
func TestHintsAreBounded(t *testing.T) {
	for name, streams := range map[string][]string{"listed": {"v2.contacts"}, "off": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				p := r.pipeline("p", Plan{})
				p.Hinted = map[string][]string{"main": streams}
				var at []time.Time
				r.run = func(_ context.Context, o RunRequest) (pipeline.Report, error) {
					require.Equal(t, TriggerRefresh, o.Trigger)
					require.Equal(t, streams, o.Streams)
					at = append(at, time.Now())
					return pipeline.Report{Status: pipeline.StatusComplete}, nil
				}
				r.start(p)
				for range 60 * 10 * 10 {
					r.d.Hinted("main")
					r.d.Hinted("nobody")
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				r.stop()
				if streams == nil {
					require.Empty(t, at)
					return
				}
				require.Len(t, at, 11, "one run at once, one each minute, and one for the last delivery")
				for i := 1; i < len(at); i++ {
					require.GreaterOrEqual(t, at[i].Sub(at[i-1]), time.Minute)
				}
			})
		})
	}
}

// The run that a hint causes cannot begin, because another process has a run under way. The hint is not lost: the
// streams are read after the other run. There are few attempts, and scheduled runs do not wait for them.
// Invariant 3
func TestRefusedHintIsKept(t *testing.T) {
	for name, refusal := range map[string]error{"locked": fmt.Errorf("begin: %w", state.ErrLocked), "units": fmt.Errorf("plan: %w", state.ErrUnderWay)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				p := r.pipeline("p", plan(t, "@hourly", CatchUpOnce))
				p.Hinted = map[string][]string{"main": {"v2.contacts"}, "other": {"v2.deals"}}
				busy, tries, scheduled := time.Now().Add(3*time.Hour), 0, 0
				var read []time.Duration
				var streams []string
				r.run = func(_ context.Context, o RunRequest) (pipeline.Report, error) {
					switch {
					case o.Trigger != TriggerRefresh:
						scheduled++
						return pipeline.Report{Status: pipeline.StatusComplete}, nil
					case time.Now().Before(busy):
						tries++
						return pipeline.Report{}, refusal
					}
					read, streams = append(read, time.Since(busy)), o.Streams
					return pipeline.Report{Status: pipeline.StatusComplete}, nil
				}
				r.start(p)
				r.d.Hinted("main")
				time.Sleep(5 * time.Hour)
				synctest.Wait()
				r.stop()
				require.Len(t, read, 1)
				require.LessOrEqual(t, read[0], 11*time.Minute)
				require.Equal(t, []string{"v2.contacts", "v2.deals"}, slices.Sorted(slices.Values(streams)))
				require.Greater(t, tries, 5)
				require.Less(t, tries, 40, "the waits grow")
				require.GreaterOrEqual(t, scheduled, 4)
			})
		})
	}
}

// A refresh is a run that the code for webhook events requests. If a refresh is refused, the code gets one report.
func TestRefusedRefreshIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var mu sync.Mutex
		var refused [][]string
		p := r.pipeline("p", Plan{})
		p.Deltas = func(_ context.Context, some []string) (Deltas, error) {
			mu.Lock()
			defer mu.Unlock()
			if refused = append(refused, some); len(refused) == 1 {
				return Deltas{Refresh: []string{"crm.deals"}}, nil
			}
			return Deltas{}, nil
		}
		var runs int
		r.run = func(context.Context, RunRequest) (pipeline.Report, error) {
			mu.Lock()
			defer mu.Unlock()
			if runs++; runs == 1 {
				return pipeline.Report{}, state.ErrLocked
			}
			return pipeline.Report{Status: pipeline.StatusComplete}, nil
		}
		r.start(p)
		time.Sleep(time.Hour)
		synctest.Wait()
		r.stop()
		require.Equal(t, [][]string{nil, {"crm.deals"}, nil}, refused)
		require.Equal(t, 2, runs)
	})
}
