//go:build cgo && duckdb_arrow

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mayRename reports whether a test may start a process in a namespace with another host name.
func mayRename() bool {
	cmd := exec.Command("sh", "-c", "hostname elsewhere")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUTS}
	return cmd.Run() == nil
}

// startOn starts a process in a namespace with the given host name.
func (r *fleetRig) startOn(name string, args ...string) *fleetProcess {
	r.t.Helper()
	self, err := os.Executable()
	require.NoError(r.t, err)
	quick := filepath.Join(r.t.TempDir(), "penstock-quick")
	require.NoError(r.t, os.Symlink(self, quick))
	p := &fleetProcess{exec.Command("sh", append([]string{"-c", `hostname "$0" && exec "$@"`, name, quick, "-c", r.config()}, args...)...), &spoken{}}
	p.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUTS}
	p.Dir, p.Stdout, p.Stderr = filepath.Dir(r.config()), p.out, p.out
	require.NoError(r.t, p.Start())
	r.processes = append(r.processes, p)
	r.t.Cleanup(func() { p.kill() })
	return p
}

// TestFleetOwner: workers run on two hosts, alpha and beta. Alpha is the first to write to a lake, so only alpha
// executes units that write to the lake. After `state own` on beta, only beta executes such units. In this test, the
// hosts are namespaces with different host names.
func TestFleetOwner(t *testing.T) {
	t.Parallel()
	if !mayRename() {
		t.Skip("cannot create a namespace with another host name here")
	}
	r := newFleet(t, 2, "@every 2s")
	text, err := os.ReadFile(r.config())
	require.NoError(t, err)
	lake := "parquet:" + filepath.Join(r.dir, "lake", "{source}")
	before, rest, _ := strings.Cut(string(text), "destinations: ")
	_, after, _ := strings.Cut(rest, "\n")
	all := fmt.Sprintf("%sdestinations: {warehouse: %q}\n%s", before, lake, after)
	require.NoError(t, os.WriteFile(r.config(), []byte(all), 0o600))

	hosts := "SELECT string_agg(DISTINCT split_part(worker, '/', 1), ' ') FROM units WHERE state = 'done' AND source = 'ws000'"
	serve, alpha := r.start("serve", "--slots", "0"), r.startOn("alpha", "worker", "--slots", "2")
	r.until(hosts, "alpha")
	beta := r.startOn("beta", "worker", "--slots", "2")
	alpha.end(t)
	require.Eventually(t, func() bool { return strings.Contains(beta.out.String(), "runs left to another host") }, time.Minute, 20*time.Millisecond, "%s", beta.out)
	require.Equal(t, "alpha", r.text(strings.Replace(hosts, " AND source = 'ws000'", "", 1)))
	done := r.text("SELECT max(id) FROM units")
	for _, source := range r.made {
		out := r.startOn("beta", "state", "own", "--to", "warehouse@"+source)
		require.NoError(t, out.Wait(), out.out)
	}
	r.until("SELECT count(*) > 5 FROM units WHERE state = 'done' AND id > "+done, "true")
	require.Equal(t, "beta", r.text(hosts+" AND id > "+done))
	serve.end(t)
	r.until("SELECT count(*) FROM units WHERE state IN ('waiting', 'running', 'parked')", "0")
	beta.end(t)
}
