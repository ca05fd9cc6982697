//go:build unix

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/daemon"
)

// asked() sends a GET request with the given Host header to the daemon, and returns the status of the response.
func (d *runningDaemon) asked(t *testing.T, path, host string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+path, nil)
	require.NoError(t, err)
	r.Host = host
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

// TestServeReloadSaysWhatWaits adds a host name to the configuration of a running daemon. The daemon serves this host
// name at once. The test also changes keys that need a restart. The log and the dashboard name these keys.
func TestServeReloadSaysWhatWaits(t *testing.T) {
	dir := t.TempDir()
	conf := fmt.Sprintf(`version: 1
sources: {main: {app: {base_url: "http://127.0.0.1:1", auth: {token: pat_sandbox_readonly}}}}
destinations: {lake: "parquet:%s"}
pipelines: {all: {from: main, to: lake, streams: [crm.leads]}}
state: %s
`, filepath.Join(dir, "lake"), filepath.Join(dir, "state"))
	d := serveIn(t, dir, conf+`serve: {listen: "127.0.0.1:0"}`)
	require.Equal(t, http.StatusForbidden, d.asked(t, "/", "penstock.example.org"))
	for _, path := range []string{"/healthz", "/readyz"} {
		require.Equal(t, http.StatusOK, d.asked(t, path, "10-0-0-7.cluster.local"), "probes may use any host name")
	}
	again := func(text string) {
		t.Helper()
		before := strings.Count(d.text(), "configuration reloaded")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "pipelines.yaml"), []byte(conf+text), 0o600))
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
		require.Eventually(t, func() bool { return strings.Count(d.text(), "configuration reloaded") > before }, time.Minute, 10*time.Millisecond, d.text())
	}
	again(`serve: {listen: "127.0.0.1:9", hosts: [penstock.example.org], auth: {token: a-token-of-32-bytes-0123456789ab}}`)
	require.Equal(t, http.StatusOK, d.asked(t, "/", "penstock.example.org"))
	require.Eventually(t, func() bool { return strings.Count(d.text(), "needs a restart") == 1 }, time.Minute, 10*time.Millisecond)
	code, _ := d.get(t, "/api/v1/status")
	require.Equal(t, http.StatusUnauthorized, code, "the token is required at once")
	again(`serve: {listen: "127.0.0.1:9", hosts: [penstock.example.org]}`)
	_, text := d.get(t, "/api/v1/status")
	require.Contains(t, text, "serve.listen has changed in the configuration and needs a restart.")
	require.NotContains(t, text, "serve.auth has changed")

	again(`serve: {listen: "127.0.0.1:0"}`)
	require.Equal(t, http.StatusForbidden, d.asked(t, "/", "penstock.example.org"))
	require.Eventually(t, func() bool {
		_, text := d.get(t, "/api/v1/status")
		return !strings.Contains(text, "needs a restart")
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, 143, d.stop())
}

func (d *runningDaemon) text() string {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	return d.log.text.String()
}

func TestChangedAtStart(t *testing.T) {
	was := config.Config{Serve: config.Serve{Listen: "127.0.0.1:8080", Tokens: []config.ServeToken{{Name: "owner"}}, OTLP: &config.Collector{URL: "http://a"}}, State: config.State{Dir: "s"}}
	same := was
	same.Serve.OTLP = &config.Collector{URL: "http://a"}
	same.Serve.OTLP.At.Line, same.Serve.At.Line, same.State.At.Line = 6, 7, 8
	require.Empty(t, daemon.ChangedAtStart(was, same), "another position in the file must not count as a change")
	is := config.Config{Serve: config.Serve{Listen: ":80", OTLP: &config.Collector{URL: "http://b"}, OpenLineage: &config.Collector{}}, State: config.State{Dir: "x"}}
	require.Equal(t, []string{"serve.listen", "serve.otlp", "serve.openlineage", "serve.auth", "state"}, daemon.ChangedAtStart(was, is))
}
