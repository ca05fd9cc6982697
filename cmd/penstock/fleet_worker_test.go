//go:build unix && cgo && duckdb_arrow

package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/failure"
)

var servingAt = regexp.MustCompile(`serving.* address=(\S+)`)

// get requests a path of a process.
func (p *fleetProcess) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	var at []string
	require.Eventually(t, func() bool { at = servingAt.FindStringSubmatch(p.out.String()); return at != nil }, time.Minute, 5*time.Millisecond, "%s", p.out)
	resp, err := http.Get("http://" + at[1] + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

// metric returns the value of a metric of a process, or -1 if the process does not have this metric.
func (p *fleetProcess) metric(t *testing.T, name string) float64 {
	t.Helper()
	_, body := p.get(t, "/metrics")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			require.NoError(t, err)
			return v
		}
	}
	return -1
}

// metrics waits until the metrics of a process have the given values.
func (p *fleetProcess) metrics(t *testing.T, want map[string]float64) {
	t.Helper()
	for name, value := range want {
		require.Eventually(t, func() bool { return p.metric(t, name) == value }, time.Minute, 10*time.Millisecond, "%s is not %v", name, value)
	}
}

// quickLife starts a process with leases of 200 ms. Such a process waits less than a second for its state database.
func quickLife(c *exec.Cmd) error {
	c.Env = append(os.Environ(), lifeEnv+"=200ms")
	return c.Start()
}

// The queue of a fleet fills and empties, and the metrics of serve and worker show this. If a worker is stopped in the
// middle of a unit, it returns the unit to the queue at once, and another worker completes the unit. SIGHUP makes a
// worker read its configuration again.
func TestWorkerIsOperated(t *testing.T) {
	t.Parallel()
	r := newFleet(t, 3, "@every 2s")
	asked, release := r.hold("ws001")
	serve := r.start("serve", "--slots", "0")
	r.until("SELECT count(DISTINCT source) FROM units", "3")
	serve.metrics(t, map[string]float64{"penstock_units_waiting": 9, "penstock_units_running": 0, `penstock_worker_slots{queue="runs"}`: -1})
	require.Positive(t, serve.metric(t, "penstock_unit_oldest_waiting_age_seconds"))
	first := r.start("worker", "--slots", "4")
	<-asked
	r.until("SELECT count(*) FROM units WHERE source <> 'ws001' AND state = 'done'", "6")
	first.metrics(t, map[string]float64{
		"penstock_units_waiting": 0, "penstock_units_running": 1, "penstock_unit_oldest_waiting_age_seconds": 0,
		`penstock_worker_slots{queue="runs"}`: 4,
	})
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusOK, "/": http.StatusNotFound, "/api/v1/status": http.StatusNotFound} {
		code, body := first.get(t, path)
		require.Equal(t, want, code, "%s: %s", path, body)
	}
	require.NoError(t, first.Process.Signal(syscall.SIGHUP))
	first.metrics(t, map[string]float64{`penstock_configuration_reloads_total{outcome="done"}`: 1})

	run := r.text("SELECT run FROM units ORDER BY id LIMIT 1")
	first.end(t)
	require.Equal(t, "1", r.text("SELECT count(*) FROM units WHERE state IN ('waiting', 'parked') AND broken = 0 AND not_before <= now()"), "a worker that stops returns its units to the queue")
	serve.metrics(t, map[string]float64{"penstock_units_waiting": 1, "penstock_units_running": 0})
	release()
	second := r.start("worker", "--slots", "4")
	r.until("SELECT status FROM runs WHERE run = '"+run+"'", "complete")
	serve.end(t)
	second.metrics(t, map[string]float64{"penstock_units_waiting": 0, "penstock_units_running": 0, `penstock_worker_slots_used{queue="runs"}`: 0})
	second.end(t)
	r.whole()
}

// The state database does not answer when a worker and serve start, and both wait for it. While the worker waits, it
// answers health requests. Its log says when the database answers again. After a limited time, both exit with 75, and
// their messages do not mention the configuration.
func TestWorkerAwaitsState(t *testing.T) {
	t.Parallel()
	r := newFleet(t, 1, "@every 1h")
	r.server.Stop()
	waiting, daemon := r.start("worker"), r.start("serve", "--slots", "0")
	code, _ := waiting.get(t, "/healthz")
	require.Equal(t, http.StatusOK, code)
	code, body := waiting.get(t, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code, body)
	for _, verb := range []string{"worker", "serve"} {
		p := r.startAs(r.config(), quickLife, verb)
		_ = p.Wait()
		require.Equal(t, failure.ExitPartial, p.ProcessState.ExitCode(), p.out)
		require.Contains(t, p.out.String(), "hint: run again when the database answers")
		require.NotContains(t, p.out.String(), "`state:`")
	}
	require.Eventually(t, func() bool { return strings.Contains(waiting.out.String(), "the state database does not answer") }, time.Minute, 5*time.Millisecond, "%s", waiting.out)
	require.Eventually(t, func() bool { return strings.Contains(daemon.out.String(), "the state database does not answer") }, time.Minute, 5*time.Millisecond, "%s", daemon.out)
	require.NoError(t, daemon.Process.Signal(syscall.SIGHUP), "SIGHUP must not end serve; it reads the configuration later")
	r.server.Resume()
	require.Eventually(t, func() bool { code, _ := waiting.get(t, "/readyz"); return code == http.StatusOK }, time.Minute, 10*time.Millisecond, "%s", waiting.out)
	require.Contains(t, waiting.out.String(), "the state database answers again")
	waiting.end(t)
	daemon.metrics(t, map[string]float64{`penstock_configuration_reloads_total{outcome="done"}`: 1})
	daemon.end(t)
}
