package serve

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// Many unverified deliveries cause few runs, and the last of them causes a run too. If no streams are listed,
// they cause none.
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
				require.Len(t, at, 11, "at once, every minute, and once for the last")
				for i := 1; i < len(at); i++ {
					require.GreaterOrEqual(t, at[i].Sub(at[i-1]), time.Minute)
				}
			})
		})
	}
}
