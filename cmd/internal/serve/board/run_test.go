package board_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
)

func TestProblemsOfRun(t *testing.T) {
	d := board.RunDetail{Passes: []board.Pass{
		{Stream: "d", Status: pipeline.StatusComplete, Verdict: pipeline.Proven}, {Stream: "c", Status: pipeline.StatusHeld},
		{Stream: "b", Status: pipeline.StatusComplete, Verdict: pipeline.Contradicted}, {Stream: "z", Status: pipeline.StatusFailed},
		{Stream: "e", Status: pipeline.StatusRunning}, {Stream: "a", Status: pipeline.StatusFailed},
	}}
	var streams []string
	for _, p := range d.Problems() {
		streams = append(streams, p.Stream)
	}
	require.Equal(t, []string{"a", "z", "b", "c"}, streams)
}

// A run in progress is not complete, so its counts need not add up yet.
func TestPageOfRunInProgress(t *testing.T) {
	f := telling(1, func(s string) string { return s })
	began := time.Date(2026, 7, 1, 22, 30, 0, 0, time.UTC)
	f.runs[0].Status, f.runs[0].Started, f.runs[0].Ended, f.runs[0].Zone = pipeline.StatusRunning, began, time.Time{}, "Europe/Berlin"
	f.runs[0].Counts = pipeline.Counts{Fetched: 10, Written: 4}
	f.runs[0].Passes[0].Error = "read crm.leads page 3: 500\ncommit crm.leads: disk full"
	s := boardOf(t, f, "")
	page, _, _ := s.page(t, "/runs/"+f.runs[0].ID, "")
	require.Contains(t, page, "so far")
	require.NotContains(t, page, "does not add up")
	require.Contains(t, page, "began 2 Jul 2026 00:30:00 CEST")
	require.Contains(t, page, "<p>read crm.leads page 3: 500</p><p>commit crm.leads: disk full</p><p class=\"remedy\">free some space</p>")
}

func TestGroupRejects(t *testing.T) {
	reject := func(stream, pointer, reason, raw string) board.Reject {
		return board.Reject{Pipeline: "p", Stream: stream, Destination: "w", Pointer: pointer, Reason: reason, Raw: raw}
	}
	groups := board.GroupRejects([]board.Reject{
		reject("a", "/x", "no number", "1"), reject("a", "/y", "no number", "2"), reject("b", "/x", "no number", "3"), reject("a", "/x", "too long", "4"),
		reject("a", "/y", "no number", "5"), reject("a", "/y", "no number", "6"),
	})
	require.Equal(t, board.Group{Pipeline: "p", Stream: "a", Destination: "w", Pointer: "/y", Reason: "no number", Count: 3, Example: "2"}, groups[0])
	require.Len(t, groups, 4)
	for _, g := range groups[1:] {
		require.Equal(t, 1, g.Count)
	}
	require.Empty(t, board.GroupRejects(nil))
}

// The first page counts all rejects of the list, not only those on the page.
func TestRejectsAreGrouped(t *testing.T) {
	f := telling(1, func(s string) string { return s })
	for range 4320 {
		f.rejects = append(f.rejects, f.rejects[0])
	}
	s := boardOf(t, f, "")
	first, _, _ := s.page(t, "/rejects", "")
	require.Contains(t, first, `class="n">4,321<`)
	second, _, _ := s.page(t, "/rejects?offset=1", "")
	require.NotContains(t, second, `class="n">4,321<`, "groups are on the first page only")
}
