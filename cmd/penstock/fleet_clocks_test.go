//go:build unix && cgo && duckdb_arrow

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// clockEnv is an environment variable for programs that clocked() has built. Its value is the number of seconds by
// which their clock is wrong.
const clockEnv = "PENSTOCK_TEST_CLOCK"

// offsetSource is the text of a file that clocked() adds to Go's package time.
const offsetSource = `package time

import "syscall"

var offset = func() (n int64) {
	text, _ := syscall.Getenv("` + clockEnv + `")
	sign := int64(1)
	for _, c := range text {
		switch {
		case c == '-':
			sign = -1
		case '0' <= c && c <= '9':
			n = 10*n + int64(c-'0')
		}
	}
	return sign * n
}()
`

// clocked builds penstock with a patched package time. In processes of this program, the wall clock is wrong by the
// seconds in clockEnv, and the monotonic clock is right. A machine whose clock is set wrong behaves in the same way.
func clocked(t *testing.T) (program string) {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skipf("no go: %v", err)
	}
	folder := filepath.Join(strings.TrimSpace(string(out)), "src", "time")
	text, err := os.ReadFile(filepath.Join(folder, "time.go"))
	if err != nil {
		t.Skipf("the source code of Go is missing: %v", err)
	}
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	require.Equal(t, 1, strings.Count(string(text), now), "time.Now of this Go version has changed; adapt the patch")
	dir := t.TempDir()
	overlay := map[string]map[string]string{"Replace": {}}
	for name, text := range map[string]string{"time.go": strings.Replace(string(text), now, now+"\tsec += offset\n", 1), "offset.go": offsetSource} {
		overlay["Replace"][filepath.Join(folder, name)] = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	text, err = json.Marshal(overlay)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600))
	program = filepath.Join(dir, "penstock")
	build := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err = build.CombinedOutput()
	require.NoError(t, err, string(out))
	return program
}

// startOff starts a program that clocked() has built. The clock of the process is wrong by the given number of hours.
func (r *fleetRig) startOff(program string, hours int, args ...string) *fleetProcess {
	r.t.Helper()
	return r.startAs(r.config(), func(c *exec.Cmd) error {
		c.Path, c.Args[0] = program, fmt.Sprintf("penstock%+dh", hours)
		c.Env = append(os.Environ(), fmt.Sprintf("%s=%d", clockEnv, hours*3600))
		return c.Start()
	}, args...)
}

// patiently() waits until a query returns the wanted text. It may have to wait for two lease lifetimes.
func (r *fleetRig) patiently(sql, want string) {
	r.t.Helper()
	if !assert.Eventually(r.t, func() bool { return r.text(sql) == want }, 5*time.Minute, 100*time.Millisecond, "%s", sql) {
		r.until(sql, want) // fails, and logs the tables and the output of all processes
	}
}

// refuse makes a workspace answer its first request for leads with 429 and a Retry-After date. The results are the time
// of the next request for leads, and the date in Retry-After.
func (r *fleetRig) refuse(name string) (again, until *atomic.Int64) {
	again, until = &atomic.Int64{}, &atomic.Int64{}
	var asked atomic.Int64
	r.odd[name] = func(rw http.ResponseWriter, q *http.Request) {
		if strings.Contains(q.URL.Path, "leads") {
			switch asked.Add(1) {
			case 1:
				at := time.Now().Add(3 * time.Second)
				until.Store(at.Unix())
				rw.Header().Set("Retry-After", at.UTC().Format(http.TimeFormat))
				rw.WriteHeader(http.StatusTooManyRequests)
				return
			case 2:
				again.Store(time.Now().Unix())
			}
		}
		http.StripPrefix("/"+name, r.of(name)).ServeHTTP(rw, q)
	}
	return again, until
}

