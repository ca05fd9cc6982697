package browse

import (
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

// A value that is too large for an answer is not copied. Invariant 6
func TestLargeValuesAreNotCopied(t *testing.T) {
	const size = 4 << 20
	texts := array.NewStringBuilder(memory.DefaultAllocator)
	lists := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64)
	for _, n := range []int{3, size} {
		texts.Append(strings.Repeat("x", n))
		lists.Append(true)
		for i := range n {
			lists.ValueBuilder().(*array.Int64Builder).Append(int64(i))
		}
	}
	for want, a := range map[string]arrow.Array{"xxx": texts.NewArray(), "[0,1,2]": lists.NewArray()} {
		schema := arrow.NewSchema([]arrow.Field{schemas.Field("v", a.DataType(), "")}, nil)
		b := array.NewRecordBatch(schema, []arrow.Array{a}, 2)
		r := collector{limits: Limits{Rows: 10, Bytes: 100_000}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.ErrorIs(t, r.add(b), errEnough)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size/2))
		require.Contains(t, r.Cut, "more than 100000 bytes")
		require.Equal(t, [][]any{{want}}, r.Rows)
	}
}
