package facts

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/state"
)

func workspaces(tb testing.TB, n int) *Facts {
	store := &state.Folder{Dir: tb.TempDir()}
	names := make([]string, n)
	s, err := store.OpenSources(tb.Context())
	require.NoError(tb, err)
	var records []state.SourceRecord
	for i := range n {
		names[i] = fmt.Sprintf("ws%04d", i)
		r := state.SourceRecord{Pipeline: "all", Source: names[i], Run: "r1", Status: "complete", At: time.Unix(1000, 0).UTC(), Rows: 3}
		switch {
		case i%3 == 0:
			r.Status, r.Failures, r.Error = "failed", 1, "401 unauthorized"
		case i%3 == 1:
			r.Status, r.Failures = "partial", 1
		}
		if i != n-1 { // the last one is new
			records = append(records, r)
		}
	}
	require.NoError(tb, s.Keep(tb.Context(), records))
	require.NoError(tb, s.Close())
	f := New(Config{Workspaces: Workspaces{Names: func() []string { return names }, State: store}}, &board.Feed{})
	return f
}

func TestSources(t *testing.T) {
	f, ctx := workspaces(t, 9), t.Context()
	all, err := f.Sources(ctx, board.Query{})
	require.NoError(t, err)
	var names []string
	for _, s := range all.Items {
		names = append(names, s.Name)
	}
	require.Equal(t, []string{"ws0000", "ws0003", "ws0006", "ws0001", "ws0004", "ws0007", "ws0008", "ws0002", "ws0005"}, names)
	require.Equal(t, board.StateCounts{All: 9, Failing: 3, Attention: 3, OK: 2, New: 1}, all.Tally)
	part, err := f.Sources(ctx, board.Query{Offset: 4, Limit: 2})
	require.NoError(t, err)
	require.Equal(t, all.Items[4:6], part.Items)
	require.Equal(t, 9, part.Total)
	found, err := f.Sources(ctx, board.Query{Source: "WS0003", Limit: 5})
	require.NoError(t, err)
	require.Len(t, found.Items, 1)
	require.Equal(t, "401 unauthorized", found.Items[0].Error)
	failing, err := f.Sources(ctx, board.Query{Status: "failing", Limit: 2})
	require.NoError(t, err)
	require.Equal(t, 3, failing.Total)
	require.Equal(t, 9, failing.Tally.All, "the tally counts all sources")

	require.NoError(t, f.PauseSource(ctx, "ws0002"))
	paused, err := f.Sources(ctx, board.Query{Status: "paused"})
	require.NoError(t, err)
	require.Equal(t, "ws0002", paused.Items[0].Name)
	require.NoError(t, f.ResumeSource(ctx, "ws0002"))
	paused, err = f.Sources(ctx, board.Query{Status: "paused"})
	require.NoError(t, err)
	require.Empty(t, paused.Items)
	require.ErrorIs(t, f.PauseSource(ctx, "nobody"), board.ErrUnknown)
}

func BenchmarkSources(b *testing.B) {
	f := workspaces(b, 5000)
	for b.Loop() {
		out, err := f.Sources(b.Context(), board.Query{Source: "ws4", Limit: 50})
		require.NoError(b, err)
		require.Equal(b, 1000, out.Total)
	}
}

func BenchmarkSourcesRead(b *testing.B) {
	f := workspaces(b, 5000)
	for b.Loop() {
		f.sourceList.forget()
		_, err := f.Sources(b.Context(), board.Query{Limit: 50})
		require.NoError(b, err)
	}
}
