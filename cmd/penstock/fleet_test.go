//go:build unix && cgo && duckdb_arrow

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
)

// fleetRig has a state database that serve and workers share, a Postgres destination, and many workspaces.
type fleetRig struct {
	*worlds
	t         *testing.T
	server    *pgtest.Server
	db        *pgx.Conn
	processes []*fleetProcess
}

const fleetStreams = "[crm.lead_stages, crm.sources, crm.leads]"

func newFleet(t *testing.T, workspaces int, cron string) *fleetRig {
	t.Helper()
	return newFleetOf(t, newWorlds(t, workspaces), cron)
}

func newFleetOf(t *testing.T, w *worlds, cron string) *fleetRig {
	t.Helper()
	server := pgtest.Start(t)
	r := &fleetRig{worlds: w, t: t, server: server}
	r.configure(t, fmt.Sprintf("{url: %q, schema: \"ws_{source}\"}", server.URL()), "'*'", fleetStreams)
	text, err := os.ReadFile(r.config())
	require.NoError(t, err)
	all := strings.Replace(string(text), "streams: "+fleetStreams, fmt.Sprintf("streams: %s, schedule: {cron: %q}", fleetStreams, cron), 1)
	all = strings.Replace(all, "state: "+r.dir+"/state", fmt.Sprintf("state: %q\nserve: {listen: 127.0.0.1:0}\nworker: {listen: 127.0.0.1:0}", server.URL()+"&search_path=fleet"), 1)
	require.NoError(t, os.WriteFile(r.config(), []byte(all), 0o600))
	code, out, errs := r.penstock(t, "migrate")
	require.Zero(t, code, out+errs)
	r.db, err = pgx.Connect(t.Context(), server.URL()+"&search_path=fleet")
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.db.Close(context.Background()) })
	return r
}

// fleetProcess is a process of a fleet.
type fleetProcess struct {
	*exec.Cmd
	out *spoken
}

func (r *fleetRig) start(args ...string) *fleetProcess {
	r.t.Helper()
	return r.startAs(r.config(), (*exec.Cmd).Start, args...)
}

// startAs starts a process with the given configuration. It passes the command to the argument `start`, which may
// change the command and must start it.
func (r *fleetRig) startAs(config string, start func(*exec.Cmd) error, args ...string) *fleetProcess {
	r.t.Helper()
	self, err := os.Executable()
	require.NoError(r.t, err)
	p := &fleetProcess{exec.Command(self), &spoken{}}
	p.Args = append([]string{"penstock-quick", "-c", config}, args...)
	p.Dir, p.Stdout, p.Stderr = filepath.Dir(config), p.out, p.out
	require.NoError(r.t, start(p.Cmd))
	r.processes = append(r.processes, p)
	r.t.Cleanup(func() { p.kill() })
	return p
}

func (p *fleetProcess) kill() {
	if p.ProcessState == nil {
		_ = p.Process.Kill()
		_ = p.Wait()
	}
}

// end stops a process with SIGTERM, as systemd does.
func (p *fleetProcess) end(t *testing.T) {
	t.Helper()
	begun := time.Now()
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	_ = p.Wait()
	require.Equal(t, 143, p.ProcessState.ExitCode(), p.out)
	require.Less(t, time.Since(begun), 2*time.Minute) // a process should end within ten seconds, but may take longer on a busy machine
}

// text returns the first value of a query of the state database.
func (r *fleetRig) text(sql string) (text string) {
	r.t.Helper()
	require.NoError(r.t, r.db.QueryRow(r.t.Context(), "SELECT coalesce(("+sql+")::text, '')").Scan(&text), sql)
	return text
}

// until() waits until a query of the state database returns the wanted text. If this takes too long, the test fails,
// and logs everything that may explain the failure.
func (r *fleetRig) until(sql, want string) {
	r.t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if r.text(sql) == want {
			return
		}
	}
	r.t.Logf("%s is %s after 5 minutes, not %s", sql, r.text(sql), want)
	r.t.Log(r.text("SELECT string_agg(convert_from(report, 'UTF8'), E'\\n') FROM units"))
	for _, table := range []string{"slots", "leases", "river_job"} {
		r.t.Log(table, r.text("SELECT string_agg(x::text, E'\n') FROM "+table+" x"))
	}
	for _, f := range r.processes {
		r.t.Log(f.Args, f.out)
	}
	r.t.FailNow()
}

// whole() checks that the tables have as many records as the platform. It also checks that each slot ran once, that no
// unit waits or runs, and that no lease is taken.
func (r *fleetRig) whole() {
	r.t.Helper()
	for _, name := range r.made {
		want := r.truth(r.t, name, "crm.leads")
		var rows, different int
		err := r.db.QueryRow(r.t.Context(), fmt.Sprintf("SELECT count(*), count(DISTINCT id) FROM ws_%s.crm_leads WHERE _penstock_deleted_at IS NULL", name)).Scan(&rows, &different)
		require.NoError(r.t, err)
		require.Equal(r.t, len(want), rows, name)
		require.Equal(r.t, len(want), different, name)
	}
	require.Equal(r.t, "0", r.text("SELECT count(*) FROM units WHERE state IN ('waiting', 'running', 'parked')"))
	r.until("SELECT count(*) FROM leases WHERE name LIKE 'pipeline %' AND until > clock_timestamp()", "0")
	require.Equal(r.t, "0", r.text("SELECT count(*) FROM slots WHERE state = 'ran' AND (SELECT count(*) FROM runs r WHERE r.due = slots.due) <> 1"))
}