// Three processes of serve and three workers run. Of each three, one clock is right, one is 5 hours ahead, and one is 5
// hours behind. Slots run when they are due by the database's clock. Another worker takes over the unit of a frozen
// worker. When the frozen worker continues, it commits nothing. If a source sends Retry-After, its unit is postponed,
// and is retried at the time that the source requires. The versions of a row are in order, without
// gaps. Invariants 8, 13, 18
func TestFleetClocksApart(t *testing.T) {
	if testing.Short() {
		t.Skip("builds Go's standard library, and waits for leases to expire")
	}
	program := clocked(t)
	r := newFleet(t, 3, "@every 5s")
	text, err := os.ReadFile(r.config())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(r.config(), []byte(strings.Replace(string(text), "streams: [", "mode: history, streams: [", 1)), 0o600))
	for _, sql := range []string{
		"ALTER TABLE slots ADD COLUMN seen timestamptz NOT NULL DEFAULT clock_timestamp()", // the time when the slot was recorded, by the database's clock
		"CREATE TABLE begun AS SELECT clock_timestamp() AS at",
		"INSERT INTO leases (name, token, holder, since, until) VALUES ('pipeline all@ws002', nextval('lease_tokens'), 'a test', now(), 'infinity')",
	} {
		_, err = r.db.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	again, until := r.refuse("ws000")
	asked, release := r.hold("ws001")
	serves := []*fleetProcess{r.startOff(program, 5, "serve", "--slots", "0"), r.startOff(program, -5, "serve", "--slots", "0"), r.startOff(program, 0, "serve", "--slots", "0")}
	r.patiently("SELECT count(DISTINCT source) FROM units", "3")
	run := r.text("SELECT run FROM units ORDER BY id LIMIT 1")
	of := "FROM units WHERE source = 'ws001' AND run = '" + run + "'"
	frozen := r.startOff(program, 5, "worker", "--slots", "4")
	select {
	case <-asked:
	case <-time.After(2 * time.Minute):
		t.Fatal(frozen.out)
	}
	r.patiently("SELECT count(*) > 0 FROM units WHERE source = 'ws002' AND state = 'parked'", "true")
	_, err = r.db.Exec(t.Context(), "DELETE FROM leases WHERE holder = 'a test'")
	require.NoError(t, err)
	r.patiently("SELECT count(*) FROM units WHERE source IN ('ws000', 'ws002') AND run = '"+run+"' AND state = 'done'", "6")
	require.NotZero(t, until.Load())
	require.False(t, time.Unix(again.Load(), 0).Before(time.Unix(until.Load(), 0)), "requested again before the date of Retry-After")
	require.NoError(t, frozen.Process.Signal(syscall.SIGSTOP))
	workers := []*fleetProcess{r.startOff(program, -5, "worker", "--slots", "4"), r.startOff(program, 0, "worker", "--slots", "4")}
	r.patiently("SELECT status FROM runs WHERE run = '"+run+"'", "complete")
	require.NotEqual(t, "1", r.text("SELECT max(attempt) "+of), "another worker must have taken over the unit")
	settled := r.text("SELECT string_agg(units::text, ' ' ORDER BY id) " + of)
	certificates := "SELECT string_agg(c::text, ' ' ORDER BY stream, at) FROM ws_ws001._penstock_certificates c WHERE run = '" + run + "'"
	proven := r.text(certificates)
	release()
	require.NoError(t, frozen.Process.Signal(syscall.SIGCONT))

	for range 4 { // all three workers write versions of the same rows
		for _, s := range r.all {
			s.Touch(0.5)
		}
		last := r.text("SELECT max(run) FROM runs")
		r.patiently("SELECT count(*) > 0 FROM runs WHERE run > '"+last+"' AND status = 'complete'", "true")
	}
	t.Log("for each worker, the number of runs to which its units belong:", r.text("SELECT string_agg(w || ' ' || n, ', ') FROM (SELECT worker w, count(DISTINCT run) n FROM units GROUP BY 1) x"))
	for _, p := range serves {
		p.end(t)
	}
	r.patiently("SELECT count(*) FROM units WHERE state IN ('waiting', 'running', 'parked')", "0")
	for _, p := range append(workers, frozen) {
		p.end(t)
	}
	require.Equal(t, settled, r.text("SELECT string_agg(units::text, ' ' ORDER BY id) "+of))
	require.Equal(t, proven, r.text(certificates), "the frozen worker must not commit")
	r.inTime()
	for _, name := range r.made {
		r.follows(name)
	}

	checked := r.startOff(program, 5, "check")
	_ = checked.Wait()
	require.Regexp(t, `this machine's clock is (4h59|5h0)m\d+s ahead of that of the state database`, checked.out.String())
}

