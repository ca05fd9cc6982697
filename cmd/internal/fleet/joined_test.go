package fleet_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// A run that has fewer units than planned is not complete, and its report says so. // Invariant 14
func TestJoinedMissingUnits(t *testing.T) {
	t.Parallel()
	report, err := json.Marshal(fleet.UnitReport{Status: pipeline.StatusComplete})
	require.NoError(t, err)
	var units []state.Unit
	for _, source := range []string{"a", "b", "c"} {
		units = append(units, state.Unit{Run: "r", Pipeline: "p", Source: source, Part: "crm.leads", Planned: 3, State: state.UnitDone, Report: report})
	}
	whole := fleet.Joined("r", "p", units)
	require.Equal(t, pipeline.StatusComplete, whole.Status)
	require.NoError(t, whole.Err)
	short := fleet.Joined("r", "p", units[:2])
	require.Equal(t, pipeline.StatusPartial, short.Status)
	require.EqualError(t, short.Err, "the run has 2 of the 3 units that it was planned with")
}
