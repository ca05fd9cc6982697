package fleet

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func TestPlan(t *testing.T) {
	streams := []schemas.Stream{named("a", "", ""), named("b", "", ""), named("a.child", "a", "")}
	units := Plan("r", "p", "s", streams)
	require.Len(t, units, 2)
	require.Equal(t, "a a.child", units[0].Part)
	require.Equal(t, []string{"a", "a.child", "b"}, StreamsOf(units))
	for _, u := range units {
		require.Equal(t, [3]string{"r", "p", "s"}, [3]string{u.Run, u.Pipeline, u.Source})
	}
}

func TestSettle(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	met := errors.New("met a hush thing")
	stream := func(s pipeline.Status, err error) pipeline.Report {
		return pipeline.Report{Status: s, Streams: []pipeline.StreamReport{{Stream: "a", Status: s, Err: err}}}
	}
	parkedUntil := func(d time.Duration) pipeline.Report {
		r := stream(pipeline.StatusParked, nil)
		r.Streams[0].NotBefore = now.Add(d)
		return r
	}
	for name, c := range map[string]struct {
		r     pipeline.Report
		err   error
		final bool
		fails int
		want  state.UnitState
		after time.Duration
	}{
		"complete":                     {r: stream(pipeline.StatusComplete, nil), want: state.UnitDone},
		"not entitled":                 {r: stream(pipeline.StatusUnavailable, met), want: state.UnitDone},
		"held":                         {r: stream(pipeline.StatusHeld, met), want: state.UnitDone},
		"stopped":                      {r: stream(pipeline.StatusStopped, met), want: state.UnitWaiting},
		"stopped before it began":      {r: pipeline.Report{Status: pipeline.StatusStopped}, err: met, want: state.UnitWaiting},
		"parked":                       {r: parkedUntil(time.Minute), want: state.UnitParked, after: time.Minute},
		"parked for too long":          {r: parkedUntil(3 * time.Hour), want: state.UnitDone},
		"another process has the lock": {err: fmt.Errorf("x: %w", state.ErrLocked), want: state.UnitParked, after: lockedPause},
		"failed":                       {r: stream(pipeline.StatusFailed, met), want: state.UnitWaiting, after: failedUnit.First},
		"failed again":                 {r: stream(pipeline.StatusFailed, met), fails: 1, want: state.UnitWaiting, after: 4 * failedUnit.First},
		"failed for the last time":     {r: stream(pipeline.StatusFailed, met), fails: failedUnit.Attempts - 1, want: state.UnitFailed},
		"refused":                      {r: stream(pipeline.StatusFailed, &wire.Error{Class: wire.Invalid}), want: state.UnitFailed},
		"the run is refused":           {err: fmt.Errorf("x: %w", &wire.Error{Class: wire.Auth}), want: state.UnitFailed},
		"no answer":                    {r: stream(pipeline.StatusFailed, &wire.Error{Class: wire.Transient}), want: state.UnitWaiting, after: failedUnit.First},
		"the run fails":                {err: met, want: state.UnitWaiting, after: failedUnit.First},
		"wrong configuration":          {err: met, final: true, want: state.UnitFailed},
		"wrong configuration, stopped": {r: pipeline.Report{Status: pipeline.StatusStopped}, err: met, final: true, want: state.UnitWaiting},
	} {
		t.Run(name, func(t *testing.T) {
			u := state.Unit{ID: 1, Part: "a", Attempt: 1, Report: fmt.Appendf(nil, `{"failures":%d}`, c.fails)}
			got := Settle([]state.Unit{u}, c.r, c.err, c.final, now, func(s string) string { return strings.ReplaceAll(s, "hush", "…") })
			require.Len(t, got, 1)
			require.Equal(t, c.want, got[0].State, string(got[0].Report))
			require.NotContains(t, string(got[0].Report), "hush")
			if c.after == 0 {
				require.True(t, got[0].NotBefore.IsZero())
				return
			}
			require.Equal(t, now.Add(c.after), got[0].NotBefore)
		})
	}
}

func TestLeft(t *testing.T) {
	left := EndUnread([]state.Unit{{ID: 1, Source: "x", Part: "a"}, {ID: 2, Source: "x", Part: "b"}}, "its source is paused")
	require.Len(t, left, 2)
	for _, u := range left {
		require.Equal(t, state.UnitDone, u.State)
		require.Equal(t, "its source is paused", ReportOf(u).Reason)
	}
	require.Equal(t, pipeline.StatusPartial, Joined("r", "p", left).Status)
}

// If workers died while they worked on a unit, the unit's report says so. It does not repeat what an earlier attempt
// reported.
func TestReportOfBroken(t *testing.T) {
	u := state.Unit{State: state.UnitFailed, Part: "a", Broken: state.MostBroken, Worker: "host/1", Report: []byte(`{"status":"stopped","why":"x"}`)}
	require.Contains(t, ReportOf(u).Reason, fmt.Sprintf("%d times while it worked on this unit, the last time on host/1", state.MostBroken))
	r := Joined("r", "p", []state.Unit{u})
	require.Equal(t, pipeline.StatusFailed, r.Status)
	require.ErrorContains(t, r.Err, "given up")
}

// Invariant 14
func TestJoined(t *testing.T) {
	unit := func(source string, s state.UnitState, status pipeline.Status) state.Unit {
		return state.Unit{Source: source, State: s, Report: fmt.Appendf(nil, `{"status":%q,"why":"so","requests":2,"streams":[{"stream":"a","status":%q}],"words":{"a":"it said no"}}`, status, status)}
	}
	done := unit("", state.UnitDone, pipeline.StatusComplete)
	for want, units := range map[pipeline.Status][]state.Unit{
		pipeline.StatusComplete: {done, done},
		pipeline.StatusPartial:  {done, unit("", state.UnitDone, pipeline.StatusUnavailable)},
		pipeline.StatusFailed:   {done, unit("", state.UnitFailed, pipeline.StatusFailed)},
		pipeline.StatusStopped:  {done, unit("", state.UnitCancelled, "")},
	} {
		r := Joined("r", "p", units)
		require.Equal(t, want, r.Status)
		require.Equal(t, 4, r.Requests)
		require.EqualError(t, r.Streams[0].Err, "it said no")
	}
	many := Joined("r", "p", []state.Unit{unit("x", state.UnitDone, pipeline.StatusComplete), unit("y", state.UnitFailed, pipeline.StatusFailed)})
	require.Equal(t, pipeline.StatusPartial, many.Status)
	require.Equal(t, 4, many.Requests)
}
