//go:build cgo && duckdb_arrow

package main

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/fleet/sizing"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
)

// nightsRig is a fleet behind a PgBouncer. It has one run each night. The pipeline "all" reads all workspaces into
// shared tables, and the pipeline "files" reads two of them into a Parquet lake.
type nightsRig struct {
	*sweepRig
	set      func(ahead time.Duration) // sets the clock of the server
	first    time.Time                 // the time of the first run
	slots    []int                     // of the workers
	sessions func(context.Context) (int, error)

	mu      sync.Mutex
	clients func(context.Context) (ports []string, err error) // of the PgBouncer
	owners  map[string]int                                    // ids of processes, by port
}

const nightStreams = "crm.lead_stages, crm.sources, crm.leads, v2.contacts, hr.leave_types, sales.invoices, sales.invoice"

func newNights(t *testing.T, nights, workspaces int, streams string, slots ...int) *nightsRig {
	t.Helper()
	r := &nightsRig{slots: slots}
	now := time.Now().UTC()
	r.first = time.Date(now.Year(), now.Month(), now.Day(), 2, 0, 5, 0, time.UTC).AddDate(0, 0, -nights-1)
	// There are no checkpoints, because after a checkpoint the server writes whole pages to the WAL.
	server, set := pgtest.StartClocked(t, time.Until(r.first.Add(-time.Hour)), "max_connections=100", "checkpoint_timeout=1d", "max_wal_size=100GB",
		"shared_preload_libraries=pg_stat_statements", "pg_stat_statements.max=20000", "autovacuum_naptime=10s")
	r.set = set
	f := &fleetRig{worlds: newWorldsOf(t, workspaces, sandbox.Options{NoLimits: true, MaxRows: fewRecords}), t: t, server: server}
	r.sweepRig = &sweepRig{fleetRig: f, to: postgresTarget{server: server, name: "postgres"}}
	var err error
	r.db, err = pgx.Connect(t.Context(), server.URL()+"&search_path=fleet,lake,public")
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.db.Close(context.Background()) })
	r.configure(t, fmt.Sprintf("{url: %q, schema: lake}", server.URL()), "'*'", "["+streams+"], keep: 12h, schedule: {cron: '0 2 * * *', zone: UTC, catch_up: once}")
	text, err := os.ReadFile(r.config())
	require.NoError(t, err)
	all := strings.Replace(string(text), "\npipelines: {", fmt.Sprintf("\npipelines: {files: {from: [ws000, ws001], to: files, streams: [%s], keep: 12h, schedule: {cron: '0 2 * * *', zone: UTC, catch_up: once}}, ", nightStreams), 1)
	all = strings.Replace(all, "destinations: {", fmt.Sprintf("destinations: {files: 'parquet:%s?keep=1&keep_for=1s', ", r.files()), 1)
	all = strings.Replace(all, "state: "+r.dir+"/state", fmt.Sprintf("state: %q\nserve: {listen: 127.0.0.1:0}\nworker: {listen: 127.0.0.1:0}", server.URL()+"&search_path=fleet"), 1)
	require.NoError(t, os.WriteFile(r.config(), []byte(all), 0o600))
	code, out, errs := r.penstock(t, "migrate")
	require.Zero(t, code, out+errs)
	_, err = r.db.Exec(t.Context(), "CREATE EXTENSION pg_stat_statements SCHEMA public")
	require.NoError(t, err)
	r.sessions = r.fleetRig.sessions(t)
	r.clients = r.throughPooler(t, "default_pool_size = 16")
	serve := r.start("serve", "--slots", "0")
	r.until("SELECT count(*) FROM pipelines", "2")
	serve.end(t)
	return r
}

func (r *nightsRig) files() string { return filepath.Join(r.dir, "files") }

// nightWork is what a night did and left.
type nightWork struct {
	statements, commits, wal int
	fleet, server            time.Duration  // CPU
	workers, serve, sessions int            // connections: of one worker, of serve, and of the PgBouncer to the server
	rows                     map[string]int // of penstock's own tables
	bytes, entries           int            // of penstock's own tables in the destination; in the folder of the lake
	certified                int            // runs that have certificates of the same stream, at most
}

