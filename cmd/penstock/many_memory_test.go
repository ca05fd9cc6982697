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

	"github.com/penstock-data/penstock/cmd/internal/failure"
)

// perSource is how many bytes of heap a run may use for each source: for its configuration, its place in the queue and
// its outcome. slack is the tolerance in bytes, because two measurements of the same run differ.
const (
	perSource = 12 << 10
	slack     = 1 << 20
)

// TestManySourcesMemory compares a run over few workspaces with a run over many. It measures the memory of each run
// when only the last workspace is left to read. The memory must hardly depend on the number of sources.
// Invariant 6
func TestManySourcesMemory(t *testing.T) {
	few, many := 4, 28
	if n, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_TRIALS")); err == nil {
		few, many = 200, max(n, 300)
	}
	newWorlds(t, 2).inHand(t) // the process makes its one-time allocations before the measurements
	small, large := newWorlds(t, few).inHand(t), newWorlds(t, many).inHand(t)
	each := (large.heap - small.heap) / int64(many-few)
	t.Logf("%d sources: %d KB and %d goroutines; %d sources: %d KB and %d goroutines; %d bytes a source",
		few, small.heap>>10, small.goroutines, many, large.heap>>10, large.goroutines, each)
	require.Less(t, large.heap, small.heap+int64(many-few)*perSource+slack)
	require.Less(t, large.goroutines, small.goroutines+16)
}

// memoryUse is what a run uses: heap and goroutines.
type memoryUse struct {
	heap       int64
	goroutines int
}

// inHand reads all workspaces in one run. The last workspace answers only when all others are complete. At that time,
// inHand measures the run.
func (w *worlds) inHand(t *testing.T) (h memoryUse) {
	w.configure(t, `"parquet:`+w.dir+`/lake"`, `"*"`, `["crm.lead_stages"]`)
	last := w.made[len(w.made)-1]
	others := make(chan struct{})
	var once sync.Once
	before, running := heap(), runtime.NumGoroutine()
	w.odd[last] = func(rw http.ResponseWriter, r *http.Request) {
		select {
		case <-others:
			once.Do(func() { h = memoryUse{heap() - before, runtime.NumGoroutine() - running} })
		case <-r.Context().Done():
			return
		}
		http.StripPrefix("/"+last, w.of(last)).ServeHTTP(rw, r)
	}
	var errs bytes.Buffer
	require.Equal(t, failure.ExitDone, runCommand(t.Context(), []string{"sync", "--json", "-c", w.config(), "--no-progress"}, &ends{left: len(w.made) - 1, done: others}, &errs), errs.String())
	require.NotZero(t, h.heap)
	return h
}

// ends is an io.Writer that discards the text and counts its lines. When a given number of lines is complete, it
// closes its channel.
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
