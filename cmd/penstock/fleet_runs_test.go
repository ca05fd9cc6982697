//go:build unix && cgo && duckdb_arrow

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// slowly() delays each answer about leads by d, so that a run takes longer than the interval of its schedule.
func (r *fleetRig) slowly(d time.Duration) {
	for _, name := range r.made {
		next := http.StripPrefix("/"+name, r.of(name))
		r.odd[name] = func(rw http.ResponseWriter, q *http.Request) {
			if strings.Contains(q.URL.Path, "lead") {
				time.Sleep(d)
			}
			next.ServeHTTP(rw, q)
		}
	}
}

// watchRuns checks again and again whether two runs have unfinished units at the same time. The returned function ends
// the checks, and returns the runs that were found, or "".
func (r *fleetRig) watchRuns() (stop func() string) {
	db, err := pgx.ConnectConfig(r.t.Context(), r.db.Config().Copy())
	require.NoError(r.t, err)
	ended := make(chan struct{})
	var found string
	var watching sync.WaitGroup
	watching.Go(func() {
		defer db.Close(context.Background())
		for {
			select {
			case <-ended:
				return
			case <-time.After(10 * time.Millisecond):
			}
			var runs string
			err := db.QueryRow(context.Background(), `SELECT coalesce(string_agg(run || ' ' || n, ', '), '') FROM
				(SELECT run, count(*) n, count(*) OVER () runs FROM units WHERE state IN ('waiting', 'running', 'parked') GROUP BY run) x WHERE runs > 1`).Scan(&runs)
			if err != nil {
				runs = err.Error()
			}
			if runs != "" && found == "" {
				found = runs
			}
		}
	})
	return func() string {
		close(ended)
		watching.Wait()
		return found
	}
}

// Three processes of serve and four workers share a pipeline. The interval of its schedule is shorter than a run.
// Again and again, one of the processes is stopped or killed, and started again. Runs never overlap, each run has all
// of its units, and the tables equal the source. PENSTOCK_TEST_TRIALS sets how many processes are stopped or killed.
// By default, one worker is stopped and none is killed, because other processes take over the work of a killed process
// only after half a minute. // Invariant 18
func TestFleetRuns(t *testing.T) {
	kills, workspaces := 1, 3
	if n, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_TRIALS")); err == nil {
		kills, workspaces = n, 12
		t.Setenv(lifeEnv, "4s") // a longer lease, because a process on a busy machine may be paused for seconds
	} else {
		t.Parallel()
	}
	r := newFleet(t, workspaces, "@every 1s")
	r.slowly(300 * time.Millisecond)
	stop := r.watchRuns()
	kinds := [][]string{{"serve", "--slots", "0"}, {"serve", "--slots", "0"}, {"serve", "--slots", "1"}, {"worker", "--slots", "2"}, {"worker", "--slots", "2"}, {"worker", "--slots", "2"}, {"worker", "--slots", "2"}}
	var all []*fleetProcess
	for _, k := range kinds {
		all = append(all, r.start(k...))
	}
	const ended = "SELECT count(*) >= %d FROM slots WHERE state = 'ran'"
	r.until(fmt.Sprintf(ended, 1), "true")
	for n := range kills {
		var i int
		if n == 0 {
			i = r.busy(all)
			all[i].end(t) // another process continues the units at once
		} else { // a unit fails if its worker is killed too often in a row
			time.Sleep(time.Second + rand.N(2*time.Second))
			i = rand.N(len(kinds))
			all[i].kill()
		}
		all[i] = r.start(kinds[i]...)
		if n%20 == 19 {
			t.Log(n+1, r.text("SELECT string_agg(concat_ws(' ', state, cause, n), ', ') FROM (SELECT state, cause, count(*) n FROM slots GROUP BY 1, 2) x"))
		}
	}
	n, err := strconv.Atoi(r.text("SELECT count(*) FROM slots WHERE state = 'ran'"))
	require.NoError(t, err)
	r.until(fmt.Sprintf(ended, n+2), "true")
	for _, p := range all[:3] {
		p.end(t)
	}
	r.until("SELECT count(*) FROM units WHERE state IN ('waiting', 'running', 'parked')", "0")
	for _, p := range all[3:] {
		p.end(t)
	}
	require.Empty(t, stop(), "two runs had unfinished units at the same time")
	r.whole()
	r.apart(3 * workspaces)
	r.sameRuns()
	t.Log(kills, "kills;", r.text("SELECT string_agg(concat_ws(' ', state, cause, n), ', ') FROM (SELECT state, cause, count(*) n FROM slots GROUP BY 1, 2) x"),
		"; attempts at units:", r.text("SELECT string_agg(attempt || ': ' || n, ', ' ORDER BY attempt) FROM (SELECT attempt, count(*) n FROM units GROUP BY 1) x"))
}

