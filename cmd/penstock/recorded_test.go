//go:build cgo && duckdb_arrow

package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/execute"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/state"
)

// lastRun returns the id of the last run whose units are in the state folder.
func (w *worlds) lastRun(t *testing.T) string {
	t.Helper()
	units := w.units(t, state.UnitFilter{})
	require.NotEmpty(t, units)
	return units[len(units)-1].Run
}

func (w *worlds) units(t *testing.T, f state.UnitFilter) []state.Unit {
	t.Helper()
	l, err := state.ReadUnits(t.Context(), w.dir+"/state")
	require.NoError(t, err)
	defer l.Close()
	units, err := l.Units(t.Context(), f)
	require.NoError(t, err)
	return units
}

// shown() returns the units of a run as `runs units` prints them.
func (w *worlds) shown(t *testing.T, run string) (rows []map[string]any) {
	t.Helper()
	code, out, errs := w.penstock(t, "runs", "units", run, "--json")
	require.Zero(t, code, errs)
	for line := range strings.Lines(out) {
		var row map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		rows = append(rows, row)
	}
	return rows
}

// TestUnitsOfARun checks the units of a run if the state is a folder. For each source, there is one unit per group of
// streams that are read together. If a run was killed, `runs units` still shows its unfinished units.
func TestUnitsOfARun(t *testing.T) {
	w := newWorlds(t, 2)
	w.configure(t, `"duckdb:`+w.dir+`/w.duckdb"`, `"*"`, `["crm.leads", "crm.lead_stages"]`)
	require.Equal(t, failure.ExitFailed, first(w.penstock(t, "runs", "units", "000000000000")))
	killed, err := state.OpenUnits(t.Context(), w.dir+"/state")
	require.NoError(t, err)
	_, err = killed.AddUnits(t.Context(), []state.Unit{{Run: "000000000001", Pipeline: "all", Source: "ws000", Part: "crm.leads"}})
	require.NoError(t, err)
	_, err = killed.ClaimUnits(t.Context(), state.Claim{Worker: "killed", For: time.Hour})
	require.NoError(t, err)
	require.NoError(t, killed.Close())

	code, out, errs := w.penstock(t, "sync")
	require.Zero(t, code, out+errs)
	require.NotContains(t, errs, "not recorded")
	run := w.lastRun(t)
	rows := w.shown(t, run)
	require.Len(t, rows, 4)
	for _, r := range rows {
		require.Equal(t, "done", r["state"], r)
		require.NotEmpty(t, r["worker"])
		require.NotEmpty(t, r["ended_at"])
	}
	gone := w.shown(t, "000000000001")
	require.Len(t, gone, 1)
	require.Equal(t, "cancelled", gone[0]["state"])
	require.Contains(t, gone[0]["why"], "its process ended unexpectedly")

	code, out, errs = w.penstock(t, "sync", "--dry-run")
	require.Zero(t, code, out+errs)
	require.Equal(t, run, w.lastRun(t), "a dry run stores no units")
}

func first(code int, _, _ string) int { return code }

// TestCancelledRun cancels a run from another process while its sources do not answer. The run ends soon, and the
// next run reads everything.
func TestCancelledRun(t *testing.T) {
	w := newWorlds(t, 3)
	hang := make(chan struct{})
	for _, name := range w.made[:2] {
		w.odd[name] = func(rw http.ResponseWriter, r *http.Request) {
			select {
			case <-hang:
				http.StripPrefix("/"+name, w.of(name)).ServeHTTP(rw, r)
			case <-r.Context().Done():
			}
		}
	}
	w.configure(t, `"duckdb:`+w.dir+`/w.duckdb"`, `"*"`, `["crm.lead_stages"]`)
	type ending struct {
		code int
		text string
	}
	ended := make(chan ending)
	go func() {
		var out, errs bytes.Buffer
		code := (&app{out: &out, err: &errs, open: open.Opener{Life: 2 * time.Second}}).execute(t.Context(), []string{"sync", "-c", w.config(), "--no-progress"})
		ended <- ending{code, out.String() + errs.String()}
	}()
	require.Eventually(t, func() bool {
		l, err := state.ReadUnits(t.Context(), w.dir+"/state")
		if err != nil {
			return false
		}
		defer l.Close()
		units, err := l.Units(t.Context(), state.UnitFilter{})
		n := 0
		for _, u := range units {
			if u.State == state.UnitRunning && u.Source != w.made[2] {
				n++
			}
		}
		return err == nil && n == 2
	}, time.Minute, 10*time.Millisecond)
	run := w.lastRun(t)
	code, out, errs := w.penstock(t, "runs", "cancel", run)
	require.Zero(t, code, errs)
	require.Regexp(t, "run "+run+": [23] units cancelled", out)
	e := <-ended
	require.NotZero(t, e.code, e.text)
	require.Contains(t, e.text, execute.ErrCancelled.Error())
	for _, u := range w.units(t, state.UnitFilter{Run: run}) {
		require.True(t, u.State.Ended(), u)
	}
	close(hang)
	code, out, errs = w.penstock(t, "sync")
	require.Zero(t, code, out+errs)
	w.holds(t, "crm_lead_stages", "crm.lead_stages")
}

// TestRunWithoutLedger makes a run whose units cannot be stored. One warning is logged, not one per source.
func TestRunWithoutLedger(t *testing.T) {
	w := newWorlds(t, 3)
	w.configure(t, `"duckdb:`+w.dir+`/w.duckdb"`, `"*"`, `["crm.lead_stages"]`)
	require.NoError(t, os.MkdirAll(w.dir+"/state/units.db", 0o700))
	code, out, errs := w.penstock(t, "sync")
	require.Zero(t, code, out+errs)
	require.Equal(t, 1, strings.Count(errs, "not recorded"), errs)
	w.holds(t, "crm_lead_stages", "crm.lead_stages")
}
