package render

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// If another process has committed to one of several destinations, the hint names that process. The destination itself
// is in order.
func TestRemedyMoved(t *testing.T) {
	moved := fmt.Errorf("commit: %w", state.ErrMoved)
	for _, status := range []pipeline.Status{pipeline.StatusLagging, pipeline.StatusFailed} {
		require.Contains(t, remedy(pipeline.StreamReport{Status: status, Err: moved}), "another process")
	}
	require.Contains(t, remedy(pipeline.StreamReport{Status: pipeline.StatusLagging, Err: fmt.Errorf("no answer")}), "the other destinations")
}
