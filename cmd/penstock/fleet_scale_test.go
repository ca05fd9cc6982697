//go:build unix && cgo && duckdb_arrow

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/extract/sandbox"
)

// TestFleetScales logs how much faster four workers are than one. Each source has its own API key, and answers after
// 150 to 250 ms. The test asserts only that the tables are complete, because the times depend on the machine. On two
// cores, four workers with one slot each mostly wait for the sources. With two slots for each worker, the cores are
// busy for three quarters of the time, mostly with work of the database.
func TestFleetScales(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	for _, slots := range []string{"1", "2"} {
		t.Run(slots, func(t *testing.T) {
			one, four := fleetTook(t, 1, slots), fleetTook(t, 4, slots)
			t.Logf("one worker %s, four %s: %.2f x", one.Round(time.Millisecond), four.Round(time.Millisecond), one.Seconds()/four.Seconds())
		})
	}
}

// fleetTook returns the time that the given number of workers takes for one run over 96 workspaces.
func fleetTook(t *testing.T, workers int, slots string) time.Duration {
	w := newWorldsOf(t, 96, sandbox.Options{})
	for i := range w.all { // with equal latencies, all workers would need the database at the same moments
		s, err := sandbox.New(sandbox.Options{Seed: uint64(i + 1), NoLimits: true, Latency: time.Duration(150+50*i) * time.Millisecond})
		require.NoError(t, err)
		w.all[i] = s
	}
	r := newFleetOf(t, w, "@every 2s")
	var all []*fleetProcess
	for range workers {
		w := r.start("worker", "--slots", slots)
		require.Eventually(t, func() bool { return strings.Contains(w.out.String(), "worker started") }, time.Minute, 20*time.Millisecond)
		all = append(all, w)
	}
	serve := r.start("serve", "--slots", "0")
	r.until("SELECT count(DISTINCT source) FROM units", "96")
	serve.end(t) // workers do the planned work without serve
	run := r.text("SELECT run FROM units ORDER BY id LIMIT 1")
	for r.text("SELECT count(*) FROM units WHERE state <> 'done' AND run = '"+run+"'") != "0" {
		time.Sleep(100 * time.Millisecond)
	}
	seconds, err := strconv.ParseFloat(r.text("SELECT extract(epoch FROM max(ended) - min(started)) FROM units WHERE run = '"+run+"'"), 64)
	require.NoError(t, err)
	for _, w := range all {
		w.end(t)
	}
	r.whole()
	return time.Duration(seconds * float64(time.Second))
}

// TestFleetPlansMany: serve plans a run over all streams of many workspaces, in one transaction. The test logs the time
// and the work. PENSTOCK_TEST_WORKSPACES sets the number of workspaces.
func TestFleetPlansMany(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Setenv(lifeEnv, fleet.DefaultLife.String()) // the server ends transactions that are idle for longer
	workspaces := 100
	if n, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_WORKSPACES")); err == nil {
		workspaces = n
	}
	r := newFleet(t, 1, "@every 1s")
	for i := 1; i < workspaces; i++ {
		r.made = append(r.made, fmt.Sprintf("ws%03d", i))
	}
	list := filepath.Join(r.dir, "all.csv")
	require.NoError(t, os.WriteFile(list, []byte("name\n"+strings.Join(r.made, "\n")+"\n"), 0o600))
	text, err := os.ReadFile(r.config())
	require.NoError(t, err)
	all := regexp.MustCompile(`(?m)^  ws000: .*\n`).ReplaceAllLiteralString(strings.Replace(string(text), fleetStreams, "'*'", 1), fmt.Sprintf(`  from: {file: %s}
  template: {v2: {base_url: "%s/{name}", auth: {api_key: "{name}"}, rate: 100/s}, app: {base_url: "%[2]s/{name}", auth: {token: "{name}"}, rate: 100/s}}
`, list, r.url))
	require.NoError(t, os.WriteFile(r.config(), []byte(all), 0o600))
	begun := time.Now()
	serve := r.start("serve", "--slots", "0")
	r.until("SELECT count(*) > 0 FROM units", "true")
	t.Logf("%s units, %s jobs after %s; plan %s", r.text("SELECT count(*) FROM units"), r.text("SELECT count(*) FROM river_job"), time.Since(begun).Round(time.Millisecond),
		r.text("SELECT min(ready) - min(started) FROM runs, (SELECT clock_timestamp() ready) x"))
	require.Equal(t, "0", r.text("SELECT count(*) FROM units WHERE planned <> (SELECT count(*) FROM units) OR job IS NULL"))
	require.Equal(t, strconv.Itoa(workspaces), r.text("SELECT count(*) FROM river_job"))
	run := r.text("SELECT max(run) FROM units")
	begun = time.Now()
	code, out, errs := r.penstock(t, "runs", "cancel", run)
	require.Zero(t, code, out+errs)
	t.Logf("cancelled after %s", time.Since(begun).Round(time.Millisecond))
	serve.end(t)
	t.Logf("serve: %s of CPU, %d MB", serve.ProcessState.UserTime()+serve.ProcessState.SystemTime(), serve.ProcessState.SysUsage().(*syscall.Rusage).Maxrss>>10)
}
