package parquet

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
)

// store is an S3 server, and what was asked of it.
type store struct {
	*httptest.Server
	backend *s3mem.Backend

	mu     sync.Mutex
	counts map[string]int // by what was asked for
	fault  func(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter)) bool
}

func newStore(t testing.TB) *store {
	s := &store{backend: s3mem.New(), counts: map[string]int{}}
	require.NoError(t, s.backend.CreateBucket("lake"))
	fake := gofakes3.New(s.backend).Server()
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.counts[asked(r)]++
		fault := s.fault
		s.mu.Unlock()
		if fault == nil || !fault(w, r, func(w http.ResponseWriter) { fake.ServeHTTP(w, r) }) {
			fake.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// asked is what kind of request it is, as stores charge for them.
func asked(r *http.Request) string {
	switch {
	case r.URL.Query().Has("list-type"), r.URL.Query().Has("uploads") && r.Method == http.MethodGet:
		return "LIST"
	case r.Method == http.MethodPost:
		return "PUT"
	}
	return r.Method
}

// taken are the counts since the last call.
func (s *store) taken() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.counts
	s.counts = map[string]int{}
	return out
}

// options are how a lake in the store is opened.
func (s *store) options(prefix string) Options {
	return Options{Bucket: "s3://lake/" + prefix, S3: S3{
		Endpoint: s.URL, Region: "us-east-1", Path: true, AccessKey: "key", SecretKey: "do not tell",
	}}
}

func openBucket(t testing.TB, o Options) *Lake {
	t.Helper()
	l, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// keys are the names of what is in the bucket, below the stream's.
func (s *store) keys(t testing.TB, l *Lake) (manifests, files []string) {
	t.Helper()
	b := l.storage.(*bucket)
	require.NoError(t, b.o.list(t.Context(), b.prefix, 0, func(key string, _ int64) bool {
		if strings.HasSuffix(key, suffix) {
			files = append(files, key)
		} else {
			manifests = append(manifests, key)
		}
		return true
	}))
	return manifests, files
}

// TestBucketConformance holds a lake in a bucket to the contract.
func TestBucketConformance(t *testing.T) {
	s := newStore(t)
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
	slow := []string{"columns widen", "modes", "modes at random", "modes, applied in parts", "lists paged by key", "modes turn", "accept", "concurrent commits of one stream", "cancelled at every step",
		"hostile tables", "sources side by side", "shared by sources", "failure at every step", "modes without a key", "log of rows"}
	d.Skip = func(name string) bool { return testing.Short() && slices.Contains(slow, name) }
	loadtest.Run(t, d)
}
