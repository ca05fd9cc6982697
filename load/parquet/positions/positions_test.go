package positions

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"
)

// Rows are deleted in several steps. In each step, the list must say which rows are left.
func TestWith(t *testing.T) {
	const rows = 1000
	random := rand.New(rand.NewPCG(1, 2))
	var left []uint32
	for i := range uint32(rows) {
		left = append(left, i)
	}
	var l List
	for len(left) > 1 {
		var gone []uint32
		var next []uint32
		for i, row := range left {
			if random.IntN(4) == 0 {
				gone = append(gone, uint32(i))
			} else {
				next = append(next, row)
			}
		}
		before := slices.Clone(l)
		longer := l.With(gone)
		require.Equal(t, before, l, "a list never changes")
		l, left = longer, next
		require.True(t, slices.IsSorted(l))
		require.Len(t, l, rows-len(left))
		require.Equal(t, left, liveRows(l, rows))
		text, err := json.Marshal(l)
		require.NoError(t, err)
		var again List
		require.NoError(t, json.Unmarshal(text, &again))
		require.Equal(t, l, again)
	}
}

func liveRows(l List, rows int) (out []uint32) {
	for first := 0; first < rows; first += 64 {
		n := min(64, rows-first)
		live, rest := l.Live(int64(first), n)
		l = rest
		if live == nil {
			for i := range n {
				out = append(out, uint32(first+i))
			}
			continue
		}
		for _, i := range live.(*array.Int32).Int32Values() {
			out = append(out, uint32(first)+uint32(i))
		}
		live.Release()
	}
	return out
}

func TestBadText(t *testing.T) {
	for _, text := range []string{"!", "gA", "AAA", "/////////////w"} {
		var l List
		require.Error(t, l.UnmarshalText([]byte(text)), text)
	}
	var l List
	require.NoError(t, l.UnmarshalText(nil))
	require.Empty(t, l)
}
