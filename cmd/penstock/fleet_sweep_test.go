//go:build unix && cgo && duckdb_arrow

package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/schemas"
)

// sweepRig is a fleet with two pipelines. The pipeline "all" runs once, and reads streams of all workspaces into
// shared tables. The pipeline "beat" is due every five seconds.
type sweepRig struct {
	*fleetRig
	to      postgresTarget
	streams []string // the streams of the pipeline "all"; empty: every stream
	life    string   // the lifetime of leases
}

// fewRecords is the number of records per table of a workspace.
const fewRecords = 4

// newSweep returns a fleet whose pipeline "all" is due after the given time. Without streams, it reads every stream.
func newSweep(t *testing.T, workspaces int, wait time.Duration, streams ...string) *sweepRig {
	t.Helper()
	server := pgtest.Start(t, "max_connections=400")
	r := &sweepRig{fleetRig: &fleetRig{worlds: newWorldsOf(t, workspaces, sandbox.Options{NoLimits: true, MaxRows: fewRecords}), t: t}, streams: streams}
	selected := "'*'"
	if len(streams) > 0 {
		selected = "[" + strings.Join(streams, ", ") + "]"
	}
	r.to = postgresTarget{server: server, name: "postgres"}
	var err error
	r.db, err = pgx.Connect(t.Context(), server.URL()+"&search_path=fleet,lake")
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.db.Close(context.Background()) })
	var b strings.Builder
	b.WriteString("version: 1\nsources:\n")
	for _, name := range r.made {
		fmt.Fprintf(&b, "  %s: {v2: {base_url: %s/%[1]s, auth: {api_key: sk_sandbox_readonly}, rate: 100000/s}, app: {base_url: %[2]s/%[1]s, auth: {token: pat_sandbox_readonly}, rate: 100000/s}}\n", name, r.url)
	}
	soon := time.Now().UTC().Add(wait)
	fmt.Fprintf(&b, `destinations:
  lake: {url: %[1]q, schema: lake}
  often: {url: %[1]q, schema: often}
pipelines:
  all: {from: '*', to: lake, streams: %[6]s, schedule: {cron: "%[2]d %[3]d %[4]d * * *", zone: UTC, catch_up: once}}
  beat: {from: [ws000, ws001, ws002], to: often, streams: [crm.lead_stages], schedule: {cron: "@every 5s"}}
state: %[5]q
serve: {listen: 127.0.0.1:0}
`, server.URL(), soon.Second(), soon.Minute(), soon.Hour(), server.URL()+"&search_path=fleet", selected)
	require.NoError(t, os.WriteFile(r.config(), []byte(b.String()), 0o600))
	code, out, errs := r.penstock(t, "migrate")
	require.Zero(t, code, out+errs)
	return r
}

