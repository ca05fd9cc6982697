//go:build cgo && duckdb_arrow

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Workers are frozen in the middle of a commit, each at a different step. Some of them hold row locks. Another worker
// takes over their units. When the frozen workers continue, they commit nothing. // Invariants 2, 13
func TestFleetFrozenInCommit(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	steps := []string{"begin", "fence", "ddl", "alter", "copy", "children", "sweep", "ledger", "state", "precommit", "committed"}
	r := newFleet(t, len(steps)+2, "@every 2s")
	serve := r.start("serve", "--slots", "0")
	r.until("SELECT count(DISTINCT source) FROM units", fmt.Sprint(len(r.made)))
	run := r.text("SELECT run FROM units ORDER BY id LIMIT 1")
	serve.end(t)
	var frozen []*fleetProcess
	for _, step := range steps {
		frozen = append(frozen, r.startAs(r.config(), func(c *exec.Cmd) error {
			c.Env = append(os.Environ(), stepEnv+"="+step+":2:STOP")
			return c.Start()
		}, "worker", "--slots", "1"))
	}
	for i, f := range frozen {
		require.Eventually(t, func() bool { return standsStill(f.Process.Pid) }, time.Minute, 20*time.Millisecond, "%s: %s", steps[i], f.out)
	}
	open := r.text("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'")
	t.Log("transactions left open: ", open)
	require.NotEqual(t, "0", open)
	healthy := r.start("worker", "--slots", "4")
	of := "FROM units WHERE run = '" + run + "'"
	r.until("SELECT count(*) "+of+" AND state = 'done'", fmt.Sprint(3*len(r.made)))
	certificates := func() (all string) {
		for _, name := range r.made {
			all += r.text(fmt.Sprintf("SELECT string_agg(c::text, ' ' ORDER BY c::text) FROM ws_%s._penstock_certificates c", name))
		}
		return all
	}
	settled, proofs := r.text("SELECT string_agg(units::text, ' ' ORDER BY id) "+of), certificates()
	for _, f := range frozen {
		require.NoError(t, f.Process.Signal(syscall.SIGCONT))
	}
	for _, f := range frozen {
		f.end(t)
	}
	healthy.end(t)
	require.Equal(t, settled, r.text("SELECT string_agg(units::text, ' ' ORDER BY id) "+of))
	require.Equal(t, proofs, certificates())
	r.whole()
}

// standsStill reports whether a process is stopped by a signal.
func standsStill(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(text), ") ")
	return err == nil && strings.HasPrefix(after, "T")
}
