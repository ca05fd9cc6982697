package parquet

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// Stores charge for requests, so a commit must send few of them.
func TestBucketRequests(t *testing.T) { onStores(t, testBucketRequests) }

func testBucketRequests(t *testing.T, s *store) {
	l := openBucket(t, s.options("counted"))
	at := must(t, l, 1, "", before...)
	first := s.taken()
	at = must(t, l, 2, at, before...)
	idle := s.taken()
	must(t, l, 3, at, after...)
	changed := s.taken()
	t.Logf("first commit %v, commit that changes nothing %v, commit that changes rows %v", first, idle, changed)
	require.Equal(t, 1, idle["PUT"], "a manifest")
	require.LessOrEqual(t, idle["LIST"], 5, "one of the requests lists unfinished uploads, once per process")
	require.Zero(t, idle["GET"])
	require.LessOrEqual(t, changed["PUT"], 8, "two files of rows, two of child rows, the files of penstock's own tables, and the manifest")
	require.LessOrEqual(t, changed["LIST"], 4)
	require.LessOrEqual(t, changed["GET"], 8)
}

// Two commits start from the same generation. One succeeds, and the other fails with state.ErrMoved.
func TestBucketTwoWriters(t *testing.T) { onStores(t, testBucketTwoWriters) }

func testBucketTwoWriters(t *testing.T, s *store) {
	one, two := openBucket(t, s.options("two")), openBucket(t, s.options("two"))
	at := must(t, one, 1, "", before...)
	var won, lost atomic.Int64
	for n := range 10 {
		var both sync.WaitGroup
		for i, l := range []*Lake{one, two} {
			both.Go(func() {
				_, err := put(t.Context(), t, l, 2+2*n+i, at, lead{id: 1, name: fmt.Sprint("of ", n, i)})
				if err == nil {
					won.Add(1)
				} else if lost.Add(1); !strings.Contains(err.Error(), state.ErrMoved.Error()) {
					t.Error(err)
				}
			})
		}
		both.Wait()
		var err error
		at, err = one.Cursor(t.Context(), stream)
		require.NoError(t, err)
		require.Len(t, names(t, one), 1)
		require.Equal(t, names(t, one), names(t, two))
	}
	require.Equal(t, int64(10), won.Load(), "one commit of each pair succeeds")
	require.Equal(t, int64(10), lost.Load())
}

// If requests fail, a commit has either all of its effects or none, and the next commit succeeds.
func TestBucketFaults(t *testing.T) { onStores(t, testBucketFaults) }

func testBucketFaults(t *testing.T, s *store) {
	cut := func(w http.ResponseWriter) {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = c.Close()
		}
	}
	for name, fault := range map[string]func(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter)){
		"cut before serving": func(w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) { cut(w) },
		"cut after serving": func(w http.ResponseWriter, _ *http.Request, serve func(http.ResponseWriter)) {
			serve(httptest.NewRecorder())
			cut(w)
		},
		"503": func(w http.ResponseWriter, r *http.Request, _ func(http.ResponseWriter)) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `<Error><Code>SlowDown</Code></Error>`)
		},
		"403": func(w http.ResponseWriter, r *http.Request, _ func(http.ResponseWriter)) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `<Error><Code>AccessDenied</Code></Error>`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			failed, every := 0, 1
			if testing.Short() {
				every = 5
			}
			for n := 1; ; n += every {
				l := openBucket(t, s.options(fmt.Sprint(name, n)))
				at := must(t, l, 1, "", before...)
				count := 0
				s.mu.Lock()
				s.fault = func(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter)) bool {
					s.mu.Lock()
					count++
					hit := count == n
					s.mu.Unlock()
					if hit {
						fault(w, r, serve)
					}
					return hit
				}
				s.mu.Unlock()
				next, err := put(t.Context(), t, l, 2, at, after...)
				s.mu.Lock()
				s.fault = nil
				s.mu.Unlock()
				other := openBucket(t, s.options(fmt.Sprint(name, n)))
				now, failure := other.Cursor(t.Context(), stream)
				require.NoError(t, failure)
				if err == nil {
					require.Equal(t, next, now)
				} else {
					failed++
					require.NotContains(t, err.Error(), "do not tell")
					require.Equal(t, map[bool]map[string]bool{true: wanted(before...), false: wanted(after...)}[now == at], names(t, other))
					must(t, other, 3, now, after...)
				}
				require.Equal(t, wanted(after...), names(t, other), "request %d", n)
				if count < n {
					require.Greater(t, n, 8)
					break
				}
			}
			require.Equal(t, name == "403", failed > 0, "transient errors are retried")
		})
	}
}

