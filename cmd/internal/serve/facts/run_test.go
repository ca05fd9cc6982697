package facts

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/state"
)

// The counters of a run in progress never go back to the older counters of the destinations.
func TestProgressOfRunningRun(t *testing.T) {
	r := board.Run{Requests: 10, Counts: pipeline.Counts{Fetched: 900, Written: 900}}
	progress(&r, board.Running{Streams: 12, Ended: 5, Requests: 8, Records: 1200})
	require.Equal(t, board.Run{Requests: 10, Streams: 12, Open: 7, Counts: pipeline.Counts{Fetched: 1200, Written: 900}}, r)
}

// The page of a run shows the whole error of a stream and the hint that the command line prints.
func TestHintsOfRun(t *testing.T) {
	report, err := json.Marshal(map[string]any{"streams": []map[string]string{{"stream": "a", "destination": "w", "error": "read a: 401 unauthorized", "hint": "check auth"}}})
	require.NoError(t, err)
	d := board.RunDetail{Passes: []board.Pass{{Stream: "a", Destination: "w", Error: "read a: 40"}, {Stream: "b", Destination: "w", Error: "disk full"}}}
	recall(&d, state.RunRecord{Report: report})
	require.Equal(t, []board.Pass{{Stream: "a", Destination: "w", Error: "read a: 401 unauthorized", Hint: "check auth"}, {Stream: "b", Destination: "w", Error: "disk full"}}, d.Passes)
}
