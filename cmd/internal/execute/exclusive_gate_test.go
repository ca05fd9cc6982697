package execute

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A unit that must run alone is admitted when no other unit runs. After it has waited for the time gatePatience, no
// other unit is admitted.
func TestExclusiveGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q exclusiveGate
		require.True(t, q.enter())
		require.False(t, q.enterAlone())
		require.True(t, q.enter(), "at first, other units are still admitted")
		time.Sleep(gatePatience + time.Second)
		require.False(t, q.enterAlone())
		require.False(t, q.enter(), "after gatePatience, no other unit is admitted")
		q.leave()
		require.False(t, q.enterAlone())
		q.leave()
		require.True(t, q.enterAlone())
		require.False(t, q.enter())
		require.False(t, q.enterAlone())
		q.leaveAlone()
		require.True(t, q.enter())
	})
}
