//go:build unix && cgo && duckdb_arrow

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A source is removed from the configuration while its units wait. No worker knows the source any more, so serve ends
// the units, and the error of the run says why. Invariant 15
func TestFleetRemovedSource(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until the configuration was read twice")
	}
	t.Parallel()
	r := newFleet(t, 3, "@every 2s")
	serve := r.start("serve", "--slots", "0")
	r.until("SELECT count(DISTINCT source) FROM units", "3")
	run := r.text("SELECT min(run) FROM units")
	text, err := os.ReadFile(r.config())
	require.NoError(t, err)
	var kept []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "  ws002:") {
			kept = append(kept, line)
		}
	}
	require.NoError(t, os.WriteFile(r.config(), []byte(strings.Join(kept, "")), 0o600))
	worker := r.start("worker")
	of := "FROM units WHERE run = '" + run + "' AND source "
	r.until("SELECT status FROM runs WHERE run = '"+run+"'", "partial")
	require.Equal(t, "not read, because removed from the configuration during the run: source ws002", r.text("SELECT error FROM runs WHERE run = '"+run+"'"))
	require.Equal(t, "done", r.text("SELECT string_agg(DISTINCT state, ' ') "+of+"<> 'ws002'"))
	code, out, errs := r.penstock(t, "runs", "units", run)
	require.Zero(t, code, errs)
	require.Contains(t, out, "its source or pipeline was removed from the configuration")
	r.until("SELECT state FROM river_job WHERE args ->> 'source' = 'ws002' AND args ->> 'run' = '"+run+"'", "completed")
	serve.end(t)
	worker.end(t)
}

// A job is deleted from the queue while its units wait. Serve inserts the job again.
func TestFleetDeletedJob(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until serve looks for lost jobs")
	}
	t.Parallel()
	r := newFleet(t, 2, "@every 2s")
	serve := r.start("serve", "--slots", "0")
	r.until("SELECT count(DISTINCT source) FROM units", "2")
	run := r.text("SELECT min(run) FROM units")
	deleted, err := r.db.Exec(t.Context(), "DELETE FROM river_job WHERE args ->> 'source' = 'ws001'")
	require.NoError(t, err)
	require.EqualValues(t, 1, deleted.RowsAffected())
	worker := r.start("worker")
	r.until("SELECT status FROM runs WHERE run = '"+run+"'", "complete")
	serve.end(t)
	r.until("SELECT count(*) FROM units WHERE state IN ('waiting', 'running', 'parked')", "0")
	worker.end(t)
	r.whole()
}
