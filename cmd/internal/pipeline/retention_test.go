package pipeline

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// TestFirstRunOfADayRemovesOldRows: the first run of a day removes rows of penstock's own tables that are older than
// Keep, and records this in its row. Later runs of the day remove nothing.
func TestFirstRunOfADayRemovesOldRows(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 3), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	now := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	r.config.Now = func() time.Time { now = now.Add(time.Second); return now }
	r.config.Keep, r.config.KeepEvents, r.config.From = 36*time.Hour, 60*time.Hour, "acme"
	event := []any{"acme", 1, "e", "lead.updated", now, "hmac", "mapped", `[]`, `{}`, nil}
	require.NoError(t, load.CommitRows(t.Context(), r.memory, state.Key{Pipeline: "acme", Stream: "events"}, "", "1", load.Pass{Run: "r0", Whole: true, Now: r.config.Now}, load.Events, event))
	var removedBy []int64
	for range 4 {
		for range 2 {
			run := r.must(StatusComplete).Run
			var counts runCounts
			for _, row := range r.memory.Rows(load.Runs.Name) {
				if row["run"] == run {
					require.NoError(t, json.Unmarshal([]byte(row["counts"]), &counts))
				}
			}
			var n int64
			if counts.Removed != nil {
				n = counts.Removed.Certificates
			}
			removedBy = append(removedBy, n)
		}
		now = now.Add(24 * time.Hour)
	}
	per := int64(len(r.certificates("crm_leads"))) / 4
	require.Equal(t, []int64{0, 0, 0, 0, 2, 0, 2, 0}, removedBy)
	require.EqualValues(t, 1, per, "the certificates of two days stay")
	require.Len(t, r.memory.Rows(load.Runs.Name), 4, "the runs of two days stay")
	require.Empty(t, r.memory.Rows(load.Events.Name), "the webhook event is too old")
	r.config.Keep = 0
	now = now.Add(1000 * time.Hour)
	r.must(StatusComplete)
	require.Len(t, r.certificates("crm_leads"), 5, "without a limit, all certificates stay")
}

// A run that was killed may have removed old rows without a record of it. The next run records this possibility in the
// row of the killed run. // Invariant 14
func TestKilledRunMayHaveRemovedRows(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 3), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	for _, keep := range []time.Duration{0, 36 * time.Hour} {
		r.config.Keep = keep
		steps := 0
		r.restart(func(string) error {
			if steps++; steps > 8 { // after the row says that the run is in progress
				return errors.New("killed")
			}
			return nil
		})
		_, _ = r.run(t.Context())
		r.restart(nil)
		begun := time.Now()
		r.must(StatusComplete)
		var all []runCounts
		for _, row := range r.memory.Rows(load.Runs.Name) {
			if row["status"] == string(StatusFailed) {
				var counts runCounts
				require.NoError(t, json.Unmarshal([]byte(row["counts"]), &counts))
				all = append(all, counts)
			}
		}
		last := all[len(all)-1].Removed
		if keep == 0 {
			require.Nil(t, last, "without a limit, runs remove nothing")
			continue
		}
		require.NotEmpty(t, last.Error)
		require.WithinDuration(t, begun.Add(-keep), last.Before, time.Hour)
	}
}
