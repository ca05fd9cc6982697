package load

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func TestOwnComment(t *testing.T) {
	for _, text := range []string{"", "what it is", "a (b)", "ends so (/x)"} {
		require.True(t, OwnComment(Comment(text, "/x"), "/x"), text)
	}
	for _, theirs := range []string{"mine", "/y", "what it is (/y)", "(/x) and more"} {
		require.False(t, OwnComment(theirs, "/x"), theirs)
	}
}

func TestReplayDescriptions(t *testing.T) {
	md := arrow.MetadataFrom(map[string]string{schemas.DescriptionKey: "all of them"})
	want := schemas.Table{Name: "t", Columns: arrow.NewSchema([]arrow.Field{schemas.WithDescription(schemas.Field("a", schemas.Int64, "/a"), "the first")}, &md)}
	p, err := Fit(schemas.Table{Name: "t"}, want)
	require.NoError(t, err)
	tables, err := Replay(p.Changes())
	require.NoError(t, err)
	have := tables["t"]
	require.Equal(t, "all of them", TableDescription(have.Columns))
	require.Equal(t, "the first", schemas.DescriptionOf(have.Columns.Field(0)))
	p, err = Fit(have, want)
	require.NoError(t, err)
	require.True(t, p.Empty())
}