// busy() waits until a process has begun an attempt at a source, and returns the index of the process.
func (r *fleetRig) busy(all []*fleetProcess) (index int) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		name := r.made[rand.N(len(r.made))]
		worker := r.text(fmt.Sprintf("SELECT worker FROM units u JOIN ws_%s._penstock_runs a USING (run) WHERE source = '%[1]s' AND state = 'running' AND a.status = 'running' LIMIT 1", name))
		index = slices.IndexFunc(all, func(p *fleetProcess) bool { return strings.Contains(worker, fmt.Sprintf("/%d/", p.Process.Pid)) })
		return index >= 0
	}, time.Minute, 5*time.Millisecond)
	return index
}

// apart() checks that the runs in the state database do not overlap, and that each run has the given number of units,
// all of them complete.
func (r *fleetRig) apart(units int) {
	t := r.t
	t.Helper()
	require.Empty(t, r.text(`SELECT string_agg(concat_ws(' ', a.run, a.ended, b.run, b.started), E'\n') FROM runs a JOIN runs b ON a.pipeline = b.pipeline AND a.run < b.run AND b.started < a.ended`), "runs overlap")
	require.Empty(t, r.text("SELECT string_agg(concat_ws(' ', run, source, part, state, attempt, broken, convert_from(report, 'UTF8')), E'\n') FROM units WHERE state <> 'done' OR convert_from(report, 'UTF8')::json ->> 'status' <> 'complete'"))
	require.Empty(t, r.text(fmt.Sprintf(`SELECT string_agg(x::text, E'\n') FROM (SELECT run, count(*) n, max(planned) planned, count(*) FILTER (WHERE state = 'done' AND convert_from(report, 'UTF8')::json ->> 'status' = 'complete') complete
		FROM units GROUP BY run) x WHERE (n, planned, complete) <> (%d, %[1]d, %[1]d)`, units)), "each run has all of its units")
	require.Empty(t, r.text("SELECT string_agg(concat_ws(' ', run, status, error), E'\n') FROM runs WHERE status NOT IN ('complete', 'stopped')"))
	require.Equal(t, "0", r.text("SELECT count(*) FROM runs WHERE status = 'running'"))
	require.NotEqual(t, "0", r.text("SELECT count(*) FROM slots WHERE state = 'skipped' AND cause = 'still busy'"), "the interval of the schedule is shorter than a run")
	require.Equal(t, "0", r.text("SELECT count(*) FROM slots WHERE cause = 'locked'"), "a lock must not prevent the run of a slot")
}

// sameRuns checks that the state, the destinations and `penstock runs` have the same runs, with one row for each run.
// After a clean stop, no run may be shown as running.
func (r *fleetRig) sameRuns() {
	t := r.t
	t.Helper()
	ids := "SELECT string_agg(run, ' ' ORDER BY run) FROM "
	want := r.text(ids + "(SELECT DISTINCT run FROM units WHERE run > (SELECT min(run) FROM units)) x")
	for _, name := range r.made {
		require.Equal(t, want, r.text(fmt.Sprintf(ids+"ws_%s._penstock_runs WHERE run > (SELECT min(run) FROM units)", name)), "one row for a run")
		require.Empty(t, r.text(fmt.Sprintf("SELECT string_agg(x::text, E'\n') FROM ws_%s._penstock_runs x WHERE status <> 'complete' OR ended_at IS NULL", name)))
	}
	code, out, errs := r.penstock(t, "runs", "--json")
	require.Zero(t, code, errs)
	var listed []string
	for line := range strings.Lines(out) {
		var row struct{ Run, Status, Sources string }
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		require.Equal(t, r.text("SELECT status FROM runs WHERE run = '"+row.Run+"'"), row.Status, line)
		require.Equal(t, fmt.Sprintf("%d of %[1]d complete", len(r.made)), row.Sources, line)
		listed = append(listed, row.Run)
	}
	require.Len(t, listed, len(slices.Compact(slices.Clone(listed))), "one row for a run")
	require.Subset(t, listed, strings.Fields(want))
	code, out, errs = r.penstock(t, "runs", listed[0])
	require.Zero(t, code, errs)
	require.Regexp(t, `(?m)^sources$`, out)
	code, out, errs = r.penstock(t, "status", "--json")
	require.Zero(t, code, errs)
	require.Equal(t, 3*len(r.made), strings.Count(out, "\n"), "status must print each stream of each source")
	var again []string // the attempts at a source
	for _, name := range r.made {
		again = append(again, r.text(fmt.Sprintf("SELECT string_agg(a ->> 'status', ' ') FROM ws_%s._penstock_runs, json_array_elements(counts::json -> 'attempts') a", name)))
	}
	t.Logf("attempts at sources: %q", again)
	require.Contains(t, strings.Join(again, " "), " complete", "another process must have completed a run whose process was stopped or killed")
}