// Two processes of serve and four workers, on one state database, read every stream of many workspaces. Again and
// again, one of the processes is killed at random. PENSTOCK_TEST_TRIALS is the number of kills. There are as many
// workspaces as kills, but at least 6 and at most 200. Without PENSTOCK_TEST_TRIALS, the fleet is small, and two workers
// are killed while they read a few streams.
func TestFleetKilled(t *testing.T) {
	kills, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_TRIALS"))
	if err != nil {
		t.Parallel()
		r := newSweep(t, 3, 8*time.Second, "v2.contacts", "crm.pipelines", "crm.lead_board", "crm.lead_detail", "sales.invoices")
		r.life = "8s"
		r.slowly(300 * time.Millisecond) // so that a worker is killed in the middle of a run
		all := r.fleet([]string{"serve", "--slots", "0"}, []string{"serve", "--slots", "0"}, []string{"worker", "--slots", "2"}, []string{"worker", "--slots", "2"})
		for range 2 {
			r.killBusy(all)
		}
		r.finish(all)
		require.NotEqual(t, "0", r.text("SELECT count(*) FROM units WHERE pipeline = 'all' AND attempt > 1"), "no worker took over the units of a killed worker")
		return
	}
	workspaces := max(6, min(200, kills))
	if n, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_WORKSPACES")); err == nil {
		workspaces = n
	}
	r := newSweep(t, workspaces, 45*time.Second)
	r.life = "0s" // the program's own lifetimes
	if kills > 0 {
		r.life = "8s" // other processes soon take over the work of a killed process
	}
	kinds := [][]string{{"serve", "--slots", "0"}, {"serve", "--slots", "1"}, {"worker", "--slots", "3"}, {"worker", "--slots", "3"}, {"worker", "--slots", "3"}, {"worker", "--slots", "3"}}
	all := r.fleet(kinds...)
	for n := range kills {
		time.Sleep(time.Second + rand.N(4*time.Second))
		i := rand.N(len(kinds))
		all[i].kill()
		all[i] = r.begin(kinds[i]...)
		if n%10 == 0 {
			t.Log(n, r.text("SELECT string_agg(state || ' ' || n, ', ' ORDER BY state) FROM (SELECT state, count(*) n FROM units WHERE pipeline = 'all' GROUP BY state) x"))
		}
	}
	r.finish(all)
	t.Log(kills, "kills;", r.text("SELECT string_agg(pipeline || ' ' || state || ' ' || n, ', ') FROM (SELECT pipeline, state, count(*) n FROM slots GROUP BY 1, 2) x"),
		"; units by attempts:", r.text("SELECT string_agg(attempt || ': ' || n, ', ' ORDER BY attempt) FROM (SELECT attempt, count(*) n FROM units WHERE pipeline = 'all' GROUP BY 1) x"))
	r.work(all)
}

// begin starts a process with the lifetime of leases of this rig.
func (r *sweepRig) begin(args ...string) *fleetProcess {
	r.t.Helper()
	return r.startAs(r.config(), func(c *exec.Cmd) error {
		c.Env = append(os.Environ(), lifeEnv+"="+r.life)
		return c.Start()
	}, args...)
}

// fleet starts a process for each list of arguments.
func (r *sweepRig) fleet(kinds ...[]string) (all []*fleetProcess) {
	r.t.Helper()
	for _, k := range kinds {
		all = append(all, r.begin(k...))
	}
	return all
}

// killBusy kills a worker that has units of the pipeline "all", and starts another.
func (r *sweepRig) killBusy(all []*fleetProcess) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		for i, p := range all {
			held := fmt.Sprintf("SELECT count(*) FROM units WHERE pipeline = 'all' AND state = 'running' AND worker LIKE '%%/%d/%%'", p.Process.Pid)
			if p.Args[3] != "worker" || r.text(held) == "0" {
				continue
			}
			p.kill()
			all[i] = r.begin(p.Args[3:]...)
			if r.text(held) != "0" { // else the worker had settled its units before it was killed
				return
			}
		}
	}
	r.t.Fatal("no worker was killed while it had units: ", r.text("SELECT string_agg(concat_ws(' ', state, worker), ', ') FROM units WHERE pipeline = 'all'"))
}

// finish waits until the pipeline "all" has run, stops all processes, and checks the state and the tables.
func (r *sweepRig) finish(all []*fleetProcess) {
	t := r.t
	t.Helper()
	r.await("SELECT count(*) FROM slots WHERE pipeline = 'all' AND state = 'ran'", "1")
	for _, p := range all { // a process handles SIGTERM only after it has printed one of these lines
		require.Eventually(t, func() bool {
			return strings.Contains(p.out.String(), "serving") || strings.Contains(p.out.String(), "worker started")
		}, time.Minute, 20*time.Millisecond)
	}
	for _, p := range all[:2] {
		p.end(t)
	}
	r.await("SELECT count(*) FROM units WHERE state IN ('waiting', 'running', 'parked')", "0")
	for _, p := range all[2:] {
		p.end(t)
	}
	r.ledger()
	r.tables()
}