// hold makes the first request for leads of a workspace wait until release() is called. The returned channel is closed
// when the request arrives.
func (r *fleetRig) hold(name string) (asked chan struct{}, release func()) {
	asked, free := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	r.odd[name] = func(rw http.ResponseWriter, q *http.Request) {
		if strings.Contains(q.URL.Path, "lead") {
			if first.CompareAndSwap(false, true) {
				close(asked)
				<-free
			}
		}
		http.StripPrefix("/"+name, r.of(name)).ServeHTTP(rw, q)
	}
	release = sync.OnceFunc(func() { close(free) })
	r.t.Cleanup(release)
	return asked, release
}

// Workers execute a run that serve plans. If a worker is killed in the middle of a unit, another worker takes over the
// unit. The same happens if a worker is frozen until its lease has expired. When the frozen worker continues, it
// commits nothing.
func TestFleet(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			r := newFleet(t, 3, "@every 2s")
			asked, release := r.hold("ws001")
			serve, other := r.start("serve", "--slots", "0"), r.start("serve", "--slots", "0")
			r.until("SELECT count(DISTINCT source) FROM units", "3")
			first := r.start("worker", "--slots", "4")
			<-asked
			r.until("SELECT count(*) FROM units WHERE source <> 'ws001' AND state = 'done'", "6")
			run := r.text("SELECT run FROM units ORDER BY id LIMIT 1")
			of := "FROM units WHERE source = 'ws001' AND run = '" + run + "'"
			require.Contains(t, r.text("SELECT string_agg(DISTINCT state, ' ') "+of), "running")
			require.NoError(t, first.Process.Signal(signal))
			second := r.start("worker", "--slots", "4")
			r.until("SELECT status FROM runs WHERE run = '"+run+"'", "complete")
			require.NotEqual(t, "1", r.text("SELECT max(attempt) "+of), "another worker must have taken over the unit")
			release()
			settled := r.text("SELECT string_agg(units::text, ' ' ORDER BY id) " + of)
			_ = first.Process.Signal(syscall.SIGCONT)
			serve.end(t)
			other.end(t)
			r.until("SELECT count(*) FROM units WHERE state IN ('waiting', 'running', 'parked')", "0")
			if signal == syscall.SIGSTOP {
				first.end(t)
			}
			second.end(t)
			require.Equal(t, settled, r.text("SELECT string_agg(units::text, ' ' ORDER BY id) "+of))
			r.whole()
			code, out, errs := r.penstock(t, "runs", "units", run, "--json")
			require.Zero(t, code, errs)
			require.Equal(t, 9, strings.Count(out, `"state":"done"`), out)
			code, out, errs = r.penstock(t, "runs", "cancel", run)
			require.Zero(t, code, errs)
			require.Contains(t, out+errs, "0 units cancelled") // the run has ended
		})
	}
}

// Without a state database, a worker does not start.
func TestWorkerWithoutDatabase(t *testing.T) {
	w := newWorlds(t, 1)
	w.configure(t, "parquet:"+w.dir+"/lake", "'*'", "crm.leads")
	code, _, errs := w.penstock(t, "worker")
	require.Equal(t, failure.ExitUsage, code)
	require.Contains(t, errs, "hint: set `state: postgres://…`")
}

// If a unit crashes its worker each time, the unit fails after some attempts, and its report says why. Other units
// still complete.
// Invariant 15
func TestFleetUnitKillsWorker(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for several leases to expire")
	}
	t.Setenv(lifeEnv, "1s")
	r := newFleet(t, 2, "@every 2s")
	var mu sync.Mutex
	var worker *fleetProcess
	r.odd["ws001"] = func(rw http.ResponseWriter, q *http.Request) {
		if strings.Contains(q.URL.Path, "source") {
			mu.Lock()
			_ = worker.Process.Kill()
			mu.Unlock()
			return
		}
		http.StripPrefix("/ws001", r.of("ws001")).ServeHTTP(rw, q)
	}
	r.start("serve", "--slots", "0")
	worker = r.start("worker")
	supervised := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(supervised)
		for {
			_ = worker.Wait()
			select {
			case <-stop:
				return
			default:
			}
			mu.Lock()
			worker = r.start("worker")
			mu.Unlock()
		}
	}()
	r.until("SELECT count(*) > 0 FROM units", "true")
	run := r.text("SELECT run FROM units ORDER BY id LIMIT 1")
	r.until("SELECT status FROM runs WHERE run = '"+run+"'", "partial")
	require.Equal(t, "done 5, failed 1", r.text("SELECT string_agg(state || ' ' || n, ', ' ORDER BY state) FROM (SELECT state, count(*) n FROM units WHERE run = '"+run+"' GROUP BY state) x"))
	code, out, errs := r.penstock(t, "runs", "units", run)
	require.Zero(t, code, errs)
	require.Contains(t, out, "given up: its worker died 7 times")
	close(stop)
	mu.Lock()
	_ = worker.Process.Kill()
	mu.Unlock()
	<-supervised
}
