package parquet

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
)

func (s *store) taken() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.counts
	s.counts = map[string]int{}
	return out
}

func openBucket(t testing.TB, o Options) *Lake {
	t.Helper()
	l, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func (s *store) keys(t testing.TB, l *Lake) (manifests, files []string) {
	t.Helper()
	b := l.storage.(*bucket)
	require.NoError(t, b.o.List(t.Context(), b.prefix, 0, func(key string, _ int64) bool {
		if strings.HasSuffix(key, suffix) {
			files = append(files, key)
		} else {
			manifests = append(manifests, key)
		}
		return true
	}))
	return manifests, files
}

func TestBucketConformance(t *testing.T) { onStores(t, testBucketConformance) }

func testBucketConformance(t *testing.T, s *store) {
	var prefixes sync.Map
	d := driver(scanned)
	d.Open = func(t testing.TB, step func(string) error) load.Destination {
		prefix, _ := prefixes.LoadOrStore(t, fmt.Sprintf("it's a [lake] %p", t))
		o := s.options(prefix.(string))
		o.TempDir, o.Step = t.TempDir(), step
		l, err := Open(t.Context(), o)
		require.NoError(t, err)
		return l
	}
	slow := []string{"columns widen", "modes", "modes at random", "modes, applied in parts", "lists paged by key", "modes change", "accept", "concurrent commits of one stream", "cancelled at every step",
		"hostile tables", "sources side by side", "shared by sources", "failure at every step", "a removal of old rows fails at every step", "modes without a key", "log of rows"}
	d.Skip = func(name string) bool { return testing.Short() && slices.Contains(slow, name) }
	loadtest.Run(t, d)
}