// inTime checks that each slot ran once, at the time when it was due. It also checks that no recorded time is before
// the start of the test or in the future.
func (r *fleetRig) inTime() {
	t := r.t
	t.Helper()
	require.Equal(t, "0", r.text("SELECT count(*) FROM slots WHERE seen < due OR seen > due + interval '1 hour' OR started < due OR started > due + interval '1 hour' OR ended < started"))
	require.NotEqual(t, "0", r.text("SELECT count(*) FROM slots WHERE state = 'ran'"))
	require.Equal(t, "0", r.text("SELECT count(*) FROM slots WHERE state = 'ran' AND (SELECT count(*) FROM runs r WHERE r.due = slots.due) <> 1"))
	require.Equal(t, "0", r.text("SELECT count(*) FROM units WHERE state <> 'done' OR ended < started OR not_before > clock_timestamp()"))
	require.Equal(t, "0", r.text("SELECT count(*) FROM leases WHERE name LIKE 'pipeline %' AND until > clock_timestamp()"))
	require.Equal(t, "0", r.text("SELECT count(*) FROM runs, begun WHERE started < at OR started > clock_timestamp() OR ended < started OR ended > clock_timestamp()"))
	require.Equal(t, "0", r.text("SELECT count(*) FROM (SELECT due, lag(due) OVER (ORDER BY run) AS before FROM runs) x WHERE before > due + interval '1 hour'"), "later runs have later ids")
}

// follows() checks the tables of a workspace. Each version of a row ends when the next begins, and the last versions
// equal the platform's records. There is one certificate per stream and run, and the certificates are in the order of
// the runs.
func (r *fleetRig) follows(name string) {
	t := r.t
	t.Helper()
	at := "ws_" + name + "."
	within := func(times string) string {
		return fmt.Sprintf("SELECT count(*) FROM %[1]s, begun, unnest(ARRAY[%[2]s]) x WHERE x < begun.at OR x > clock_timestamp()", at+strings.Split(times, " ")[0], strings.Split(times, " ")[1])
	}
	for _, times := range []string{
		"crm_leads _penstock_synced_at,_penstock_valid_from,_penstock_valid_to", "_penstock_certificates _penstock_certificates.at",
		"_penstock_runs started_at,ended_at", "_penstock_rejects _penstock_rejects.at", "_penstock_state updated_at", "_penstock_schema _penstock_schema.at",
	} {
		require.Equal(t, "0", r.text(within(times)), times)
	}
	const versions = "(SELECT *, lead(_penstock_valid_from) OVER (PARTITION BY id ORDER BY _penstock_valid_from, _penstock_run) AS next FROM %scrm_leads) x"
	require.NotEqual(t, "0", r.text(fmt.Sprintf("SELECT count(*) FROM "+versions+" WHERE next IS NOT NULL", at)))
	require.Equal(t, "0", r.text(fmt.Sprintf("SELECT count(*) FROM "+versions+" WHERE _penstock_valid_to IS DISTINCT FROM next OR next <= _penstock_valid_from", at)))
	want := r.truth(t, name, "crm.leads")
	require.Equal(t, fmt.Sprintf("%d %[1]d", len(want)), r.text("SELECT count(*) || ' ' || count(DISTINCT id) FROM "+at+"crm_leads WHERE _penstock_valid_to IS NULL"))
	require.Equal(t, "0", r.text("SELECT count(*) FROM (SELECT run, stream FROM "+at+"_penstock_certificates GROUP BY 1, 2 HAVING count(*) > 1) x"))
	require.Equal(t, "0", r.text("SELECT count(*) FROM (SELECT at, lag(at) OVER (PARTITION BY stream ORDER BY run) AS before FROM "+at+"_penstock_certificates) x WHERE before > at"))
}
