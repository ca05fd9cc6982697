package parquet

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeyCacheEviction(t *testing.T) {
	const rows = recentRows / 2
	spilled := &scratch{dir: t.TempDir()}
	defer func() { require.NoError(t, spilled.close()) }()
	ring := newFolder("", nil, spilled).keys
	words := func(n int) []uint64 {
		w := make([]uint64, rows*wordsRow)
		for i := range w {
			w[i] = uint64(n*len(w) + i)
		}
		return w
	}
	name := func(n int) string { return fmt.Sprintf("%d.parquet", n) }
	keep := func(n int) *keylist {
		k, err := ring.keep(&file{Name: name(n), Rows: rows}, words(n))
		require.NoError(t, err)
		require.Same(t, k, ring.lists[name(n)])
		return k
	}
	for n := range 5 {
		keep(n)
	}
	require.Equal(t, []string{name(3), name(4)}, ring.recent)
	require.Equal(t, recentRows, ring.rows)
	require.Nil(t, spilled.f, "written")

	again := keep(0)
	require.NotNil(t, spilled.f)
	require.Len(t, ring.recent, 2)
	got, err := again.chunk(chunkRows, make([]uint64, chunkRows*wordsRow))
	require.NoError(t, err)
	require.Equal(t, words(0)[chunkRows*wordsRow:2*chunkRows*wordsRow], got)

	ring.prune(&manifest{Segments: []*segment{{Table: "t", Files: map[string]*file{"t": {Name: name(4)}}}}})
	require.Len(t, ring.lists, 1)
	require.Equal(t, []string{name(4)}, ring.recent)
	require.Equal(t, rows, ring.rows)
	require.Empty(t, ring.evicted)
	require.Len(t, spilled.idle[rows*wordsRow], 1)
}
