package paging

import (
	"hash/maphash"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A comparison of two pages takes little memory, even if a page has 300,000 records. // Invariant 6
func TestCompareOfManyRecords(t *testing.T) {
	seed := maphash.MakeSeed()
	keys := func(from, n int) Hashes {
		var b Hashes
		for i := range n {
			b.Keys = append(b.Keys, maphash.Comparable(seed, from+i))
		}
		b.N = n
		return b
	}
	for _, n := range []int{100, 300_000} {
		for name, tt := range map[string]struct {
			other Hashes
			want  Likeness
		}{
			"the same":      {keys(0, n), SameRecords},
			"mostly":        {keys(n/10, n), MostlySame},
			"fewer":         {keys(0, n/2), FewerRecords},
			"others":        {keys(n, n), OtherRecords},
			"half of them":  {keys(n/2, n), OtherRecords},
			"none":          {Hashes{}, NoRecords},
			"more of these": {keys(0, 3*n), OtherRecords},
		} {
			require.Equal(t, tt.want, Compare(keys(0, n), tt.other), "%s of %d", name, n)
		}
	}
	large := keys(0, 300_000)
	allocated := testing.AllocsPerRun(1, func() { Compare(large, keys(1, 10)) })
	require.Less(t, allocated, 100.0)

	// A short last page has no records of the first page. The comparison must see that, although the first page is much
	// longer.
	for from := range 20 {
		last, equal, others := keys(300_000+from, 3), Hashes{N: 300_000}, Hashes{N: 300_000}
		require.Equal(t, OtherRecords, Compare(large, last))
		require.Equal(t, FewerRecords, Compare(large, keys(from, 3)))
		if from < 4 {
			equal.Keys, others.Keys = slices.Repeat(keys(from, 1).Keys, equal.N), slices.Repeat(last.Keys[:1], others.N)
			require.Equal(t, OtherRecords, Compare(equal, others))
			require.Equal(t, MostlySame, Compare(equal, Hashes{N: equal.N - 1, Keys: equal.Keys[1:]}))
		}
	}
}

func TestKeysStartAgainOnALargePage(t *testing.T) {
	page := func(from, n int, content uint64) Hashes {
		b := Hashes{N: n}
		for i := range n {
			k := uint64(from+i) * 0x9e3779b97f4a7c15
			b.Keys, b.Content = append(b.Keys, k), append(b.Content, k+content)
		}
		return b
	}
	for _, n := range []int{100, 300_000} {
		first := page(1, n, 0)
		require.True(t, Renamed(first, page(1, n, 1)))
		require.False(t, Renamed(first, page(1, n, 0)))
		require.True(t, Renamed(first, page(1, 5, 1)))
		for from := range 20 {
			require.False(t, Renamed(first, page(n+1+from, 5, 1)), "other keys")
		}
	}
	one := Hashes{N: 300_000, Keys: slices.Repeat([]uint64{1}, 300_000), Content: make([]uint64, 300_000)}
	require.False(t, Renamed(one, one), "one key that no sample contains")
}
