package pipeline

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Destinations that share a reading have equal rows. Only counts and the times of deletion may differ.
func TestDestinationsOfOneReadingAreEqual(t *testing.T) {
	x := newTrio(t)
	x.into(nil, 0)
	before := x.source.Read
	rep := x.must(StatusComplete)
	require.Equal(t, x.source.Read-before, rep.Requests)

	for i, m := range x.memories {
		gone := map[string]int{}
		for _, row := range m.Rows("crm_leads") {
			if at, dead := row[schemas.ColDeletedAt]; dead {
				gone[at]++
			}
		}
		var counts runCounts
		for _, row := range m.Rows(load.Runs.Name) {
			if row["run"] == rep.Run {
				require.NoError(t, json.Unmarshal([]byte(row["counts"]), &counts))
			}
		}
		require.Len(t, gone, 1)
		require.Equal(t, rep.Streams[i].Counts, counts.Counts)
		require.Equal(t, map[Status]int{StatusComplete: 1}, counts.Streams)
	}
}
