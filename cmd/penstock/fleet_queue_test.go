//go:build unix && cgo && duckdb_arrow

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/fleet/queue"
)

// queueJob is a job in a response of River UI. River is the library of the queue, and River UI shows the queue in the
// dashboard.
type queueJob struct{ Args string }

// jobs returns the jobs with the given state, by source. It reads them from the dashboard's pages of the queue.
func (r *fleetRig) jobs(serve *fleetProcess, state string) map[string]queueJob {
	r.t.Helper()
	resp, err := http.Get(r.address(serve) + "/queue/api/jobs?limit=100&state=" + state)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	require.Equal(r.t, http.StatusOK, resp.StatusCode, string(text))
	var all struct{ Data []queueJob }
	require.NoError(r.t, json.Unmarshal(text, &all), string(text))
	found := map[string]queueJob{}
	for _, j := range all.Data {
		var u queue.Job
		require.NoError(r.t, json.Unmarshal([]byte(j.Args), &u))
		found[u.Source] = j
	}
	return found
}

// address returns the address of the dashboard of a process.
func (r *fleetRig) address(serve *fleetProcess) string {
	r.t.Helper()
	var at []string
	require.Eventually(r.t, func() bool {
		at = servedAt.FindStringSubmatch(serve.out.String())
		return at != nil
	}, time.Minute, 20*time.Millisecond)
	return "http://" + at[1] + at[2]
}

// The pages of the queue show waiting, running, ended and cancelled units. The pages cannot change anything. `runs
// cancel` cancels the units.
func TestFleetQueuePages(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three processes")
	}
	r := newFleet(t, 4, "@every 2s")
	asked, _ := r.hold("ws000")
	for _, name := range []string{"ws001", "ws002"} { // these workspaces answer no request
		r.odd[name] = func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }
	}
	serve := r.start("serve", "--slots", "0")
	r.until("SELECT count(DISTINCT source) FROM units", "4")
	require.Len(t, r.jobs(serve, "available"), 4, "all units must wait, because no worker runs")
	worker := r.start("worker", "--slots", "2")
	<-asked
	require.Contains(t, r.jobs(serve, "running"), "ws000")
	r.until("SELECT count(*) > 0 FROM units WHERE source = 'ws003' AND state = 'done'", "true")
	require.Eventually(t, func() bool { return r.jobs(serve, "completed")["ws003"].Args != "" }, time.Minute, 50*time.Millisecond)

	resp, err := http.Get(r.address(serve) + "/queue/jobs")
	require.NoError(t, err)
	page, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Contains(t, string(page), "River")
	resp, err = http.Post(r.address(serve)+"/queue/api/jobs/cancel", "application/json", strings.NewReader(`{"ids":["1"]}`))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 4, resp.StatusCode/100, "the pages must refuse requests that change something")

	run := r.text("SELECT min(run) FROM units")
	code, out, errs := r.penstock(t, "runs", "cancel", run)
	require.Zero(t, code, out+errs)
	require.Eventually(t, func() bool { return len(r.jobs(serve, "cancelled")) >= 3 }, time.Minute, 50*time.Millisecond)
	serve.end(t)
	worker.end(t)
}

// If leases have their default lifetime, River returns a killed worker's units to the queue within a minute. The pages of the queue show that the units are retried.
func TestFleetRescued(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a lease to run out")
	}
	t.Setenv(lifeEnv, fleet.DefaultLife.String())
	r := newFleet(t, 2, "@every 2s")
	asked, release := r.hold("ws001")
	workers := []*fleetProcess{r.start("worker", "--slots", "1"), r.start("worker", "--slots", "1")}
	for _, w := range workers {
		require.Eventually(t, func() bool { return strings.Contains(w.out.String(), "worker started") }, time.Minute, 20*time.Millisecond)
	}
	serve := r.start("serve", "--slots", "0")
	<-asked // kill the worker soon: after a long wait for the source, the worker would itself return the job to the queue
	const holder = "SELECT DISTINCT worker FROM units WHERE source = 'ws001' AND state = 'running'"
	of := r.text(holder)
	killed, next := workers[0], workers[1]
	if strings.Contains(of, fmt.Sprintf("/%d/", next.Process.Pid)) {
		killed, next = next, killed
	}
	require.NoError(t, killed.Process.Signal(syscall.SIGKILL))
	begun := time.Now()
	require.Eventually(t, func() bool { return r.jobs(serve, "retryable")["ws001"].Args != "" }, time.Minute, 50*time.Millisecond)
	require.Eventually(t, func() bool {
		return r.text(holder) != of && r.text("SELECT max(attempt) FROM units WHERE source = 'ws001'") != "1"
	},
		time.Minute, 50*time.Millisecond)
	t.Logf("another worker had the units after %s", time.Since(begun).Round(100*time.Millisecond))
	require.Equal(t, "1", r.text("SELECT max((metadata ->> 'river:rescue_count')::int) FROM river_job WHERE args ->> 'source' = 'ws001'"))
	release()
	serve.end(t)
	r.until("SELECT count(*) FROM units WHERE state IN ('waiting', 'running', 'parked')", "0")
	next.end(t)
	r.whole()
}
