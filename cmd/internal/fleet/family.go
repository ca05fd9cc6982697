package fleet

import "github.com/penstock-data/penstock/schemas"

// Families groups the streams that one process must read together. A family is a parent with its child
// streams. Twins, two streams whose lists are compared with each other, are in one family too. Families
// are in the order of their first streams, and the streams of a family keep their order.
func Families(streams []schemas.Stream) [][]schemas.Stream {
	at := make(map[string]int, len(streams))
	root := make([]int, len(streams))
	for i, s := range streams {
		at[s.Name], root[i] = i, i
	}
	find := func(i int) int {
		for root[i] != i {
			root[i] = root[root[i]]
			i = root[i]
		}
		return i
	}
	for i, s := range streams {
		for _, of := range []string{s.Parent, s.Twin} {
			if j, among := at[of]; among {
				a, b := find(i), find(j)
				root[max(a, b)] = min(a, b) // the first stream of a family is its root
			}
		}
	}
	var all [][]schemas.Stream
	place := map[int]int{}
	for i, s := range streams {
		r := find(i)
		if _, begun := place[r]; !begun {
			place[r] = len(all)
			all = append(all, nil)
		}
		all[place[r]] = append(all[place[r]], s)
	}
	return all
}
