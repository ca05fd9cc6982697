//go:build cgo && duckdb_arrow

package main

import (
	"bytes"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// perSource is what a run may keep of each source that it is over, in bytes: its
// configuration, its place in the order, and what became of it. slack is how far
// two looks at one thing may be apart.
const (
	perSource = 12 << 10
	slack     = 1 << 20
)

// TestManySourcesMemory reads few workspaces, and many, each in one run, and looks at
// what the run has in hand when only the last one is left to be read: that there
// were more of them is hardly seen. // Invariant 6
func TestManySourcesMemory(t *testing.T) {
	few, many := 4, 28
	if n, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_TRIALS")); err == nil {
		few, many = 200, max(n, 300)
	}
	newWorlds(t, 2).inHand(t) // what a process makes once
	small, large := newWorlds(t, few).inHand(t), newWorlds(t, many).inHand(t)
	each := (large.heap - small.heap) / int64(many-few)
	t.Logf("%d sources: %d KB and %d goroutines; %d sources: %d KB and %d goroutines; %d bytes a source",
		few, small.heap>>10, small.goroutines, many, large.heap>>10, large.goroutines, each)
	require.Less(t, large.heap, small.heap+int64(many-few)*perSource+slack)
	require.Less(t, large.goroutines, small.goroutines+16)
}

// hand is what a run has in hand.
type hand struct {
	heap       int64
	goroutines int
}

// inHand reads all workspaces, the last one once the others are done, and tells what
// the run has in hand then.
func (w *worlds) inHand(t *testing.T) (h hand) {
	w.configure(t, `"parquet:`+w.dir+`/lake"`, `"*"`, `["crm.lead_stages"]`)
	last := w.made[len(w.made)-1]
	others := make(chan struct{})
	var once sync.Once
	before, running := heap(), runtime.NumGoroutine()
	w.odd[last] = func(rw http.ResponseWriter, r *http.Request) {
		select {
		case <-others:
			once.Do(func() { h = hand{heap() - before, runtime.NumGoroutine() - running} })
		case <-r.Context().Done():
			return
		}
		http.StripPrefix("/"+last, w.of(last)).ServeHTTP(rw, r)
	}
	var errs bytes.Buffer
	require.Equal(t, exitDone, execute(t.Context(), []string{"sync", "--json", "-c", w.config(), "--no-progress"}, &ends{left: len(w.made) - 1, done: others}, &errs), errs.String())
	require.NotZero(t, h.heap)
	return h
}

// ends counts lines and keeps none; done is closed after so many.
type ends struct {
	mu   sync.Mutex
	left int
	done chan struct{}
}

func (e *ends) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left > 0 {
		if e.left -= bytes.Count(p, []byte("\n")); e.left <= 0 {
			close(e.done)
		}
	}
	return len(p), nil
}
