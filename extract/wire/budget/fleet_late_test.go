package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A connection may open late, or the process may be suspended. Then permits expire, and the worker must not use them.
// Otherwise all workers together would exceed the limit. // Invariant 4
func TestFleetLateConnections(t *testing.T) {
	bubble(t, func(t *testing.T) {
		limit := Rate{20, time.Second}
		g := joinFleet(t, newMemoryLedger(2*time.Millisecond), Plan{Rate: limit})
		var sent []time.Time
		var permits []*Permit
		for range 30 { // no request is sent until the last permit has arrived
			p, err := g.Take(t.Context(), time.Minute)
			require.NoError(t, err)
			permits = append(permits, p)
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
		require.NoError(t, g.Close())
	})
}
