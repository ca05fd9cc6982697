//go:build iceberg

package iceberg

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/load/parquet/partition"
	"github.com/penstock-data/penstock/schemas"
)

// A sweep marks rows of 300 partitions as deleted. It must not have a file open for each of them, so it must succeed
// although only 100 more files can be opened. Invariant 6
func TestDeletesInManyPartitions(t *testing.T) {
	o := warehouse(t)
	o.PartitionBy = partition.Spec{Column: "id", Transform: partition.Truncate, Width: 10}
	o.Deletes = parquet.DeleteRule{MinSize: 1, MaxShare: 0.9}
	l := open(t, o)
	var rows, gone []loadtest.Row
	for i := range 3000 {
		rows = append(rows, loadtest.Row{"id": fmt.Sprint(i), "name": "x"})
		if i%10 == 0 {
			gone = append(gone, loadtest.Row{"id": fmt.Sprint(i), schemas.ColOrdinal: fmt.Sprint(i)})
		}
	}
	at, err := putAll(t, l, "", 1, partitionColumns, rows...)
	require.NoError(t, err)
	keys := loadtest.Batch(t, schemas.Table{Name: "things", Columns: arrow.NewSchema([]arrow.Field{partitionColumns[0], own[len(own)-1]}, nil)}, gone...)
	defer keys.Release()

	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	used, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	x, err := l.Begin(t.Context(), key, at, load.Pass{Run: run(2), Whole: true})
	require.NoError(t, err)
	low := before
	low.Cur = uint64(len(used) + 100)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low))
	defer func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)) }()
	out, err := x.Apply(t.Context(), load.Sweep{Table: "things", Keys: []arrow.RecordBatch{keys}, Delete: true})
	require.NoError(t, err)
	require.EqualValues(t, 300, out.Deleted)
	require.NoError(t, x.Commit(t.Context(), "at 2"))
	require.Len(t, read(t, o, "things"), 3000)
}
