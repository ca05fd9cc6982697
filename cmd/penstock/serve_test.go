//go:build cgo && duckdb_arrow && unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/state"
)

const serveConfig = `version: 1
sources: {main: {app: {base_url: "SANDBOX", auth: {token: pat_sandbox_readonly}}}}
destinations: {warehouse: "duckdb:warehouse.duckdb"}
pipelines: {all: {from: main, to: warehouse, streams: [crm.leads, crm.deals], schedule: {cron: "CRON"}}}
serve: {listen: "127.0.0.1:0"}
`

// serving is a daemon process with its own platform.
type serving struct {
	t        *testing.T
	dir      string
	platform *sandbox.Server
	url      string // address of the platform

	cmd *exec.Cmd
	out *spoken
}

// spoken is what a process has printed so far.
type spoken struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *spoken) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *spoken) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func newDaemon(t *testing.T, cron string) *serving {
	t.Helper()
	platform, err := sandbox.New(sandbox.Options{NoLimits: true})
	require.NoError(t, err)
	server := httptest.NewServer(platform)
	t.Cleanup(server.Close)
	d := &serving{t: t, dir: t.TempDir(), platform: platform, url: server.URL}
	text := strings.NewReplacer("SANDBOX", server.URL, "CRON", cron).Replace(serveConfig)
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "pipelines.yaml"), []byte(text), 0o600))
	t.Cleanup(func() {
		if d.cmd != nil {
			_ = d.cmd.Process.Kill()
			_ = d.cmd.Wait()
		}
	})
	return d
}

func (d *serving) start() {
	d.t.Helper()
	self, err := os.Executable()
	require.NoError(d.t, err)
	d.cmd, d.out = exec.Command(self), &spoken{}
	d.cmd.Args, d.cmd.Dir, d.cmd.Stdout, d.cmd.Stderr = []string{"penstock", "serve"}, d.dir, d.out, d.out
	require.NoError(d.t, d.cmd.Start())
}

// says() waits until the process has printed a text.
func (d *serving) says(text string) {
	d.t.Helper()
	require.Eventually(d.t, func() bool { return strings.Contains(d.out.String(), text) }, time.Minute, 5*time.Millisecond, "%s", text)
}

// end sends a signal, waits until the daemon has ended, and returns its exit code and the time that this took.
func (d *serving) end(s os.Signal) (code int, took time.Duration) {
	d.t.Helper()
	begun := time.Now()
	require.NoError(d.t, d.cmd.Process.Signal(s))
	err := d.cmd.Wait()
	took = time.Since(begun)
	d.cmd = nil
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), took
	}
	require.NoError(d.t, err)
	return 0, took
}

func (d *serving) slots() []state.SlotRecord {
	d.t.Helper()
	j, err := state.ReadJournal(d.t.Context(), filepath.Join(d.dir, ".penstock"))
	require.NoError(d.t, err)
	defer j.Close()
	all, err := j.Slots(d.t.Context(), "all", 100)
	require.NoError(d.t, err)
	return all
}

// moments returns the moments at which tests stop a daemon, by name. Each moment is a function that waits for it.
func moments() map[string]func(d *serving) {
	asked := func(n int) func(*serving) {
		return func(d *serving) {
			require.Eventually(d.t, func() bool { return d.platform.Stats().Requests >= n }, time.Minute, time.Millisecond)
		}
	}
	return map[string]func(d *serving){
		"at its start":             func(*serving) {},
		"when it serves":           func(d *serving) { d.says("serving") },
		"when a run begins":        func(d *serving) { d.says("run begun") },
		"after the first request":  asked(1),
		"after the fourth request": asked(4),
		"after the eighth request": asked(8),
		"when a run has ended":     func(d *serving) { d.says("run ended") },
		"during its second run": func(d *serving) {
			d.says("run ended")
			n := strings.Count(d.out.String(), "run begun")
			require.Eventually(d.t, func() bool { return strings.Count(d.out.String(), "run begun") > n }, time.Minute, time.Millisecond)
		},
		"while it waits for a response": func(d *serving) {
			require.NoError(d.t, d.platform.SetFaults(sandbox.Fault{Match: "crm.*", Kind: sandbox.FaultSlow, Delay: sandbox.Duration(30 * time.Second)}))
			n := d.platform.Stats().Requests
			asked(n + 1)(d)
		},
	}
}

