package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

func TestSkippedParentsAndAFilter(t *testing.T) {
	e := newEstate(t, 40)
	e.reread = 1000
	e.config.Streams = e.streams()
	e.config.Streams[1].Rules.Filter = []schemas.Condition{{Column: "secret", NotIn: []string{"7"}}}
	e.complete(Options{})
	e.secret[5] = 7
	e.parents[5]++
	n, child := e.complete(Options{})
	require.Less(t, n, 10)
	require.EqualValues(t, 1, child.Counts.Deleted)
	require.NotContains(t, e.rows("x_detail", "secret"), 5)
}

// A child stream that is itself a parent is read whole, because its child streams need all of its records.
func TestParentsOfAParent(t *testing.T) {
	e := newEstate(t, 30)
	e.reread, e.lists = 1000, true
	e.config.limits = perPage
	for id := range e.parents {
		e.items[id] = []int{100 + id}
	}
	all := e.streams()
	below := all[1]
	below.Name, below.Table.Name, below.Parent, below.Class, below.Path = "x.detail", "x_detail", "x.items", schemas.ClassDetail, "/api/detail/{id}"
	e.config.Streams = append(all, below)
	for run := range 3 {
		n, child := e.complete(Options{})
		require.Equal(t, Proven, child.Verdict)
		require.GreaterOrEqual(t, n, 30)
		require.Less(t, n, []int{61, 40, 40}[run])
		require.Len(t, e.rows("x_detail", "secret"), 30)
		for _, row := range e.memory.Rows(load.Parents.Name) {
			require.NotEmpty(t, row["print"], row["stream"])
		}
	}
}
