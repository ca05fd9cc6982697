package pipeline

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/load"
)

// TestFirstRunOfADayRemovesOldCertificates: the first run of a day removes certificates that are older than Keep, and
// records this in its row. Later runs of the day remove nothing.
func TestFirstRunOfADayRemovesOldCertificates(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 3), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	now := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	r.config.Now = func() time.Time { now = now.Add(time.Second); return now }
	r.config.Keep = 36 * time.Hour
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
	r.config.Keep = 0
	now = now.Add(1000 * time.Hour)
	r.must(StatusComplete)
	require.Len(t, r.certificates("crm_leads"), 5, "without a limit, all certificates stay")
}
