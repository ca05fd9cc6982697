package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A unit that must run alone enters when the gate is empty. When it has waited for a while, no other unit enters.
func TestExclusiveGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q exclusiveGate
		require.True(t, q.enter())
		require.False(t, q.enterAlone())
		require.True(t, q.enter(), "others go first")
		time.Sleep(gatePatience + time.Second)
		require.False(t, q.enterAlone())
		require.False(t, q.enter(), "but not forever")
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
