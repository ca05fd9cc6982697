package fleet_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/checks"
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

// The report of a run over several sources has the results of the checks of each source.
func TestOutcomesKeepChecks(t *testing.T) {
	t.Parallel()
	all := fleet.NewOutcomes("r", "p")
	for source, outcome := range map[string]checks.Outcome{"a": checks.OK, "b": checks.Failed} {
		stream := pipeline.StreamReport{Stream: "crm.leads", Status: pipeline.StatusComplete, Checks: []checks.Result{{Name: "given", Outcome: outcome, Failing: 2}}}
		all.Add(source, pipeline.Report{Run: "r", Status: pipeline.StatusComplete, Streams: []pipeline.StreamReport{stream}}, nil)
	}
	streams := all.Report().Streams
	require.Len(t, streams, 1)
	require.Len(t, streams[0].Checks, 2)
	for _, c := range streams[0].Checks {
		require.Equal(t, map[string]checks.Outcome{"a": checks.OK, "b": checks.Failed}[c.Source], c.Outcome)
		require.Equal(t, c.Source+" given: 2 rows fail", c.String())
	}
}

// The checks of a stream run after the last stream, so a unit with checks is settled only at the end of the attempt.
func TestUnitsWithChecksAreSettledAtTheEnd(t *testing.T) {
	t.Parallel()
	var settled []string
	units := []state.Unit{{Part: "crm.leads"}, {Part: "crm.deals"}, {Part: "hr.employees"}}
	a := fleet.NewAttempt(units, 1, time.Now, func(s string) string { return s }, func(all ...state.Unit) {
		for _, u := range all {
			settled = append(settled, u.Part)
		}
	})
	leads := pipeline.StreamReport{Stream: "crm.leads", Status: pipeline.StatusComplete, Unchecked: true}
	deals := pipeline.StreamReport{Stream: "crm.deals", Status: pipeline.StatusComplete}
	a.Event(pipeline.Event{Kind: pipeline.EventEnd, Report: &leads})
	a.Event(pipeline.Event{Kind: pipeline.EventEnd, Report: &deals})
	require.Equal(t, []string{"crm.deals"}, settled)
	leads.Checks = []checks.Result{{Name: "given", Outcome: checks.Failed, Failing: 2}}
	for _, u := range a.Settle(pipeline.Report{Status: pipeline.StatusComplete, Streams: []pipeline.StreamReport{leads, deals}}, nil, false) {
		if u.Part == "crm.leads" {
			require.Equal(t, "given: 2 rows fail", fleet.ReportOf(u).Streams[0].Checks[0].String())
		}
	}
}
