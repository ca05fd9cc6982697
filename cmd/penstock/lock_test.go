package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

// A daemon's run and its webhook events share the lock of their pipeline. Another process gets the lock when
// both are done.
func TestPipelineLocks(t *testing.T) {
	t.Parallel()
	s, h := &state.Folder{Dir: t.TempDir()}, newPipelineLocks()
	_, first, err := h.take(t.Context(), s, "p")
	require.NoError(t, err)
	_, second, err := h.take(t.Context(), s, "p")
	require.NoError(t, err)
	_, other, err := h.take(t.Context(), s, "q")
	require.NoError(t, err)
	other()
	first()
	_, err = lockPipeline(t.Context(), s, "p")
	require.ErrorIs(t, err, state.ErrLocked)
	second()
	lease, err := lockPipeline(t.Context(), s, "p")
	require.NoError(t, err)
	_, _, err = h.take(t.Context(), s, "p")
	require.ErrorIs(t, err, state.ErrLocked)
	require.NoError(t, lease.Release())
	_, again, err := h.take(t.Context(), s, "p")
	require.NoError(t, err)
	again()
	require.Same(t, h.turnsOf("p"), h.turnsOf("p"))
	require.Nil(t, (*pipelineLocks)(nil).turnsOf("p"))
}
