package extract

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

func TestFanOutOfSomeParents(t *testing.T) {
	f := newFamily(t, 900)
	f.absent["8"] = true
	_, err := read(f.Client, f.parent, "")
	require.NoError(t, err)
	prints := map[string]uint64{}
	quarter := func(p Parent, of int) bool {
		require.Equal(t, 900, of)
		prints[string(p.Tuple)] = p.Fingerprint
		var id int
		_, err := fmt.Sscanf(string(p.Tuple), "[%d]", &id)
		require.NoError(t, err)
		return id%4 == 0
	}
	clear(f.requests)
	r, err := readOf(f.Client, f.child, "", quarter)
	require.NoError(t, err)
	require.Len(t, f.requests, 225)
	require.Equal(t, End{
		Rule: RuleParents, Pages: 224, FirstTotal: -1, LastTotal: -1,
		Parents: 225, Skipped: 675, Gone: 1,
	}, *r.end)
	require.Len(t, r.parents, 225)
	require.Len(t, prints, 900)
	for i, p := range r.parents {
		require.Equal(t, fmt.Sprintf("[%d]", 4*i+4), string(p.Tuple))
		require.Equal(t, prints[string(p.Tuple)], p.Fingerprint)
		gone := i == 1
		require.Equal(t, !gone, p.Complete)
		require.Equal(t, gone, p.Records == 0)
	}
	require.Greater(t, r.pages, 1)
	rest, err := readOf(f.Client, f.child, r.cursors[0], quarter)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(r.ids(), rest.ids()))
	require.Equal(t, [3]int{225, 675, 1}, [3]int{rest.end.Parents, rest.end.Skipped, rest.end.Gone})

	r, err = readOf(f.Client, f.child, "", func(Parent, int) bool { return false })
	require.NoError(t, err)
	require.Empty(t, r.parents)
	require.Equal(t, [2]int{0, 900}, [2]int{r.end.Parents, r.end.Skipped})
}

func TestFanOutWithChildrenIsWhole(t *testing.T) {
	f := newFamily(t, 12)
	below := f.child
	below.Name, below.Table.Name, below.Parent = "x.below", "x_below", "x.child"
	c, err := New(Config{App: f.cfg.App, Selected: []schemas.Stream{f.parent, f.child, below}})
	require.NoError(t, err)
	defer c.Close()
	_, err = read(c, f.parent, "")
	require.NoError(t, err)
	none := func(Parent, int) bool { return false }
	r, err := readOf(c, f.child, "", none)
	require.NoError(t, err)
	require.Equal(t, wanted(12), r.ids())
	r, err = readOf(c, below, "", none)
	require.NoError(t, err)
	require.Equal(t, 12, r.end.Skipped)
}

func TestPrint(t *testing.T) {
	print := func(members []string) uint64 {
		d := new(jsondoc.Doc)
		require.NoError(t, d.Scan([]byte("{"+strings.Join(members, ",")+"}")))
		return fingerprintOf(d, d.Root(), []string{"seen"})
	}
	rapid.Check(t, func(t *rapid.T) {
		var members []string
		for i, v := range rapid.SliceOfN(rapid.SampledFrom([]string{"1", "2", `"a"`, "null", `{"x":[1]}`, `[]`}), 1, 8).Draw(t, "values") {
			members = append(members, fmt.Sprintf(`"m%d":%s`, i, v))
		}
		before := print(members)
		rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		require.Equal(t, before, print(members))
		require.Equal(t, before, print(append(members, `"seen":7`)))
		require.NotEqual(t, before, print(append(members, `"new":7`)))
		members[0] = members[0][:strings.IndexByte(members[0], ':')] + `:"other"`
		require.NotEqual(t, before, print(members))
	})
	swapped := 0
	for i := range 100 {
		a, b := fmt.Sprint(i), fmt.Sprint(i+1)
		if print([]string{`"a":` + a, `"b":` + b}) == print([]string{`"a":` + b, `"b":` + a}) {
			swapped++
		}
	}
	require.Zero(t, swapped, "swapped values are not noticed")
}