// night runs the run of a night. The number of the first night is 0.
func (r *nightsRig) night(n int) (w nightWork) {
	t := r.t
	t.Helper()
	r.set(time.Until(r.first.AddDate(0, 0, n)))
	// River's clock is that of the processes, which is right. So its jobs get older here.
	_, err := r.db.Exec(t.Context(), "UPDATE river_job SET created_at = created_at - interval '1 day', scheduled_at = scheduled_at - interval '1 day', finalized_at = finalized_at - interval '1 day' WHERE finalized_at IS NOT NULL")
	require.NoError(t, err)
	time.Sleep(1500 * time.Millisecond) // the server's processes read their clock once a second
	// The calls are those of the fleet, without the statements of this test.
	const wal, calls = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint", "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat%' AND query NOT LIKE 'SELECT coalesce((%)::text, %)'"
	r.text("SELECT pg_stat_statements_reset()")
	w.server, w.wal = -r.serverCPU(), -r.number(wal)
	processes := []*fleetProcess{r.start("serve", "--slots", "0")}
	for _, slots := range r.slots {
		processes = append(processes, r.start("worker", "--slots", strconv.Itoa(slots)))
	}
	r.owners = map[string]int{}
	const every = 25 * time.Millisecond
	serve := mostOf(t, every, r.connections(sizing.Connections(0), processes[:1]))
	workers := mostOf(t, every, r.connections(sizing.Connections(r.slots[0]), processes[1:]))
	sessions := mostOf(t, every, r.sessions)
	r.await("SELECT count(*) FROM slots WHERE state = 'ran'", strconv.Itoa(2*(n+1)))
	w.serve, w.workers, w.sessions = serve(), workers(), sessions()
	for _, p := range processes {
		p.end(t)
		w.fleet += p.ProcessState.UserTime() + p.ProcessState.SystemTime()
	}
	w.statements, w.commits = r.number(calls), r.number(calls+" AND upper(query) = 'COMMIT'")
	w.server += r.serverCPU()
	w.wal += r.number(wal)
	r.measure(&w)
	return w
}

func (r *nightsRig) number(sql string) int {
	n, err := strconv.Atoi(r.text(sql))
	require.NoError(r.t, err, sql)
	return n
}

// measure counts the rows of penstock's own tables, their bytes, and the entries of the lake's folder.
func (r *nightsRig) measure(w *nightWork) {
	t := r.t
	w.rows = map[string]int{}
	rows, err := r.db.Query(t.Context(), `SELECT relnamespace::regnamespace || '.' || relname FROM pg_class WHERE relkind = 'r'
		AND (relnamespace = 'lake'::regnamespace AND relname LIKE '\_penstock\_%' OR relnamespace = 'fleet'::regnamespace) ORDER BY 1`)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	for _, name := range names {
		w.rows[name] = r.number("SELECT count(*) FROM " + name)
		if strings.HasPrefix(name, "lake.") {
			_, err := r.db.Exec(t.Context(), "VACUUM "+name)
			require.NoError(t, err)
			w.bytes += r.number("SELECT pg_total_relation_size('" + name + "')")
		}
	}
	w.certified = r.number(`SELECT max(n) FROM (SELECT count(DISTINCT split_part(run, '#', 1)) AS n FROM lake._penstock_certificates GROUP BY pipeline, _penstock_source, stream) x`)
	require.NoError(t, filepath.WalkDir(r.files(), func(_ string, _ fs.DirEntry, err error) error {
		w.entries++
		return err
	}))
}

// connections returns a function that returns how many connections to the PgBouncer the given processes have: the
// greatest number that one of them has. If the PgBouncer shows more than allowed, the function counts only those that the
// process still has: the PgBouncer does not read from a client that waits for a session of the server, so it does not
// notice that the client has closed the connection.
func (r *nightsRig) connections(allowed int, of []*fleetProcess) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		ports, err := r.clients(ctx)
		if err != nil {
			return 0, err
		}
		count := func() (most int) {
			n := map[int]int{}
			for _, port := range ports {
				if _, known := r.owners[port]; !known {
					r.owners[port] = r.owner(port)
				}
				n[r.owners[port]]++
			}
			for _, p := range of {
				most = max(most, n[p.Process.Pid])
			}
			return most
		}
		if n := count(); n <= allowed {
			return n, nil
		}
		clear(r.owners)
		return count(), nil
	}
}

// owner returns the id of the process that has a connection with this port on its side, or 0.
func (r *nightsRig) owner(port string) (pid int) {
	n, _ := strconv.ParseUint(port, 10, 16)
	text, _ := os.ReadFile("/proc/net/tcp")
	at := fmt.Sprintf("0100007F:%04X", n)
	for line := range strings.Lines(string(text)) {
		c := strings.Fields(line)
		if len(c) < 10 || c[1] != at {
			continue
		}
		for _, p := range r.processes {
			if files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.Process.Pid)); slices.ContainsFunc(files, func(f string) bool {
				to, err := os.Readlink(f)
				return err == nil && to == "socket:["+c[9]+"]"
			}) {
				return p.Process.Pid
			}
		}
	}
	return 0
}