// work logs the work of the fleet and of the server: CPU, memory, WAL, and how long the run took.
func (r *sweepRig) work(all []*fleetProcess) {
	used, most := time.Duration(0), int64(0)
	for _, p := range all {
		used += p.ProcessState.UserTime() + p.ProcessState.SystemTime()
		most = max(most, p.ProcessState.SysUsage().(*syscall.Rusage).Maxrss>>10)
	}
	r.t.Logf("%d workspaces, %s units: the last processes used %s of CPU and %d MB at most; Postgres used %s of CPU and wrote %s of WAL; the run took %s; it logged %d bytes", len(r.made),
		r.text("SELECT count(*) FROM units WHERE pipeline = 'all'"), used.Round(time.Second/10), most, r.serverCPU().Round(time.Second/10), r.text("SELECT pg_size_pretty(pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0'))"),
		r.text("SELECT max(ended) - min(started) FROM runs WHERE pipeline = 'all'"), len(all[2].out.String()))
}

// serverCPU returns the CPU time that the server has used since its start.
func (r *sweepRig) serverCPU() (used time.Duration) {
	r.t.Helper()
	server := strconv.Itoa(r.to.server.PID())
	found, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(r.t, err)
	for _, name := range found {
		text, err := os.ReadFile(name)
		if err != nil { // the process has ended
			continue
		}
		f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:]))
		numbers := f[11:13] // the CPU time of the process
		switch server {
		case filepath.Base(filepath.Dir(name)):
			numbers = f[11:15] // and of its children that have ended
		case f[1]:
		default:
			continue
		}
		for _, n := range numbers {
			ticks, err := strconv.Atoi(n)
			require.NoError(r.t, err)
			used += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return used
}

