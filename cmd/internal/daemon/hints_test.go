package daemon

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/schemas"
)

// The result of ReadOnHint also has the ancestors of a stream, and each parent comes before its child.
func TestHintedStreamsComeWithTheirParents(t *testing.T) {
	stream := func(name, parent string) config.Stream {
		return config.Stream{Stream: schemas.Stream{Name: name, Parent: parent}}
	}
	all := []config.Stream{stream("a", ""), stream("b", ""), stream("a.b", "a"), stream("a.b.c", "a.b"), stream("b.d", "b")}
	require.Equal(t, []string{"a", "a.b", "a.b.c"}, withParents(all, []string{"a.b.c"}))
	require.Equal(t, []string{"a", "b"}, withParents(all, []string{"b", "a"}))
	require.Empty(t, withParents(all, []string{"z"}))
}
