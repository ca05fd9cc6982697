package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve/signal"
	"github.com/penstock-data/penstock/extract/sandbox"
)

// lines is a JSON log. It may grow while it is read.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) all(t *testing.T) []map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []map[string]any
	for line := range strings.Lines(l.text.String()) {
		var m map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &m), "each line must be JSON: %q", line)
		all = append(all, m)
	}
	return all
}

// runningDaemon is a `penstock serve` in this process.
type runningDaemon struct {
	url  string
	log  *lines
	stop func() (code int)
}

// serveIn starts the daemon of a configuration in a folder, and waits until it listens.
func serveIn(t *testing.T, dir, conf string) *runningDaemon {
	t.Helper()
	path := filepath.Join(dir, "pipelines.yaml")
	require.NoError(t, os.WriteFile(path, []byte(conf), 0o600))
	ctx, cancel := context.WithCancelCause(t.Context())
	d := &runningDaemon{log: &lines{}}
	code := make(chan int, 1)
	go func() {
		code <- (&app{out: io.Discard, err: d.log}).execute(ctx, []string{"serve", "-c", path, "--log-format", "json", "--no-progress"})
	}()
	d.stop = sync.OnceValue(func() int {
		cancel(&failure.Stopped{Signal: syscall.SIGTERM, Cause: pipeline.Stop(syscall.SIGTERM)})
		return <-code
	})
	t.Cleanup(func() { d.stop() })
	require.Eventually(t, func() bool {
		for _, m := range d.log.all(t) {
			if m["msg"] == "serving" {
				d.url = fmt.Sprint("http://", m["address"])
			}
		}
		return d.url != ""
	}, time.Minute, 10*time.Millisecond, "the daemon does not listen")
	return d
}

func (d *runningDaemon) get(t *testing.T, path string) (int, string) {
	t.Helper()
	resp, err := http.Get(d.url + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

// TestServeSignals runs a daemon whose pipeline runs every second, and then makes the platform fail. The test checks
// the metrics, the health, and that one alert is sent.
func TestServeSignals(t *testing.T) {
	platform, err := sandbox.New(sandbox.Options{NoLimits: true})
	require.NoError(t, err)
	source := httptest.NewServer(platform)
	defer source.Close()
	alerts := make(chan string, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		alerts <- string(text)
	}))
	defer hook.Close()
	dir := t.TempDir()
	d := serveIn(t, dir, fmt.Sprintf(`version: 1
sources: {main: {app: {base_url: %q, auth: {token: pat_sandbox_readonly}}}}
destinations: {lake: "parquet:%s"}
pipelines:
  often: {from: main, to: lake, streams: [crm.leads], schedule: {cron: "@every 1s"}}
serve: {listen: "127.0.0.1:0"}
alerts: {to: ["generic://%s/?disabletls=yes"], on: [failed], digest: 10ms}
state: %s
`, source.URL, filepath.Join(dir, "lake"), strings.TrimPrefix(hook.URL, "http://"), filepath.Join(dir, "state")))

	metric := func(line string) func() bool {
		return func() bool {
			_, text := d.get(t, "/metrics")
			return strings.Contains(text, "\n"+line)
		}
	}
	require.Eventually(t, metric(`penstock_runs_total{pipeline="often",status="complete"} 1`), time.Minute, 20*time.Millisecond)
	_, text := d.get(t, "/metrics")
	require.Contains(t, text, `penstock_source_requests_total{class="2xx",source="main",surface="app"}`)
	require.Contains(t, text, `penstock_rows_total{destination="lake",outcome="written",pipeline="often",stream="crm.leads"}`)
	require.Contains(t, text, `penstock_slots_total{outcome="ran",pipeline="often"}`)
	require.NotContains(t, text, "pat_sandbox_readonly") // Invariant 5
	code, text := d.get(t, "/healthz")
	require.Equal(t, http.StatusOK, code, text)
	code, text = d.get(t, "/readyz")
	require.Equal(t, http.StatusOK, code, text)
	require.JSONEq(t, `{"status":"ok","checks":{"configuration":"ok","journal":"ok","inbox":"ok","state":"ok"}}`, text)

	asked := filepath.Join(dir, "asked.yaml")
	conf, err := os.ReadFile(filepath.Join(dir, "pipelines.yaml"))
	require.NoError(t, err)
	conf = bytes.ReplaceAll(conf, []byte("127.0.0.1:0"), []byte(strings.TrimPrefix(d.url, "http://")))
	require.NoError(t, os.WriteFile(asked, conf, 0o600))
	health := func() int {
		return (&app{out: io.Discard, err: io.Discard}).execute(t.Context(), []string{"status", "--health", "-c", asked})
	}
	require.Equal(t, 0, health())

	fault, err := sandbox.ParseFault("crm.leads=malformed")
	require.NoError(t, err)
	require.NoError(t, platform.SetFaults(fault))
	for failed := false; !failed; {
		select {
		case text := <-alerts: // on a busy machine, there may also be alerts about late runs
			failed = strings.Contains(text, "pipeline often: failed\n  crm.leads in lake: ")
		case <-time.After(time.Minute):
			_, text := d.get(t, "/metrics")
			t.Fatalf("no alert came; the metrics say:\n%s", text)
		}
	}
	require.Eventually(t, metric(`penstock_alerts_total{kind="failed",outcome="sent"} 1`), time.Minute, 20*time.Millisecond)
	require.Equal(t, 143, d.stop())
	require.Empty(t, alerts, "only one message may be sent, even if many runs have failed")
	require.Equal(t, 1, health())
	runs := 0
	for _, line := range d.log.all(t) {
		require.NotContains(t, fmt.Sprint(line), "pat_sandbox_readonly") // Invariant 5
		if line["msg"] == "run begun" || line["msg"] == "run ended" {
			runs++
			require.Equal(t, "often", line["pipeline"])
			require.Len(t, line["run"], 12)
		}
	}
	require.GreaterOrEqual(t, runs, 4)
}

// TestAlertKindsAgree checks that the configuration accepts exactly those kinds of alerts that can be sent.
func TestAlertKindsAgree(t *testing.T) {
	var kinds []string
	for _, k := range signal.Kinds() {
		kinds = append(kinds, string(k))
	}
	require.True(t, slices.Equal(config.AlertKinds(), kinds))
}
