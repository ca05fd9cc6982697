package encode

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/penstock-data/penstock/schemas"
)

// AddAll must not fall back to arrow-go's writer. The tests of load/parquet compare the files of both writers.
func TestAllTypesAreEncodable(t *testing.T) {
	for _, of := range []arrow.DataType{
		schemas.Text, schemas.Int64, schemas.Timestamp, schemas.Float64, schemas.Date, schemas.Bool, &arrow.Decimal128Type{Precision: 38, Scale: 10},
	} {
		for _, f := range []arrow.Field{{Name: "c", Type: of}, {Name: "c", Type: arrow.ListOf(of)}} {
			require.True(t, encodable(arrow.NewSchema([]arrow.Field{f}, nil)), "%s", f.Type)
		}
	}
}

func TestDictionaryFull(t *testing.T) {
	many, long := make([]string, dictionaryValues+1), make([]string, 600)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for i := range long {
		long[i] = fmt.Sprint(i, strings.Repeat("x", 1000))
	}
	for name, values := range map[string][]string{"many": many, "long": long} {
		d, a := newDictionary(arrow.BinaryTypes.String, &tools{}), listed(values)
		require.False(t, d.fill(a, 0, a.Len()), name)
	}
	d, a := newDictionary(arrow.BinaryTypes.String, &tools{}), listed(many[1:])
	require.True(t, d.fill(a, 0, a.Len()))
	require.Equal(t, dictionaryValues, d.values)
}

func listed(values []string) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues(values, nil)
	return b.NewArray()
}

func TestHybrid(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		width := rapid.UintRange(1, 20).Draw(r, "width")
		var want []uint32
		for range rapid.IntRange(0, 9).Draw(r, "runs") {
			v := rapid.Uint32Max(1<<width-1).Draw(r, "value")
			for range rapid.SampledFrom([]int{1, 1, 2, 7, 8, 9, 40}).Draw(r, "times") {
				want = append(want, v)
			}
		}
		b := appendHybrid(nil, want, width)
		require.Equal(r, want, unhybrid(b, width, len(want)))
	})
}

func unhybrid(b []byte, width uint, n int) (out []uint32) {
	bit := func(at int) uint32 { return uint32(b[at/8]>>(at%8)) & 1 }
	for at := 0; len(out) < n; {
		head, shift := 0, 0
		for {
			head |= int(b[at]&0x7f) << shift
			shift += 7
			if at++; b[at-1] < 0x80 {
				break
			}
		}
		times, values := head>>1, 1
		if head&1 == 1 {
			times, values = 1, head>>1*8
		}
		start := at * 8
		for range values {
			var v uint32
			for i := range int(width) {
				v |= bit(start+i) << i
			}
			start += int(width)
			for range times {
				out = append(out, v)
			}
		}
		at = (start + 7) / 8
	}
	return out[:n:n]
}
