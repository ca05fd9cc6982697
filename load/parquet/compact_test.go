package parquet

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

// The sizes of the segments that commits add alternate between size classes. The number of segments must stay small, and
// their order must stay the same, because it is the order of the versions. Invariant 6
func TestVersionsOfAnySize(t *testing.T) {
	for _, c := range []struct {
		sizes   []int64
		commits int
		most    int
	}{
		{[]int64{5, 40}, 500, 2 * mergeMixedCount},
		{[]int64{1, 10, 100}, 200, 2 * mergeMixedCount},
		{[]int64{5, smallRows}, 1500, mergeLargeCount},
	} {
		t.Run(fmt.Sprint(c.sizes), func(t *testing.T) {
			of := &table{Name: "t", Mode: schemas.History}
			var segs []*segment
			row := map[*segment][2]int64{} // the first row of a segment, and the row after its last one
			add := func(at int, first, end int64) {
				s := &segment{Table: "t", Files: map[string]*file{"t": {Rows: end - first}}}
				row[s] = [2]int64{first, end}
				segs = slices.Insert(segs, at, s)
			}
			rows, most := int64(0), 0
			for range c.commits {
				for _, n := range c.sizes {
					add(len(segs), rows, rows+n)
					rows += n
				}
				for like := mergeable(of, segs); like != nil; like = mergeable(of, segs) {
					at := slices.Index(segs, like[0])
					require.Equal(t, like, segs[at:at+len(like)])
					first, end := row[like[0]][0], row[like[len(like)-1]][1]
					segs = slices.Delete(slices.Clone(segs), at, at+len(like))
					add(at, first, end)
				}
				most = max(most, len(segs))
			}
			require.Less(t, most, c.most)
			end := int64(0)
			for _, s := range segs {
				require.Equal(t, end, row[s][0])
				end = row[s][1]
			}
			require.Equal(t, rows, end)
		})
	}
}
