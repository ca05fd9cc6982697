package statetest

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

func readSources(t *testing.T, s state.Store) (paused map[string]state.Pause, records []state.SourceRecord) {
	t.Helper()
	b, err := s.ReadSources(t.Context())
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]state.Pause{}, nil
	}
	require.NoError(t, err)
	paused, err = b.Paused(t.Context())
	require.NoError(t, err)
	records, err = b.Records(t.Context(), "")
	require.NoError(t, err)
	require.NoError(t, b.Close())
	return paused, records
}

func changeSources(t *testing.T, s state.Store, do func(state.Sources)) {
	t.Helper()
	b, err := s.OpenSources(t.Context())
	require.NoError(t, err)
	do(b)
	require.NoError(t, b.Close())
}

func sourcesPause(t *testing.T, _ Rig, open func() state.Store) {
	ctx, a, b := t.Context(), opened(t, open), opened(t, open)
	paused, records := readSources(t, a)
	require.Empty(t, paused)
	require.Empty(t, records)
	at := time.Date(2026, 11, 22, 3, 4, 5, 6000, time.UTC)
	changeSources(t, a, func(s state.Sources) {
		require.NoError(t, s.Pause(ctx, "acme", state.Pause{At: at, Why: "first\x00\xff"}))
		require.NoError(t, s.Pause(ctx, "acme", state.Pause{At: at.Add(time.Hour), Why: "contract ended"}))
		require.NoError(t, s.Pause(ctx, "Acme", state.Pause{At: at}))
	})
	paused, _ = readSources(t, b)
	require.Equal(t, map[string]state.Pause{"acme": {At: at.Add(time.Hour), Why: "contract ended"}, "Acme": {At: at}}, paused)
	changeSources(t, b, func(s state.Sources) {
		for _, want := range []bool{true, false} {
			was, err := s.Resume(ctx, "acme")
			require.NoError(t, err)
			require.Equal(t, want, was)
		}
	})
	paused, _ = readSources(t, a)
	require.Equal(t, map[string]state.Pause{"Acme": {At: at}}, paused)
}

// sourcesGone keeps the outcome of a source that no run reads any more, but not forever.
func sourcesGone(t *testing.T, _ Rig, open func() state.Store) {
	s, at := opened(t, open), time.Date(2026, 11, 22, 3, 4, 5, 6000, time.UTC)
	keep := func(source string, after time.Duration) {
		changeSources(t, s, func(s state.Sources) {
			require.NoError(t, s.Keep(t.Context(), []state.SourceRecord{{Pipeline: "p", Source: source, Run: "r", Status: "complete", At: at.Add(after)}}))
		})
	}
	keep("gone", 0)
	changeSources(t, s, func(s state.Sources) {
		require.NoError(t, s.Pause(t.Context(), "gone", state.Pause{At: at}))
	})
	for _, step := range []struct {
		after time.Duration
		left  []string
	}{
		{state.OutcomeAge, []string{"gone", "new"}},
		{state.OutcomeAge + time.Second, []string{"new"}},
		{-time.Second, []string{"late", "new"}}, // a worker whose report is late deletes nothing that is younger
	} {
		source := step.left[len(step.left)-1]
		if step.after < 0 {
			source = "late"
		}
		keep(source, step.after)
		paused, records := readSources(t, s)
		var left []string
		for _, r := range records {
			left = append(left, r.Source)
		}
		require.Equal(t, step.left, left)
		require.Contains(t, paused, "gone", "a person has paused it")
	}
}

func sourcesRecords(t *testing.T, _ Rig, open func() state.Store) {
	ctx, a, b := t.Context(), opened(t, open), opened(t, open)
	at := time.Date(2026, 11, 22, 3, 4, 5, 6000, time.UTC)
	keep := func(s state.Store, run, status string, silent bool, after time.Duration) {
		changeSources(t, s, func(s state.Sources) {
			r := state.SourceRecord{Pipeline: "p", Source: "acme", Run: run, Status: status, At: at.Add(after), Rows: 3, Requests: 4, Silent: silent}
			if status != "complete" {
				r.Failures, r.Error = 1, "it said \x00 no"
			}
			other := r
			other.Pipeline = "another"
			require.NoError(t, s.Keep(ctx, []state.SourceRecord{r, other}))
		})
	}
	for i, step := range []struct {
		run, status  string
		silent       bool
		failures     int
		wasComplete  bool
		completeStep int
	}{
		{"r1", "failed", true, 1, false, 0},
		{"r1", "failed", true, 1, false, 0},
		{"r2", "partial", false, 2, false, 0},
		{"r2", "complete", false, 0, true, 3},
		{"r2", "failed", false, 1, true, 3},
		{"r3", "failed", true, 2, true, 3},
		{"r4", "complete", false, 0, true, 6},
	} {
		keep([]state.Store{a, b}[i%2], step.run, step.status, step.silent, time.Duration(i)*time.Minute)
		_, records := readSources(t, []state.Store{b, a}[i%2])
		require.Len(t, records, 2)
		require.Equal(t, "another", records[0].Pipeline)
		want := state.SourceRecord{
			Pipeline: "p", Source: "acme", Run: step.run, Status: step.status, At: at.Add(time.Duration(i) * time.Minute),
			Failures: step.failures, Silent: step.silent, Rows: 3, Requests: 4, Error: records[1].Error,
		}
		if step.wasComplete {
			want.Complete = at.Add(time.Duration(step.completeStep) * time.Minute)
		}
		require.Equal(t, want, records[1], "step %d", i)
		require.Equal(t, step.status != "complete", want.Error != "")
	}
	s, err := a.ReadSources(ctx)
	require.NoError(t, err)
	of, err := s.Records(ctx, "p")
	require.NoError(t, err)
	require.Len(t, of, 1)
	require.NoError(t, s.Close())
}

func sourcesMany(t *testing.T, _ Rig, open func() state.Store) {
	ctx, s := t.Context(), opened(t, open)
	var records []state.SourceRecord
	for i := range 3000 {
		records = append(records, state.SourceRecord{Pipeline: "p", Source: fmt.Sprintf("ws-%05d", 2999-i), Run: "r", Status: "complete", At: time.Unix(1, 0)})
	}
	changeSources(t, s, func(b state.Sources) { require.NoError(t, b.Keep(ctx, records)) })
	_, got := readSources(t, s)
	require.Len(t, got, 3000)
	for i, r := range got {
		require.Equal(t, fmt.Sprintf("ws-%05d", i), r.Source)
	}
}
