//go:build iceberg && unix

package iceberg

import (
	"fmt"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/parquet/partition"
	"github.com/penstock-data/penstock/schemas"
)

// If one source widens the column that partitions a shared table, the files of the other source are no longer
// partitioned by this column. Filters must still find their rows, and both sources must be able to commit.
func TestSharedPartitionWidens(t *testing.T) { everywhere(t, sharedPartitionWidens) }

func sharedPartitionWidens(t *testing.T, warehouse place) {
	for _, text := range []string{"count:identity", "count:truncate:1", "count:bucket:4"} {
		t.Run(text, func(t *testing.T) {
			o := warehouse(t)
			var err error
			o.PartitionBy, err = partition.Parse(text)
			require.NoError(t, err)
			berlin, boston := of(t, open(t, o), "berlin"), of(t, open(t, o), "boston")
			require.NoError(t, counted(t, berlin, "", "at 1", schemas.Int64, loadtest.Row{"id": "1", "count": "7"}, loadtest.Row{"id": "2", "count": "8"}))
			require.NoError(t, counted(t, boston, "", "at 1", schemas.Text, loadtest.Row{"id": "1", "count": "7"}, loadtest.Row{"id": "2", "count": "many"}))
			columnsOfManifestsExist(t, o)
			require.Equal(t, map[string]int{"7": 2, "8": 1, "many": 1, "": 0}, matching(t, o, "7", "8", "many", ""))
			require.NoError(t, counted(t, berlin, "at 1", "at 2", schemas.Int64, loadtest.Row{"id": "3", "count": "7"}))
			require.NoError(t, counted(t, boston, "at 1", "at 2", schemas.Text, loadtest.Row{"id": "3", "count": "few"}))
			require.Equal(t, map[string]int{"7": 3, "8": 1, "many": 1, "few": 1, "": 0}, matching(t, o, "7", "8", "many", "few", ""))
			require.Equal(t, map[string]string{"berlin1": "7", "berlin2": "8", "berlin3": "7", "boston1": "7", "boston2": "many", "boston3": "few"}, counts(t, o))
			uniqueFieldIDs(t, o)
			columnsOfManifestsExist(t, o)
		})
	}
}

// The first source commits a text column. The second source has integers in this column, and converts them to text in
// its files before it commits.
func TestSharedPartitionOfNarrower(t *testing.T) {
	for _, text := range []string{"count:identity", "count:truncate:1", "count:bucket:4"} {
		o := warehouse(t)
		var err error
		o.PartitionBy, err = partition.Parse(text)
		require.NoError(t, err)
		berlin, boston := of(t, open(t, o), "berlin"), of(t, open(t, o), "boston")
		require.NoError(t, counted(t, berlin, "", "at 1", schemas.Text, loadtest.Row{"id": "1", "count": "7"}, loadtest.Row{"id": "2", "count": "many"}))
		require.NoError(t, counted(t, boston, "", "at 1", schemas.Int64, loadtest.Row{"id": "1", "count": "7"}, loadtest.Row{"id": "2", "count": "8"}))
		require.NoError(t, counted(t, berlin, "at 1", "at 2", schemas.Text, loadtest.Row{"id": "3", "count": "few"}))
		require.NoError(t, counted(t, boston, "at 1", "at 2", schemas.Int64, loadtest.Row{"id": "3", "count": "7"}))
		require.Equal(t, map[string]int{"7": 3, "8": 1, "many": 1, "few": 1, "": 0}, matching(t, o, "7", "8", "many", "few", ""), text)
		uniqueFieldIDs(t, o)
	}
}

// matching scans the table once for each text, with a filter for this text. It returns the number of rows that each
// scan finds.
func matching(t *testing.T, o Options, texts ...string) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, text := range texts {
		rows, err := metadata(t, o, "things").Scan(table.WithRowFilter(is(iceberg.OpEQ, "count", text))).ToArrowTable(t.Context())
		require.NoError(t, err)
		out[text] = int(rows.NumRows())
		rows.Release()
	}
	return out
}

// uniqueFieldIDs checks that each ID of a partition field means one column and one transform in all specs of a table.
func uniqueFieldIDs(t *testing.T, o Options) {
	t.Helper()
	means := map[int]string{}
	for _, spec := range metadata(t, o, "things").Metadata().PartitionSpecs() {
		for _, f := range spec.Fields() {
			now := fmt.Sprint(f.SourceID(), f.Transform)
			if was, ok := means[f.FieldID]; ok {
				require.Equal(t, was, now, f.FieldID)
			}
			means[f.FieldID] = now
		}
	}
}

// columnsOfManifestsExist checks that the current snapshot has no manifest that is partitioned by a column that no
// longer exists: DuckDB cannot read such a table.
func columnsOfManifestsExist(t *testing.T, o Options) {
	t.Helper()
	things := metadata(t, o, "things")
	files, err := filesOf(t, o)(t.Context())
	require.NoError(t, err)
	list, err := things.CurrentSnapshot().Manifests(files)
	require.NoError(t, err)
	require.NotEmpty(t, list)
	for _, m := range list {
		spec := things.Metadata().PartitionSpecByID(int(m.PartitionSpecID()))
		for _, f := range spec.Fields() {
			_, ok := things.Schema().FindFieldByID(f.SourceID())
			require.True(t, ok, "a manifest is partitioned by %s", f.Name)
		}
	}
}

// The configured partitioning changes between the first commit of one source and the first commit of another source.
// Each source keeps its own partitioning.
func TestSharedPartitionings(t *testing.T) { everywhere(t, sharedPartitionings) }

func sharedPartitionings(t *testing.T, warehouse place) {
	o := warehouse(t)
	o.PartitionBy = partition.Spec{Column: "count", Transform: partition.Bucket, Width: 4}
	berlin := of(t, open(t, o), "berlin")
	require.NoError(t, counted(t, berlin, "", "at 1", schemas.Text, loadtest.Row{"id": "1", "count": "x"}))
	o.PartitionBy = partition.Spec{Column: "id", Transform: partition.Truncate, Width: 10}
	require.NoError(t, counted(t, of(t, open(t, o), "boston"), "", "at 1", schemas.Text, loadtest.Row{"id": "1", "count": "x"}))
	require.NoError(t, counted(t, berlin, "at 1", "at 2", schemas.Text, loadtest.Row{"id": "2", "count": "y"}))
	require.Equal(t, map[string]int{"x": 2, "y": 1, "z": 0}, matching(t, o, "x", "y", "z"))
	require.Len(t, metadata(t, o, "things").Metadata().PartitionSpecs(), 2)
	uniqueFieldIDs(t, o)
}
