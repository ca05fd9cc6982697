package statetest

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

var (
	nightly = state.Series{Pipeline: "nightly"}
	acme    = state.Series{Pipeline: "nightly", Source: "acme"}
	leads   = state.Series{Pipeline: "nightly", Stream: "crm.leads"}
)

func addHistory(t *testing.T, s state.Store, work ...state.Work) {
	t.Helper()
	h, err := s.OpenHistory(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Add(t.Context(), work))
	require.NoError(t, h.Close())
}

func pointsOf(t *testing.T, s state.Store, since time.Time, of ...state.Series) []state.Point {
	t.Helper()
	h, err := s.ReadHistory(t.Context())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	all, err := h.Points(t.Context(), of, since)
	require.NoError(t, err)
	require.NoError(t, h.Close())
	return all
}

func historyHours(t *testing.T, _ Rig, open func() state.Store) {
	a, b := opened(t, open), opened(t, open)
	require.Empty(t, pointsOf(t, a, day(0), nightly))
	counts := state.WorkCounts{Fetched: 1000, Written: 5, Deleted: 2, Rejected: 1, Requests: 11, Allowed: 60}
	addHistory(t, a) // nothing
	addHistory(t, a,
		state.Work{Series: nightly, At: day(3).Add(59 * time.Minute), Runs: 1, Took: 4 * time.Second, Complete: day(3).Add(59 * time.Minute), WorkCounts: counts},
		state.Work{Series: leads, At: day(3).Add(59 * time.Minute), Runs: 1, Took: time.Second, WorkCounts: state.WorkCounts{Fetched: 10}},
		state.Work{Series: acme, At: day(3).Add(59 * time.Minute), Runs: 1, Incomplete: 1, Took: 4 * time.Second},
		state.Work{Series: nightly, At: day(3), Runs: 1, Incomplete: 1, Took: 2500 * time.Microsecond, WorkCounts: counts})
	addHistory(t, b,
		state.Work{Series: nightly, At: day(3).Add(time.Minute), Runs: 1, Incomplete: 1, Took: time.Second, WorkCounts: counts},
		state.Work{Series: nightly, At: day(4), WorkCounts: counts},
		state.Work{Series: state.Series{Pipeline: "nightly2"}, At: day(4), Runs: 1})
	three := state.Point{Series: nightly, At: day(3), Width: time.Hour, Runs: 3, Incomplete: 2, Took: 5*time.Second + 2500*time.Microsecond, Longest: 4 * time.Second, Complete: day(3).Add(59 * time.Minute),
		WorkCounts: state.WorkCounts{Fetched: 3000, Written: 15, Deleted: 6, Rejected: 3, Requests: 33, Allowed: 180}}
	four := state.Point{Series: nightly, At: day(4), Width: time.Hour, WorkCounts: counts}
	require.Equal(t, []state.Point{three, four}, pointsOf(t, a, day(3), nightly))
	require.Equal(t, []state.Point{four}, pointsOf(t, b, day(3).Add(time.Second), nightly))
	both := pointsOf(t, a, day(0), leads, state.Series{Pipeline: "other"}, acme)
	require.Len(t, both, 2)
	require.Equal(t, []state.Series{leads, acme}, []state.Series{both[0].Series, both[1].Series}, "in the order of the request")
	require.Equal(t, int64(10), both[0].Fetched)
	require.Equal(t, int64(1), both[1].Incomplete)
}

func historyDays(t *testing.T, _ Rig, open func() state.Store) {
	s := opened(t, open)
	run := func(at time.Time, took time.Duration) {
		addHistory(t, s, state.Work{Series: leads, At: at, Runs: 1, Took: took, Complete: at, WorkCounts: state.WorkCounts{Written: 1}})
	}
	begin := day(0)
	for n := range 3 {
		run(begin.Add(time.Duration(n)*time.Hour), time.Duration(n+1)*time.Second)
	}
	for n := range 2 {
		run(begin.Add(time.Duration(24+n)*time.Hour), time.Second)
	}
	run(begin.Add(state.HourAge+24*time.Hour), time.Second)
	points := pointsOf(t, s, begin, leads)
	require.Len(t, points, 4, "three hours are one day, and the hours of later days stay hours")
	require.Equal(t, state.Point{Series: leads, At: begin, Width: 24 * time.Hour, Runs: 3, Took: 6 * time.Second, Longest: 3 * time.Second, Complete: begin.Add(2 * time.Hour), WorkCounts: state.WorkCounts{Written: 3}}, points[3])
	run(begin.Add(3*time.Hour), 9*time.Second) // a worker whose report is late
	run(begin.Add(state.HourAge+48*time.Hour), time.Second)
	points = pointsOf(t, s, begin, leads)
	require.Len(t, points, 4)
	require.Equal(t, []int64{4, 2}, []int64{points[2].Runs, points[3].Runs})
	require.Equal(t, 9*time.Second, points[2].Longest)
	run(begin.Add(state.HistoryAge+24*time.Hour), time.Second)
	points = pointsOf(t, s, begin, leads)
	require.Equal(t, begin.Add(24*time.Hour), points[1].At, "the first day is too old: %v", points)
}

// All processes add to the same points, in different orders. No run is lost or counted twice.
func historyShared(t *testing.T, _ Rig, open func() state.Store) {
	const processes, runs = 3, 20
	var wg sync.WaitGroup
	for p := range processes {
		s := opened(t, open)
		wg.Go(func() {
			for range runs {
				var work []state.Work
				for n := range 30 {
					work = append(work, state.Work{Series: state.Series{Pipeline: "p", Stream: fmt.Sprint((n*(p+1) + p) % 31)}, At: day(1), Runs: 1})
				}
				addHistory(t, s, work...)
			}
		})
	}
	wg.Wait()
	var of []state.Series
	for n := range 31 {
		of = append(of, state.Series{Pipeline: "p", Stream: fmt.Sprint(n)})
	}
	sum := int64(0)
	for _, p := range pointsOf(t, opened(t, open), day(0), of...) {
		sum += p.Runs
	}
	require.Equal(t, int64(processes*runs*30), sum)
}
