package fleet

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func named(name, parent, twin string) schemas.Stream {
	s := schemas.Stream{Parent: parent, Twin: twin}
	s.Name = name
	return s
}

func TestFamilies(t *testing.T) {
	require.Empty(t, Families(nil))
	streams := []schemas.Stream{
		named("alone", "", ""), named("a", "", ""), named("a.child", "a", ""), named("b", "", "a"),
		named("orphan", "not among them", ""), named("b.child", "b", ""), named("b.child.child", "b.child", ""), named("z", "", ""),
	}
	var got [][]string
	for _, f := range Families(streams) {
		var names []string
		for _, s := range f {
			names = append(names, s.Name)
		}
		got = append(got, names)
	}
	require.Equal(t, [][]string{{"alone"}, {"a", "a.child", "b", "b.child", "b.child.child"}, {"orphan"}, {"z"}}, got)
}

// The streams of the catalogue must form many families, each with all parents and twins of its streams. Twins are two
// streams whose lists are compared.
func TestFamiliesOfTheCatalogue(t *testing.T) {
	cat, err := schemas.Load()
	require.NoError(t, err)
	families, n := Families(cat.Streams()), 0
	for _, f := range families {
		n += len(f)
		for _, s := range f {
			in := func(name string) bool {
				return slices.ContainsFunc(f, func(o schemas.Stream) bool { return o.Name == name })
			}
			require.True(t, s.Parent == "" || in(s.Parent), s.Name)
			require.True(t, s.Twin == "" || in(s.Twin), s.Name)
		}
	}
	require.Len(t, cat.Streams(), n)
	require.Greater(t, len(families), 50)
	t.Log(len(families), "families of", n, "streams")
}
