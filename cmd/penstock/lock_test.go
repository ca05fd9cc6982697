package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/state"
)

// A daemon's run and its webhook events share the lock of their pipeline, and
// another process gets it once both are done.
func TestHolds(t *testing.T) {
	s, h := config.State{Dir: t.TempDir()}, newHolds()
	first, err := h.take(t.Context(), s, "p")
	require.NoError(t, err)
	second, err := h.take(t.Context(), s, "p")
	require.NoError(t, err)
	other, err := h.take(t.Context(), s, "q")
	require.NoError(t, err)
	other()
	first()
	_, err = lockPipeline(t.Context(), s, "p")
	require.ErrorIs(t, err, state.ErrLocked)
	second()
	unlock, err := lockPipeline(t.Context(), s, "p")
	require.NoError(t, err)
	_, err = h.take(t.Context(), s, "p")
	require.ErrorIs(t, err, state.ErrLocked)
	unlock()
	again, err := h.take(t.Context(), s, "p")
	require.NoError(t, err)
	again()
	require.Same(t, h.turnsOf("p"), h.turnsOf("p"))
	require.Nil(t, (*holds)(nil).turnsOf("p"))
}