// A commit is suspended before its last request. Meanwhile, other commits make a generation with the same number,
// replace it, and remove it. The suspended commit must then fail with state.ErrMoved.
func TestBucketStopped(t *testing.T) { onStores(t, testBucketStopped) }

func testBucketStopped(t *testing.T, s *store) {
	o := s.options("stopped")
	o.Keep, o.KeepFor = 1, -1
	l, other := openBucket(t, o), openBucket(t, o)
	at := must(t, l, 1, "", before...)
	l.o.Step = func(name string) error {
		if name == "publish" {
			l.o.Step = nil
			for n := range 4 {
				now, err := other.Cursor(t.Context(), stream)
				require.NoError(t, err)
				must(t, other, 10+n, now, lead{id: n, name: fmt.Sprint("n", n)})
			}
		}
		return nil
	}
	_, err := put(t.Context(), t, l, 2, at, after...)
	require.ErrorIs(t, err, state.ErrMoved)
	require.Equal(t, map[string]bool{"3:n3:n3's": true}, names(t, l))
	now, err := l.Cursor(t.Context(), stream)
	require.NoError(t, err)
	must(t, l, 20, now, after...)
	require.Equal(t, wanted(after...), names(t, other))
}

// If a file is in no manifest that is kept, the file is removed after at most two further runs.
func TestBucketCollects(t *testing.T) { onStores(t, testBucketCollects) }

func testBucketCollects(t *testing.T, s *store) {
	o := s.options("collected")
	o.Keep, o.KeepFor = 1, -1
	l := openBucket(t, o)
	at := must(t, l, 1, "", before...)
	l.o.Step = func(name string) error {
		if name == "manifest" {
			return fmt.Errorf("stop here")
		}
		return nil
	}
	x, err := l.Begin(t.Context(), stream, at, load.Pass{Run: "dies", Whole: true})
	require.NoError(t, err)
	_ = x // a killed process does not roll back
	l.o.Step = nil
	for n := range 8 {
		at = must(t, l, 2+n, at, lead{id: n, name: fmt.Sprint("n", n)})
	}
	at = must(t, l, 20, at, after...)
	must(t, l, 21, at, after...)
	manifests, files := s.keys(t, l)
	all, err := l.Files(t.Context())
	require.NoError(t, err)
	named := 0
	for _, paths := range all {
		named += len(paths)
	}
	t.Logf("%d manifests, %d files, %d of them in current generations", len(manifests), len(files), named)
	require.LessOrEqual(t, len(manifests), 4)
	require.LessOrEqual(t, len(files), named+4)
}

func TestBucketIgnoresCondition(t *testing.T) {
	s := newStore(t)
	l := openBucket(t, s.options("checked"))
	require.NoError(t, l.Check(t.Context()))
	s.fault = func(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter)) bool {
		r.Header.Del("If-None-Match")
		serve(w)
		return true
	}
	require.ErrorIs(t, l.Check(t.Context()), ErrUnconditional)
	manifests, files := s.keys(t, l)
	require.Empty(t, append(manifests, files...), "nothing is left behind")
}

func TestBucketReaders(t *testing.T) { onStores(t, testBucketReaders) }

func testBucketReaders(t *testing.T, s *store) {
	l, reader := openBucket(t, s.options("read")), openBucket(t, s.options("read"))
	at := must(t, l, 1, "", lead{id: 1, name: "v0"}, lead{id: 2, name: "v0"})
	stop := make(chan struct{})
	var reading sync.WaitGroup
	var reads atomic.Int64
	reading.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			seen := map[string]bool{}
			for _, r := range scanned(t, reader, leads.Name) {
				seen[r["name"]] = true
			}
			if len(seen) != 1 {
				t.Errorf("a reader has seen half a commit: %v", seen)
			}
			reads.Add(1)
		}
	})
	for n := range 20 {
		at = must(t, l, 2+n, at, lead{id: 1, name: fmt.Sprint("v", n+1)}, lead{id: 2, name: fmt.Sprint("v", n+1)})
	}
	close(stop)
	reading.Wait()
	require.Positive(t, reads.Load())
}
