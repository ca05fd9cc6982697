//go:build cgo && duckdb_arrow

package main

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestManySourcesCrowd reads 200 workspaces into shared tables (20 with -short). A second run writes nothing. The test
// logs how much heap is still in use after the first run.
func TestManySourcesCrowd(t *testing.T) {
	if testing.Short() {
		w := newWorlds(t, 20)
		w.crowd(t, parquetTarget{t.TempDir()}.url())
		return
	}
	onEach(t, func(t *testing.T, to target) { newWorlds(t, 200).crowd(t, to.url()) })
}

func (w *worlds) crowd(t *testing.T, url string) {
	t.Helper()
	w.configure(t, `"`+url+`"`, `"*"`, `["crm.lead_stages"]`)
	before := heap()
	lines := w.told(t, "sync")
	require.Len(t, lines, len(w.made)+1)
	w.holds(t, "crm_lead_stages", "crm.lead_stages")
	t.Logf("%d sources: %d KB of heap kept", len(w.made), (heap()-before)>>10)
	for _, l := range w.told(t, "sync")[:len(w.made)] {
		stream := l["streams"].([]any)[0].(map[string]any)
		require.EqualValues(t, 0, stream["counts"].(map[string]any)["written"], l["source"])
	}
}

// heap returns the bytes of live heap.
func heap() int64 {
	runtime.GC()
	runtime.GC() // the second collection empties each sync.Pool
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
