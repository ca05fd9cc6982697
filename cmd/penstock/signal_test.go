//go:build cgo && duckdb_arrow && unix

package main

import (
	"bytes"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/sandbox"
)

const signalConfig = `version: 1
sources: {main: {app: {base_url: "SANDBOX", auth: {token: pat_sandbox_readonly}}}}
destinations: {warehouse: "duckdb:warehouse.duckdb"}
pipelines: {all: {from: main, to: warehouse, streams: [crm.leads, crm.deals]}}
`

// TestSignals stops a run in the middle. The process exits in time, with the exit code of the signal. The next run
// completes the rest.
func TestSignals(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for signal, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		t.Run(signal.String(), func(t *testing.T) {
			platform, err := sandbox.New(sandbox.Options{NoLimits: true})
			require.NoError(t, err)
			server := httptest.NewServer(platform)
			defer server.Close()
			dir := t.TempDir()
			config := strings.Replace(signalConfig, "SANDBOX", server.URL, 1)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "pipelines.yaml"), []byte(config), 0o600))
			sync := func() (*exec.Cmd, *bytes.Buffer) {
				cmd, out := exec.Command(self), new(bytes.Buffer)
				cmd.Args, cmd.Dir, cmd.Stdout, cmd.Stderr = []string{"penstock", "sync"}, dir, out, out
				return cmd, out
			}

			require.NoError(t, platform.SetFaults(sandbox.Fault{Match: "crm.deals", Kind: sandbox.FaultSlow, Delay: sandbox.Duration(time.Second)}))
			cmd, out := sync()
			require.NoError(t, cmd.Start())
			require.Eventually(t, func() bool { return platform.Stats().Requests > 1 }, time.Minute, 10*time.Millisecond)
			require.NoError(t, cmd.Process.Signal(signal))
			exit, ok := errors.AsType[*exec.ExitError](cmd.Wait())
			require.True(t, ok, out)
			require.Equal(t, code, exit.ExitCode(), out)
			require.Contains(t, out.String(), "stopped")

			require.NoError(t, platform.SetFaults())
			cmd, out = sync()
			require.NoError(t, cmd.Run(), out)
			require.Contains(t, out.String(), ": complete in ")
		})
	}
}
