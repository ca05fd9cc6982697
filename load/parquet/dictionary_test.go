package parquet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/penstock-data/penstock/load/parquet/partition"
	"github.com/penstock-data/penstock/schemas"
)

func textsOf(values []string, skip int) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	for _, v := range values {
		if v == "*" {
			b.AppendNull()
		} else {
			b.Append(v)
		}
	}
	whole := b.NewArray()
	defer whole.Release()
	return array.NewSlice(whole, int64(skip), int64(len(values)))
}

func TestDictionaryRoundTrip(t *testing.T) {
	at := newTable(schemas.Table{Name: "t", Key: []string{"word"}, Columns: arrow.NewSchema([]arrow.Field{
		schemas.Field("word", schemas.Text, "/word"), schemas.Field("same", schemas.Text, "/same"),
	}, nil)}, partition.Spec{})
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(r *rapid.T) {
		var batches [][]arrow.Array
		var rows []int
		var want []string
		word := rapid.SampledFrom([]string{"", "*", "a", "süd", "x\x00y", strings.Repeat("long", 99)})
		for range rapid.IntRange(1, 4).Draw(r, "parts") {
			values := rapid.SliceOfN(word, 1, 300).Draw(r, "values")
			skip := rapid.IntRange(0, len(values)-1).Draw(r, "skip")
			same := make([]string, len(values))
			batches = append(batches, []arrow.Array{textsOf(values, skip), textsOf(same, skip)})
			rows, want = append(rows, len(values)-skip), append(want, values[skip:]...)
		}
		n++
		w := newFileWriter(t, at, dir, fmt.Sprintf("%d.parquet", n))
		require.NoError(r, w.addAll(batches, rows))
		f, err := w.finish(t.Context())
		require.NoError(r, err)
		var got []string
		require.NoError(r, f.read(t.Context(), at, []string{"word", "same"}, func(_ int64, b []arrow.Array, rows int) error {
			for i := range rows {
				v := "*"
				if b[0].IsValid(i) {
					v = b[0].(*array.String).Value(i)
				}
				require.True(r, b[1].IsValid(i) && b[1].(*array.String).Value(i) == "")
				got = append(got, v)
			}
			return nil
		}))
		require.Equal(r, want, got)
	})
}
