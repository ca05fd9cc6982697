package statetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

func unitsOf(t *testing.T, s state.Store) state.UnitStore {
	t.Helper()
	l, err := s.OpenUnits(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func unit(source, part string) state.Unit {
	return state.Unit{Run: "run1", Pipeline: "p", Source: source, Part: part}
}

func add(t *testing.T, j state.UnitStore, units ...state.Unit) []state.Unit {
	t.Helper()
	added, err := j.AddUnits(t.Context(), units)
	require.NoError(t, err)
	return added
}

func claim(t require.TestingT, j state.UnitStore, c state.Claim) []state.Unit {
	if c.For == 0 {
		c.For = time.Minute
	}
	units, err := j.ClaimUnits(contextOf(t), c)
	require.NoError(t, err)
	return units
}

func unitsClaim(t *testing.T, r Rig, open func() state.Store) {
	ctx, j := t.Context(), unitsOf(t, opened(t, open))
	require.Len(t, add(t, j, unit("s1", "a"), unit("s1", "b"), unit("s2", "a"), unit("", "a")), 4)
	require.Len(t, add(t, j, unit("s1", "a"), unit("s1", "a")), 1, "a unit that exists in the same run is returned unchanged, and only once")
	later := unit("s1", "a")
	later.Run = "run2"
	another := unit("s9", "z")
	another.Run = "run2"
	none, err := j.AddUnits(ctx, []state.Unit{another, later})
	require.ErrorIs(t, err, state.ErrUnderWay, "one of these units belongs to another run and has not ended there")
	require.ErrorIs(t, err, state.ErrLocked)
	require.ErrorContains(t, err, "run1", "the error names the other run")
	require.Empty(t, none)
	all, err := j.Units(ctx, state.UnitFilter{Run: "run2"})
	require.NoError(t, err)
	require.Empty(t, all, "after an error, no unit was added")

	got := claim(t, j, state.Claim{Worker: "w1"})
	require.Len(t, got, 2, "the worker gets all units of one source")
	for i, part := range []string{"a", "b"} {
		u := got[i]
		require.Equal(t, "s1 "+part, u.Source+" "+u.Part)
		require.Equal(t, state.UnitRunning, u.State)
		require.Equal(t, 1, u.Attempt)
		require.Equal(t, "w1", u.Worker)
		require.WithinDuration(t, time.Now(), u.Started, time.Minute)
	}
	only := ""
	require.Len(t, claim(t, j, state.Claim{Worker: "w2", Source: &only}), 1)
	require.Empty(t, claim(t, j, state.Claim{Worker: "w2", Unit: got[0].ID}), "another worker has claimed the unit")
	require.Empty(t, claim(t, j, state.Claim{Worker: "w2", Pipeline: "q"}))
	require.Len(t, claim(t, j, state.Claim{Worker: "w2", Run: "run1", Pipeline: "p", Limit: 1}), 1)
	require.Empty(t, claim(t, j, state.Claim{Worker: "w2"}))

	foreign := got[1]
	foreign.Worker, foreign.State = "w2", state.UnitDone
	got[0].State, got[0].Report = state.UnitDone, json.RawMessage(`{"rows":1}`)
	require.ErrorIs(t, j.EndAttempts(ctx, []state.Unit{foreign, got[0]}), state.ErrTaken, "one of the units belongs to another worker")
	all, err = j.Units(ctx, state.UnitFilter{Run: "run1"})
	require.NoError(t, err)
	require.Len(t, all, 4)
	require.Equal(t, state.UnitDone, all[0].State)
	require.JSONEq(t, `{"rows":1}`, string(all[0].Report))
	require.False(t, all[0].Ended.IsZero())
	all, err = j.Units(ctx, state.UnitFilter{Active: true, After: all[0].ID, Limit: 2})
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, state.UnitRunning, all[0].State, "the unit of the other worker is unchanged")
	want := 2
	if r.Shared {
		_, err = j.AddUnits(ctx, []state.Unit{another})
		require.ErrorIs(t, err, state.ErrUnderWay, "the other run has units that have not ended")
		want = 1
	} else {
		require.Len(t, add(t, j, later), 1, "the same unit has ended in the other run")
	}
	n, err := j.CancelUnits(ctx, state.UnitFilter{Pipeline: "p", Source: &later.Source})
	require.NoError(t, err)
	require.Equal(t, want, n, "the number of canceled units")
	n, err = j.CancelUnits(ctx, state.UnitFilter{Run: "run1"})
	require.NoError(t, err)
	require.Equal(t, 2, n, "units that have ended are not canceled")
	another.Planned = 1
	require.Equal(t, 1, add(t, j, another)[0].Planned)
}

func unitsClaimRace(t *testing.T, _ Rig, open func() state.Store) {
	const sources, workers = 30, 6
	j := unitsOf(t, opened(t, open))
	var all []state.Unit
	for n := range sources {
		all = append(all, unit(fmt.Sprint("s", n), "a"), unit(fmt.Sprint("s", n), "b"))
	}
	add(t, j, all...)
	var mu sync.Mutex
	seen := map[int64]int{}
	var wg sync.WaitGroup
	for w := range workers {
		own := unitsOf(t, opened(t, open))
		wg.Go(func() {
			for {
				got := claim(t, own, state.Claim{Worker: fmt.Sprint("w", w)})
				if len(got) == 0 {
					return
				}
				mu.Lock()
				for _, u := range got {
					seen[u.ID]++
				}
				mu.Unlock()
				for _, u := range got {
					u.State = state.UnitDone
					require.NoError(t, own.EndAttempts(t.Context(), []state.Unit{u}))
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, seen, 2*sources, "each unit must be claimed")
	for id, n := range seen {
		require.Equal(t, 1, n, "unit %d", id)
	}
}

func unitsTakenOver(t *testing.T, _ Rig, open func() state.Store) {
	ctx, j := t.Context(), unitsOf(t, opened(t, open))
	add(t, j, unit("s1", "a"), unit("s1", "b"))
	got := claim(t, j, state.Claim{Worker: "frozen", For: time.Millisecond})
	require.Len(t, got, 2)
	require.Eventually(t, func() bool { return len(claim(t, j, state.Claim{Worker: "heir", Unit: got[0].ID})) == 1 }, 5*time.Minute, 5*time.Millisecond)
	kept, err := j.ExtendClaims(ctx, "frozen", []int64{got[0].ID, got[1].ID}, time.Minute)
	require.NoError(t, err)
	require.Empty(t, kept, "the claim of the other unit must have expired too")
	u := got[0]
	u.State = state.UnitDone
	require.ErrorIs(t, j.EndAttempts(ctx, []state.Unit{u}), state.ErrTaken)
	require.Len(t, claim(t, j, state.Claim{Worker: "heir"}), 1, "the other unit can also be claimed")
	require.Empty(t, claim(t, j, state.Claim{Worker: "heir"}), "both units are claimed, and the claims have not expired")
	all, err := j.Units(ctx, state.UnitFilter{})
	require.NoError(t, err)
	require.Equal(t, 2, all[0].Attempt)
	require.Equal(t, 1, all[0].Broken)
}

// In unitsBroken, the worker disappears at each attempt at one of twenty units of a source. Of the units that were
// broken together, fewer and fewer are claimed together. In the end, this unit fails, and the others are completed.
// Invariant 15
func unitsBroken(t *testing.T, _ Rig, open func() state.Store) {
	ctx, j := t.Context(), unitsOf(t, opened(t, open))
	var units []state.Unit
	for n := range 20 {
		units = append(units, unit("s1", fmt.Sprintf("u%02d", n)))
	}
	add(t, j, units...)
	claimed := func(life time.Duration, suspect bool) (units []state.Unit) {
		require.Eventually(t, func() bool {
			units = claim(t, j, state.Claim{Worker: "w", For: life, Suspect: suspect})
			return len(units) > 0
		}, 5*time.Minute, time.Millisecond)
		return units
	}
	settle := func(next state.UnitState, units ...state.Unit) {
		for i := range units {
			units[i].State = next
		}
		require.NoError(t, j.EndAttempts(ctx, units))
	}
	const gone = time.Microsecond
	for range state.SuspectBroken {
		require.Len(t, claimed(gone, false), 20)
	}
	require.Len(t, claimed(gone, true), 16, "some suspect units are claimed together")
	require.Empty(t, claim(t, j, state.Claim{Worker: "w"}), "suspect units must not be claimed together with other units")
	last := claimed(time.Hour, true)
	require.Len(t, last, 4, "the units that were broken less often come first")
	require.Equal(t, state.SuspectBroken, last[0].Broken)
	settle(state.UnitWaiting, last...)
	last = claimed(time.Hour, false)
	require.Len(t, last, 4, "a worker has reported about these units, so they are no longer suspect")
	require.Zero(t, last[0].Broken)
	settle(state.UnitDone, last...)
	require.Len(t, claimed(gone, true), 4, "the group that has the first unit")
	for range 3 {
		group := claimed(time.Hour, true)
		require.Len(t, group, 4)
		settle(state.UnitDone, group...)
	}
	bad := claimed(gone, true)
	require.Len(t, bad, 1)
	for range 3 {
		other := claimed(time.Hour, true)
		require.Len(t, other, 1)
		require.NotEqual(t, bad[0].ID, other[0].ID)
		settle(state.UnitDone, other...)
	}
	for range state.MostBroken - bad[0].Broken - 1 {
		require.Equal(t, bad[0].ID, claimed(gone, true)[0].ID)
	}
	var left []state.Unit
	require.Eventually(t, func() bool {
		require.Empty(t, claim(t, j, state.Claim{Worker: "w", Suspect: true}))
		var err error
		left, err = j.Units(ctx, state.UnitFilter{})
		require.NoError(t, err)
		left = slices.DeleteFunc(left, func(u state.Unit) bool { return u.State == state.UnitDone })
		return left[0].State == state.UnitFailed
	}, 5*time.Minute, time.Millisecond)
	require.Len(t, left, 1)
	require.Equal(t, bad[0].ID, left[0].ID)
	require.Equal(t, state.MostBroken, left[0].Broken)
	require.False(t, left[0].Ended.IsZero())
}

func unitsParkAndCancel(t *testing.T, _ Rig, open func() state.Store) {
	ctx, j := t.Context(), unitsOf(t, opened(t, open))
	add(t, j, unit("s1", "a"), unit("s2", "a"))
	u := claim(t, j, state.Claim{Worker: "w"})[0]
	u.State, u.NotBefore = state.UnitParked, time.Now().Add(time.Hour).Truncate(time.Millisecond).UTC()
	require.NoError(t, j.EndAttempts(ctx, []state.Unit{u}))
	require.Empty(t, claim(t, j, state.Claim{Worker: "w", Unit: u.ID}), "a parked unit must not be claimed before its time NotBefore")
	early := claim(t, j, state.Claim{Worker: "w", Unit: u.ID, Early: true})
	require.Len(t, early, 1)
	u.Attempt = early[0].Attempt
	require.NoError(t, j.EndAttempts(ctx, []state.Unit{u}))
	all, err := j.Units(ctx, state.UnitFilter{Source: &u.Source})
	require.NoError(t, err)
	require.Equal(t, u.NotBefore, all[0].NotBefore)
	require.True(t, all[0].Ended.IsZero())
	running := claim(t, j, state.Claim{Worker: "w"})
	require.Len(t, running, 1)
	n, err := j.CancelUnits(ctx, state.UnitFilter{Run: "run1"})
	require.NoError(t, err)
	require.Equal(t, 2, n)
	kept, err := j.ExtendClaims(ctx, "w", []int64{running[0].ID}, time.Minute)
	require.NoError(t, err)
	require.Empty(t, kept, "ExtendClaims must no longer return the canceled units")
	running[0].State = state.UnitDone
	require.ErrorIs(t, j.EndAttempts(ctx, []state.Unit{running[0]}), state.ErrTaken)
	parked := u
	parked.Run = "run2"
	added := add(t, j, parked)
	require.Len(t, added, 1)
	require.Equal(t, u.NotBefore, added[0].NotBefore)
	require.Empty(t, claim(t, j, state.Claim{Worker: "w"}))
}

// Only the units of the last 20 runs are kept. // Invariant 6
func unitsForgotten(t *testing.T, _ Rig, open func() state.Store) {
	ctx, j := t.Context(), unitsOf(t, opened(t, open))
	for n := range 30 {
		u := unit("s", "a")
		u.Run = fmt.Sprintf("run%02d", n)
		require.Len(t, add(t, j, u), 1)
		got := claim(t, j, state.Claim{Worker: "w"})
		require.Len(t, got, 1)
		got[0].State = state.UnitFailed
		require.NoError(t, j.EndAttempts(ctx, []state.Unit{got[0]}))
	}
	all, err := j.Units(ctx, state.UnitFilter{})
	require.NoError(t, err)
	require.Len(t, all, 20)
	require.Equal(t, "run10", all[0].Run)
}

// If the last run has very many units, no units of earlier runs are kept. Invariant 6
func unitsForgottenMany(t *testing.T, _ Rig, open func() state.Store) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	ctx, j := t.Context(), unitsOf(t, opened(t, open))
	for _, run := range []string{"run1", "run2", "run3"} {
		units := make([]state.Unit, state.KeptUnits/2+1)
		for n := range units {
			units[n] = state.Unit{Run: run, Pipeline: "p", Source: fmt.Sprint(n), Part: "a"}
		}
		require.Len(t, add(t, j, units...), len(units))
		_, err := j.CancelUnits(ctx, state.UnitFilter{Run: run})
		require.NoError(t, err)
	}
	for run, kept := range map[string]int{"run1": 0, "run2": 0, "run3": 1} {
		units, err := j.Units(ctx, state.UnitFilter{Run: run, Limit: 1})
		require.NoError(t, err)
		require.Len(t, units, kept, run)
	}
}