// A daemon is stopped at different moments. It exits within ten seconds, with the exit code of the signal. The next
// daemon continues the work. // Invariant 15
func TestServeStops(t *testing.T) {
	t.Parallel()
	n := 0
	for name, moment := range moments() {
		if n++; testing.Short() && n > 4 {
			break // with -short, the test uses only four moments, chosen by the random order of the map
		}
		signal, want := os.Signal(syscall.SIGTERM), 143
		if n%3 == 0 {
			signal, want = syscall.SIGINT, 130
		}
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t, "@every 1s")
			d.start()
			moment(d)
			code, took := d.end(signal)
			t.Logf("ended in %s", took.Round(time.Millisecond))
			if code == -1 && name == "at its start" {
				return // the signal arrived before the program could handle it
			}
			require.Equal(t, want, code, d.out)
			require.Less(t, took, 30*time.Second) // the machine may be busy
			require.NotContains(t, d.out.String(), "stopped before all work had ended")
			require.NoError(t, d.platform.SetFaults())
			d.start()
			d.says("status=complete")
			code, _ = d.end(syscall.SIGTERM)
			require.Equal(t, 143, code)
			seen := map[time.Time]bool{}
			for _, s := range d.slots() {
				require.False(t, seen[s.Due])
				seen[s.Due] = true
			}
		})
	}
}

// A daemon is killed during a run. The slot of the run is still recorded exactly once, and the next daemon makes the
// run.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "@every 2s")
	require.NoError(t, d.platform.SetFaults(sandbox.Fault{Match: "crm.*", Kind: sandbox.FaultSlow, Delay: sandbox.Duration(30 * time.Second)}))
	d.start()
	require.Eventually(t, func() bool { return d.platform.Stats().Requests > 0 }, time.Minute, time.Millisecond)
	d.end(syscall.SIGKILL)
	var due time.Time
	for _, s := range d.slots() {
		if s.State == state.SlotRunning {
			due = s.Due
		}
	}
	require.False(t, due.IsZero(), "the slot must be recorded before its run begins")
	require.NoError(t, d.platform.SetFaults())
	d.start()
	d.says("status=complete")
	d.end(syscall.SIGTERM)
	records := 0
	for _, s := range d.slots() {
		if s.Due.Equal(due) {
			records++
			require.NotEqual(t, state.SlotRunning, s.State, "%+v", s)
			require.NotEqual(t, state.SlotSkipped, s.State, "%+v", s)
		}
	}
	require.Equal(t, 1, records)
}

// Many short runs in one process, one after the other, leak no goroutines, files or memory.
func TestServeSoak(t *testing.T) {
	runs := 300
	if testing.Short() {
		runs = 8
	}
	if n, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_TRIALS")); err == nil {
		runs = n
	}
	d := newDaemon(t, "@daily")
	t.Chdir(d.dir)
	a := &app{out: &bytes.Buffer{}, err: &bytes.Buffer{}, logFormat: "text", quiet: true, open: open.Opener{File: defaultConfig, Pool: open.NewDestinationPool(), Kinds: destinationKinds()}}
	require.NoError(t, a.start())
	c, err := a.open.Load()
	require.NoError(t, err)
	pipelines, err := a.served(c, nil)
	require.NoError(t, err)
	once := func() {
		o := serve.RunRequest{Run: runid.New(time.Now()), Progress: func(pipeline.Event) {}, Rates: func(func() []serve.Rate) {}}
		r, err := pipelines[0].Run(context.WithoutCancel(t.Context()), o)
		require.NoError(t, err)
		require.Equal(t, pipeline.StatusComplete, r.Status)
	}
	for range 4 {
		once()
	}
	goroutines, files, heap := held(t)
	begun := time.Now()
	for range runs {
		once()
	}
	g, f, h := held(t)
	t.Logf("%d runs in %s: goroutines %d → %d, files %d → %d, heap %s → %s", runs, time.Since(begun).Round(time.Millisecond), goroutines, g, files, f, mega(heap), mega(h))
	require.InDelta(t, goroutines, g, 3)
	require.InDelta(t, files, f, 1)
	require.Less(t, h, heap+8<<20)
}

func mega(n uint64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// held() returns what this process uses while it is idle: the numbers of goroutines and open files, and the bytes of
// heap.
func held(t *testing.T) (goroutines, files int, heap uint64) {
	t.Helper()
	var m runtime.MemStats
	for range 2 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	files = -1
	if all, err := os.ReadDir("/proc/self/fd"); err == nil {
		files = len(all)
	}
	return runtime.NumGoroutine(), files, m.HeapAlloc
}
