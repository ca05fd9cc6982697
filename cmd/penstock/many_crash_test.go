//go:build cgo && duckdb_arrow && unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/failure"
)

// TestManySourcesKilled kills a run in the middle. The run reads 50 sources, which share one API key. The next run
// begins at once, and is complete. The server never counts more requests per second than the limit allows.
func TestManySourcesKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const limit = 40
	w := newWorlds(t, 50)
	var mu sync.Mutex
	var arrivals []time.Time
	amid, once := make(chan struct{}), sync.Once{}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		arrivals = append(arrivals, time.Now())
		n := len(arrivals)
		mu.Unlock()
		if n == 40 {
			once.Do(func() { close(amid) })
		}
		w.serve(rw, r)
	}))
	defer server.Close()
	require.NoError(t, os.WriteFile(w.config(), fmt.Appendf(nil, `version: 1
sources:
  from: {file: %[1]s/all.csv}
  template: {v2: {base_url: "%[2]s/{name}", auth: {api_key: sk_sandbox_readonly}, rate: %[3]d/s}}
destinations: {warehouse: "duckdb:%[1]s/w.duckdb"}
pipelines: {all: {from: "*", to: warehouse, streams: v2.contacts}}
state: %[1]s/state
`, w.dir, server.URL, limit), 0o600))
	names := "name\n"
	for _, name := range w.made {
		names += name + "\n"
	}
	require.NoError(t, os.WriteFile(w.dir+"/all.csv", []byte(names), 0o600))

	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestCrashChild$", "-crash-child", w.config())
	require.NoError(t, child.Start())
	<-amid
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())

	code, out, errs := w.penstock(t, "sync")
	require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
	require.Contains(t, out, "50 of 50 sources complete")
	w.holds(t, "v2_contacts", "v2.contacts")
	mu.Lock()
	defer mu.Unlock()
	slices.SortFunc(arrivals, time.Time.Compare)
	for i := range arrivals[:max(0, len(arrivals)-limit)] {
		require.GreaterOrEqual(t, arrivals[i+limit].Sub(arrivals[i]), time.Second, "more than %d requests in a second", limit)
	}
	t.Logf("%d requests", len(arrivals))
}
