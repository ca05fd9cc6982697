package open

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

// A run of a daemon and the application of webhook events share the lock of the pipeline. Another process gets the lock
// only when both have released it.
func TestPipelineLocks(t *testing.T) {
	t.Parallel()
	s, h := &state.Folder{Dir: t.TempDir()}, &PipelineLocks{}
	_, first, err := h.Take(t.Context(), s, "p")
	require.NoError(t, err)
	_, second, err := h.Take(t.Context(), s, "p")
	require.NoError(t, err)
	_, other, err := h.Take(t.Context(), s, "q")
	require.NoError(t, err)
	other()
	first()
	_, err = LockPipeline(t.Context(), s, "p")
	require.ErrorIs(t, err, state.ErrLocked)
	second()
	lease, err := LockPipeline(t.Context(), s, "p")
	require.NoError(t, err)
	_, _, err = h.Take(t.Context(), s, "p")
	require.ErrorIs(t, err, state.ErrLocked)
	require.NoError(t, lease.Release())
	_, again, err := h.Take(t.Context(), s, "p")
	require.NoError(t, err)
	again()
	require.Same(t, h.StreamLocks("p"), h.StreamLocks("p"))
}
