package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Slots whose connections open late, or whose process was suspended, are not used in the time of other
// workers. // Invariant 4
func TestFleetLateConnections(t *testing.T) {
	bubble(t, func(t *testing.T) {
		limit := Rate{20, time.Second}
		g := joinFleet(t, newMemoryLedger(2*time.Millisecond), Budget{Rate: limit})
		var sent []time.Time
		var slots []*slot
		for range 30 { // they all wait until the last of them gets a slot
			s, err := g.acquire(t.Context(), time.Minute)
			require.NoError(t, err)
			slots = append(slots, s)
		}
		w := newWatch(t.Context(), Timeouts{Idle: time.Minute, Total: time.Hour})
		defer w.stop()
		for _, s := range slots {
			s.hold(w, time.Minute)
			require.NoError(t, w.ctx.Err())
			s.wrote()
			sent = append(sent, time.Now())
		}
		require.LessOrEqual(t, maxInWindow(sent, limit.Window), limit.Limit)
		for _, s := range slots {
			s.done()
		}
		require.NoError(t, g.Close())
	})
}
