package execute

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// completeIn returns the series that are complete in Work. It checks that each run counts once in its series.
func completeIn(t *testing.T, work []state.Work) map[state.Series]bool {
	t.Helper()
	of := map[state.Series]bool{}
	for _, w := range work {
		require.Equal(t, int64(1), w.Runs)
		require.NotContains(t, of, w.Series)
		of[w.Series] = !w.Complete.IsZero()
	}
	return of
}

func historyUnit(t *testing.T, source, stream string, planned int) state.Unit {
	t.Helper()
	report, err := json.Marshal(fleet.UnitReport{Status: pipeline.StatusComplete, Streams: []pipeline.StreamReport{{Stream: stream, Status: pipeline.StatusComplete}}})
	require.NoError(t, err)
	return state.Unit{Run: "r", Pipeline: "p", Source: source, Part: stream, Planned: planned, State: state.UnitDone, Report: report}
}

// A pipeline is complete only if all streams of all sources are, and a stream only if it was read from all sources.
func TestUnitsWork(t *testing.T) {
	t.Parallel()
	all, leads, deals := state.Series{Pipeline: "p"}, state.Series{Pipeline: "p", Stream: "crm.leads"}, state.Series{Pipeline: "p", Stream: "crm.deals"}
	a, b := state.Series{Pipeline: "p", Source: "a"}, state.Series{Pipeline: "p", Source: "b"}
	units := func() []state.Unit {
		return []state.Unit{historyUnit(t, "a", "crm.leads", 4), historyUnit(t, "a", "crm.deals", 4), historyUnit(t, "b", "crm.leads", 4), historyUnit(t, "b", "crm.deals", 4)}
	}
	lost := units()
	lost[3].State, lost[3].Report = state.UnitFailed, nil
	paused := units()[:2]
	paused[0].Planned, paused[1].Planned = 2, 2
	for name, c := range map[string]struct {
		units   []state.Unit
		streams []string
		want    map[state.Series]bool
	}{
		"whole":              {units(), nil, map[state.Series]bool{all: true, leads: true, deals: true, a: true, b: true}},
		"a unit failed":      {lost, nil, map[state.Series]bool{all: false, leads: true, deals: false, a: true, b: false}},
		"a source is paused": {paused, nil, map[state.Series]bool{all: false, leads: false, deals: false, a: true}},
		"some streams":       {units(), []string{"crm.*"}, map[state.Series]bool{all: false, leads: true, deals: true, a: false, b: false}},
		"units were removed": {units()[:3], nil, map[state.Series]bool{all: false, leads: false, deals: false, a: false, b: false}},
	} {
		r := Run{ID: "r", Streams: c.streams, Pipeline: config.Pipeline{Name: "p", MultiSource: true, From: []config.Ref{{Text: "a"}, {Text: "b"}}}}
		work := unitsWork(time.Now(), r, fleet.Joined("r", "p", c.units), c.units)
		require.Equal(t, c.want, completeIn(t, work), name)
	}
	one := Run{ID: "r", Pipeline: config.Pipeline{Name: "p", From: []config.Ref{{Text: "a"}}}}
	only := []state.Unit{historyUnit(t, "", "crm.leads", 1)}
	require.Equal(t, map[state.Series]bool{all: true, leads: true, a: true}, completeIn(t, unitsWork(time.Now(), one, fleet.Joined("r", "p", only), only)))
}

// Attempts at units do not count as runs, and are never complete.
func TestAttemptWork(t *testing.T) {
	t.Parallel()
	for _, w := range attemptWork(time.Now(), "p", "a", pipeline.Report{Run: "r", Status: pipeline.StatusComplete, Requests: 3, Allowed: 40}) {
		require.Equal(t, state.WorkCounts{Allowed: 40}, w.WorkCounts)
		require.Zero(t, w.Runs)
		require.Zero(t, w.Complete)
	}
}

// A run that leaves out a source is not complete, and neither are its streams.
func TestOutcomesReach(t *testing.T) {
	t.Parallel()
	c := &outcomes{all: fleet.NewOutcomes("r", "p"), run: Run{Pipeline: config.Pipeline{Name: "p", From: []config.Ref{{Text: "a"}, {Text: "b"}}}}}
	read := pipeline.Report{Run: "r", Pipeline: "p", Status: pipeline.StatusComplete, Streams: []pipeline.StreamReport{{Stream: "crm.leads", Status: pipeline.StatusComplete}}}
	c.all.Add("a", read, nil)
	for series, complete := range completeIn(t, runWork(time.Now(), c.all.Report(), c.reach(1))) {
		require.False(t, complete, series)
	}
	c.all.Add("b", pipeline.Report{}, errors.New("refused"))
	for series, complete := range completeIn(t, runWork(time.Now(), c.all.Report(), c.reach(2))) {
		require.False(t, complete, series)
	}
}

// A backfill of a range makes no stream complete, and a backfill of all records does.
func TestBackfillWork(t *testing.T) {
	t.Parallel()
	may := pipeline.Backfill{From: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)}
	for name, want := range map[string]bool{may.Name(): false, pipeline.Backfill{}.Name(): true} {
		r := pipeline.Report{Run: "r", Pipeline: "p", Status: pipeline.StatusComplete, Streams: []pipeline.StreamReport{{Stream: "crm.leads", Backfill: name, Status: pipeline.StatusComplete}}}
		for series, complete := range completeIn(t, runWork(time.Now(), r, reach{streams: true, sources: true})) {
			require.Equal(t, want, complete, "%s %v", name, series)
		}
	}
}

// A stopped run does not wait long for a history that another process has locked.
func TestHistoryOfStoppedRun(t *testing.T) {
	t.Parallel()
	c := &config.Config{State: config.State{Dir: t.TempDir()}}
	x := &Executor{Open: &open.Opener{Log: slog.New(slog.DiscardHandler)}}
	work := state.Work{Series: state.Series{Pipeline: "p"}, At: time.Now(), Runs: 1}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x.keepHistory(ctx, c, work)
	h, err := state.ReadHistory(t.Context(), c.State.Dir)
	require.NoError(t, err)
	defer h.Close()
	points, err := h.Points(t.Context(), []state.Series{work.Series}, time.Time{})
	require.NoError(t, err)
	require.Len(t, points, 1, "it is still written")
	lock, err := state.Acquire(t.Context(), filepath.Join(c.State.Dir, "history.db.lock"), time.Second)
	require.NoError(t, err)
	defer func() { require.NoError(t, lock.Release()) }()
	began := time.Now()
	x.keepHistory(ctx, c, work)
	require.Less(t, time.Since(began), 4*time.Second) // an open waits for 5 seconds
}
