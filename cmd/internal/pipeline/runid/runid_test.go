package runid

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNew(t *testing.T) {
	at := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	var ids []string
	for i := range 2000 {
		ids = append(ids, New(at.Add(time.Duration(i)*time.Microsecond)))
	}
	require.True(t, slices.IsSorted(ids), "ids sort by time")
	require.Len(t, slices.Compact(ids), 2000, "ids are unique")
	require.Len(t, ids[0], 12)
	later := New(at.AddDate(40, 0, 0))
	require.Less(t, ids[0], later)
	require.Less(t, ids[0], ids[0]+"#2")
	require.Less(t, ids[0]+"#2", ids[1])
	require.Equal(t, at, Time(ids[0]))
	require.Zero(t, Time("by hand"))
}

// Ids of passes sort by the numbers of the passes, even after many attempts at a run.
func TestPassIDsSort(t *testing.T) {
	ids := []string{}
	for n := range int64(200) {
		ids = append(ids, OfPass("0dq1", n+1))
		require.Equal(t, n+1, Pass("0dq1", ids[n]), ids[n])
		require.Equal(t, OfPass("0dq1", n+2), After("0dq1", "0dq0#5", ids[n], ids[0]))
	}
	require.True(t, slices.IsSorted(ids), "%q", ids)
	require.Equal(t, []string{"0dq1", "0dq1#2"}, ids[:2])
	require.Len(t, slices.Compact(ids), 200)
	require.Zero(t, Pass("0dq1", "0dq2#3"))
	require.Equal(t, "0dq1", After("0dq1", "", "0dq0#3"))
}