// TestFleetNights: many workspaces are read each night, by real processes behind a real PgBouncer. Each night the clock
// of the database is a day later. Nothing has changed at the sources, except before the first night and the last night.
// Penstock's own tables and the folder of a lake do not grow after `keep:` has passed. No process has more connections
// than it is allowed. Each run has one row for each workspace, and the tables equal the source. PENSTOCK_TEST_TRIALS is
// the number of nights, PENSTOCK_TEST_WORKSPACES is the number of workspaces, and PENSTOCK_TEST_STREAMS=all reads all
// streams.
func TestFleetNights(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	nights, workspaces, slots := 4, 3, []int{2}
	if n, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_TRIALS")); err == nil {
		nights, workspaces, slots = max(nights, min(n, 30)), 12, []int{8, 8}
	}
	if n, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_WORKSPACES")); err == nil {
		workspaces = n
	}
	streams, only := nightStreams, strings.Split(nightStreams, ", ")
	if os.Getenv("PENSTOCK_TEST_STREAMS") == "all" {
		streams, only = "'*'", nil
	}
	t.Setenv(lifeEnv, "0s") // the program's own lifetimes: with short leases, processes on a busy machine lose them
	r := newNights(t, nights, workspaces, streams, slots...)
	var all []nightWork
	for n := range nights {
		if n == nights-1 {
			r.flat(all)
			for _, s := range r.worlds.all {
				s.Touch(0.5)
			}
		}
		w := r.night(n)
		t.Logf("night %d: %d statements, %d commits, %d kB of WAL; CPU: %.1f s of the fleet, %.1f s of the server; connections: a worker %d, serve %d, the server %d; own tables: %d rows, %d kB; lake: %d entries; runs with certificates of a stream: %d",
			n+1, w.statements, w.commits, w.wal>>10, w.fleet.Seconds(), w.server.Seconds(), w.workers, w.serve, w.sessions, sum(w.rows, "lake."), w.bytes>>10, w.entries, w.certified)
		require.LessOrEqual(t, w.workers, sizing.Connections(slots[0]))
		require.LessOrEqual(t, w.serve, sizing.Connections(0))
		r.recorded(n, &w)
		all = append(all, w)
	}
	t.Log(all[len(all)-1].rows)
	r.equal(only...)
}

func sum(rows map[string]int, prefix string) (n int) {
	for name, of := range rows {
		if strings.HasPrefix(name, prefix) {
			n += of
		}
	}
	return n
}

// recorded checks that the run of each pipeline was complete, in the state and in the destination.
func (r *nightsRig) recorded(n int, w *nightWork) {
	t := r.t
	t.Helper()
	require.Equal(t, 2*(n+1), w.rows["fleet.slots"])
	require.Equal(t, 2*(n+1), w.rows["fleet.runs"])
	require.Empty(t, r.text("SELECT string_agg(concat_ws(' ', pipeline, run, status, error), E'\n') FROM runs WHERE status <> 'complete'"))
	run := r.text("SELECT max(run) FROM runs WHERE pipeline = 'all'")
	require.Equal(t, strconv.Itoa(len(r.made)), r.text("SELECT count(DISTINCT _penstock_source) FROM lake._penstock_runs WHERE run = '"+run+"'"))
	require.Empty(t, r.text("SELECT string_agg(x::text, ' ') FROM (SELECT run, _penstock_source FROM lake._penstock_runs GROUP BY 1, 2 HAVING count(*) > 1) x"), "one row for a run")
	require.Empty(t, r.text("SELECT string_agg(concat_ws(' ', run, status), ' ') FROM lake._penstock_runs WHERE status <> 'complete'"))
}

// flat checks that nothing grows after the second night: then the first night's rows are older than `keep:`. The tables
// have at most the rows of two nights, because the newest certificate of a stream stays until the next run has read the
// stream. A stream may have several certificates of a night, so their number may differ from night to night. The state
// keeps more runs than that: see docs/operations.md.
func (r *nightsRig) flat(all []nightWork) {
	t := r.t
	t.Helper()
	const keptRuns = 20
	bounded := []string{"lake._penstock_certificates", "fleet.slots", "fleet.runs", "fleet.units", "fleet.river_job", "fleet.history"}
	reached := all[1]
	for i, w := range all[2:] {
		night := i + 3
		for _, name := range slices.Sorted(maps.Keys(w.rows)) {
			if slices.Contains(bounded, name) {
				continue
			}
			require.LessOrEqual(t, w.rows[name], max(reached.rows[name], 2*all[0].rows[name]), "%s after night %d", name, night)
		}
		require.LessOrEqual(t, w.certified, 2, "night %d", night)
		require.LessOrEqual(t, w.rows["fleet.units"], min(night, keptRuns+1)*all[0].rows["fleet.units"], "night %d", night)
		// A night adds a point for each series, and keeps it for 92 days. An hour becomes a day, so the number stays.
		require.LessOrEqual(t, w.rows["fleet.history"], night*all[0].rows["fleet.history"], "night %d", night)
		require.LessOrEqual(t, 4*w.bytes, 5*reached.bytes, "night %d", night)
		require.LessOrEqual(t, 2*w.entries, 3*reached.entries, "night %d", night)
	}
}