// await waits until a query returns the wanted text. It fails if no unit has changed for five minutes.
func (r *sweepRig) await(sql, want string) {
	r.t.Helper()
	const quiet = 5 * time.Minute
	last, since := "", time.Now()
	for r.text(sql) != want {
		now := r.text("SELECT string_agg(x::text, ' ') FROM (SELECT pipeline, state, count(*), sum(attempt) FROM units GROUP BY 1, 2) x")
		if now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) > quiet {
			for _, f := range r.processes[max(0, len(r.processes)-8):] {
				r.t.Log(f.Args, f.out)
			}
			for _, table := range []string{"slots", "leases", "processes"} {
				r.t.Log(table, r.text("SELECT string_agg(x::text, E'\n') FROM "+table+" x"))
			}
			r.t.Fatal(sql, r.text(sql), last)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// ledger checks the state database: every unit is done and complete, each slot ran once, and no lease is taken. It
// also checks that the counts in the certificates add up.
func (r *sweepRig) ledger() {
	t := r.t
	t.Helper()
	require.Empty(t, r.text("SELECT string_agg(source || ' ' || part || ' ' || attempt || ' ' || convert_from(report, 'UTF8'), E'\n') FROM units WHERE pipeline = 'all' AND convert_from(report, 'UTF8')::json ->> 'status' <> 'complete'"))
	require.Equal(t, "complete", r.text("SELECT status FROM slots WHERE pipeline = 'all' AND state = 'ran'"), r.text("SELECT error FROM runs WHERE pipeline = 'all'"))
	require.Empty(t, r.text("SELECT string_agg(source || ' ' || part || ' ' || state || convert_from(report, 'UTF8'), E'\n') FROM units WHERE pipeline = 'all' AND state <> 'done'"))
	require.Equal(t, strconv.Itoa(len(r.made)), r.text("SELECT count(DISTINCT source) FROM units WHERE pipeline = 'all'"))
	r.until("SELECT count(*) FROM leases WHERE name LIKE 'pipeline %' AND until > clock_timestamp()", "0")
	require.Empty(t, r.text(`SELECT string_agg(s::text || coalesce((SELECT string_agg(concat_ws(' ', r.run, r.cause, r.status, r.started, r.error), E'\n') FROM runs r WHERE r.pipeline = s.pipeline AND r.due = s.due), ''), E'\n')
		FROM slots s WHERE state = 'ran' AND (SELECT count(*) FROM runs r WHERE r.pipeline = s.pipeline AND r.due = s.due) <> 1`), "each slot must have exactly one run")
	require.Equal(t, "0", r.text("SELECT count(*) FROM lake._penstock_certificates WHERE fetched <> written + unchanged + deduplicated + rejected"))
	require.Equal(t, "0", r.text("SELECT count(*) FROM lake._penstock_certificates WHERE deleted > 0"), "rows were deleted, but nothing was deleted at the source")
}

// tables checks that every table equals the platform's records, and that each row was written once.
func (r *sweepRig) tables() {
	t := r.t
	t.Helper()
	for table, stream := range r.equal(r.streams...) {
		require.Empty(t, r.text(fmt.Sprintf(`SELECT string_agg(s || ' ' || w || ' ' || n, ', ') FROM
			(SELECT _penstock_source AS s, sum(written) AS w, (SELECT count(*) FROM lake.%s x WHERE x._penstock_source = c._penstock_source) AS n
				FROM lake._penstock_certificates c WHERE stream = '%s' GROUP BY 1) y WHERE w <> n`, quote(table), stream)), "%s: the certificates' number of written rows differs from the number of rows", stream)
	}
}

// equal checks that the tables equal the platform's records, and returns the streams by table. If the argument only is empty,
// it checks all of them. Each workspace has the data of one of three platforms. For each platform, one workspace is
// compared value by value, and the others by the hashes of their rows.
func (r *sweepRig) equal(only ...string) (streams map[string]string) {
	t := r.t
	t.Helper()
	at, err := url.Parse(r.to.server.URL())
	require.NoError(t, err)
	r.to.at = at
	cat, err := schemas.Load()
	require.NoError(t, err)
	streams = map[string]string{}
	for _, s := range cat.Ordered() {
		if s.Enabled && (len(only) == 0 || slices.Contains(only, s.Name)) {
			streams[s.Table.Name] = s.Name
		}
	}
	rows, err := r.db.Query(t.Context(), "SELECT relname::text FROM pg_class WHERE relnamespace = 'lake'::regnamespace AND relkind = 'r' ORDER BY 1")
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	for _, one := range r.made[:min(3, len(r.made))] {
		for _, name := range names {
			where := ""
			if !strings.HasPrefix(name, "_penstock_") {
				where = " WHERE _penstock_source = '" + one + "'"
			}
			r.to.server.Exec(fmt.Sprintf("DROP TABLE IF EXISTS public.%s; CREATE TABLE public.%[1]s AS SELECT * FROM lake.%[1]s%s", quote(name), where))
		}
		w := r.to.open(t)
		for table, stream := range streams {
			truth, err := r.of(one).Truth(stream)
			require.NoError(t, err, stream)
			require.Empty(t, w.truth(t, stream, table, truth), one)
		}
		require.NoError(t, w.db.Close())
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "_penstock_") {
			r.alike(name)
		}
	}
	maps.DeleteFunc(streams, func(table, _ string) bool { return !slices.Contains(names, table) })
	return streams
}

// alike checks that workspaces of the same platform have the same rows in a table.
func (r *sweepRig) alike(name string) {
	t := r.t
	t.Helper()
	odd := r.text(fmt.Sprintf(`WITH each AS (SELECT _penstock_source AS s, substr(_penstock_source, 3)::int %% 3 AS world,
		count(*) AS n, md5(string_agg(_penstock_hash, ' ' ORDER BY _penstock_hash)) AS h, count(_penstock_deleted_at) AS gone FROM lake.%s GROUP BY 1)
		SELECT string_agg(e.s, ' ') FROM each e JOIN each first ON first.s = 'ws00' || e.world WHERE (e.n, e.h) IS DISTINCT FROM (first.n, first.h) OR e.gone > 0`, quote(name)))
	require.Empty(t, odd, name)
	counts := r.text(fmt.Sprintf(`SELECT string_agg(world || ' ' || sources, ' ') FROM (SELECT substr(_penstock_source, 3)::int %% 3 AS world, count(DISTINCT _penstock_source) AS sources FROM lake.%s GROUP BY 1) x
		WHERE sources <> (%d - world + 2) / 3`, quote(name), len(r.made)))
	require.Empty(t, counts, "%s: some workspaces have no rows, but other workspaces of the same platform have rows", name)
}
