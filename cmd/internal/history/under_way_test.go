package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/state"
)

func TestRunsUnderWay(t *testing.T) {
	m, noon := loadtest.NewMemory(nil), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	row := func(run, pipeline, status string) []any { return []any{run, pipeline, noon, nil, status, "{}", nil} }
	require.NoError(t, load.CommitRows(t.Context(), m, state.Key{Pipeline: "nightly", Stream: "runs"}, "", "1", load.Pass{Run: "r", Whole: true}, load.Runs,
		row("r1", "nightly", "failed"), row("r4", "nightly", "running"), // in progress
		row("r2", "hourly", "running"), row("r3", "hourly", "complete"), // r2 was killed
		row("r5", "daily", "complete")))
	all, err := RunsUnderWay(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, []RunUnderWay{{"r4", "nightly", noon}}, all)
}
