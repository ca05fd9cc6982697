package facts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/state"
)

// A stream shows the newest result of each configured check, those that have not passed first.
func TestChecksOfStreams(t *testing.T) {
	d, noon := loadtest.NewMemory(nil), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	row := func(run, stream, name, result string, failing int, examples, detail any) []any {
		return []any{run, "nightly", stream, "t", name, "unique", "warn", noon, result, failing, nil, examples, detail, 1}
	}
	require.NoError(t, load.CommitRows(t.Context(), d, state.Key{Pipeline: "nightly", Stream: "_run"}, "", "c", load.Pass{Run: "r2"}, load.Checks,
		row("r1", "crm.leads", "removed", "failed", 3, nil, nil), row("r1", "crm.leads", "d", "failed", 4, nil, nil), row("r1", "crm.leads", "a", "failed", 4, nil, nil), row("r2", "crm.leads", "a", "ok", 0, nil, nil), row("r2", "crm.leads", "b", "failed", 2, "[[7],[8]]", nil),
		row("r2", "crm.leads", "c", "error", 0, nil, "no column"), row("r1", "crm.deals", "a", "ok", 0, nil, nil)))
	b := &snapshot{part: DestinationPart{Name: "warehouse", Configured: func(_, check string) bool { return check != "removed" }}, streams: map[state.Key]*board.Stream{}}
	leads, deals := b.stream(state.Key{Pipeline: "nightly", Stream: "crm.leads"}), b.stream(state.Key{Pipeline: "nightly", Stream: "crm.deals"})
	require.NoError(t, b.readChecks(t.Context(), d))
	b.setChecks()
	var texts []string
	for _, c := range leads.Checks {
		texts = append(texts, c.Name+" "+c.Result+" "+c.Text)
	}
	require.Equal(t, []string{"b failed 2 rows fail", "c error no column", "d failed 4 rows fail", "a ok "}, texts)
	leads.Status, deals.Status = pipeline.StatusComplete, pipeline.StatusComplete
	require.Equal(t, board.ToneAttention, leads.Tone())
	require.Equal(t, board.ToneOK, deals.Tone())
}
