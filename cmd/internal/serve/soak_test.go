package serve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// soakRuns is ten times PENSTOCK_TEST_TRIALS, or a few with -short.
func soakRuns() int {
	if n, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_TRIALS")); err == nil {
		return 10 * n
	}
	if testing.Short() {
		return 50
	}
	return 500
}

type footing struct{ goroutines, files int }

func stand(t *testing.T) footing {
	t.Helper()
	runtime.GC()
	f := footing{goroutines: runtime.NumGoroutine(), files: -1}
	if all, err := os.ReadDir("/proc/self/fd"); err == nil {
		f.files = len(all)
	}
	return f
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestSoak(t *testing.T) {
	j, err := state.OpenJournal(t.Context(), t.TempDir())
	require.NoError(t, err)
	defer j.Close()
	text := make([]byte, 2000)
	p := Pipeline{Name: "p", Run: func(_ context.Context, o RunRequest) (pipeline.Report, error) {
		for range 20 {
			o.Progress(pipeline.Event{Kind: pipeline.EventPage, Stream: "crm.leads", Records: 10})
		}
		return pipeline.Report{Run: o.Run, Status: pipeline.StatusComplete, Streams: []pipeline.StreamReport{{Stream: "crm.leads", Reasons: string(text)}}}, nil
	}}
	d := run(t, Config{Journal: j, Pipelines: []Pipeline{p}, Handlers: Handlers{Health: echo("health")}, Encode: func(r pipeline.Report) json.RawMessage {
		out, err := json.Marshal(r)
		require.NoError(t, err)
		return out
	}})
	f := d.Hub().Follow()
	defer f.Close()
	once := func() {
		id, err := d.RunNow("p", RunRequest{})
		for errors.Is(err, ErrBusy) || errors.Is(err, ErrUnknown) { // the previous run is ending, or the daemon is starting
			runtime.Gosched()
			id, err = d.RunNow("p", RunRequest{})
		}
		require.NoError(t, err)
		for s, _ := d.Hub().Status("p"); s.Last == nil || s.Last.Run != id; s, _ = d.Hub().Status("p") {
			_, err := f.Next(t.Context())
			require.NoError(t, err)
		}
	}
	for range 20 {
		once()
		_, body := get(t, "GET", d.url+"/healthz", "")
		require.NotEmpty(t, body)
	}
	http.DefaultClient.CloseIdleConnections()
	before, held := stand(t), heap()
	for range soakRuns() {
		once()
	}
	after := stand(t)
	require.InDelta(t, before.goroutines, after.goroutines, 4)
	require.InDelta(t, before.files, after.files, 2)
	require.Less(t, heap(), held+4<<20)
}
