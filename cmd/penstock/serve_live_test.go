//go:build cgo && duckdb_arrow && unix

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/extract/sandbox"
)

const governedConfig = `version: 1
sources: {main: {app: {base_url: "SANDBOX", auth: {token: pat_sandbox_readonly}, rate: 5/s}}}
destinations: {warehouse: "duckdb:warehouse.duckdb", lake: "parquet:lake"}
pipelines:
  one: {from: main, to: warehouse, streams: ["crm.*"]}
  two: {from: main, to: lake, streams: ["crm.*"]}
`

// Two pipelines run in one process at the same time, and share one budget of requests. So the server refuses no
// request. // Invariant 4
func TestServeGoverned(t *testing.T) {
	platform, err := sandbox.New(sandbox.Options{AppRate: sandbox.Rate{Requests: 5, Window: time.Second}})
	require.NoError(t, err)
	server := httptest.NewServer(platform)
	defer server.Close()
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.WriteFile(defaultConfig, []byte(strings.Replace(governedConfig, "SANDBOX", server.URL, 1)), 0o600))
	a := &app{out: &bytes.Buffer{}, err: &bytes.Buffer{}, logFormat: "text", quiet: true, open: open.Opener{File: defaultConfig, Pool: open.NewDestinationPool(), Kinds: destinationKinds()}}
	require.NoError(t, a.start())
	c, err := a.open.Load()
	require.NoError(t, err)
	all, err := a.served(c, nil)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for _, p := range all {
		wg.Go(func() {
			o := serve.RunRequest{Run: runid.New(time.Now()), Progress: func(pipeline.Event) {}, Rates: func(func() []serve.Rate) {}}
			if testing.Short() {
				o.Streams = []string{"crm.leads", "crm.deals"}
			}
			r, err := p.Run(t.Context(), o)
			if err != nil || r.Status != pipeline.StatusComplete {
				t.Errorf("%s: %s %v", p.Name, r.Status, err)
			}
		})
	}
	wg.Wait()
	for name, s := range platform.Stats().Credentials {
		t.Logf("%s: %d requests, %d in the fullest second, %d refused", name, s.Requests, s.MaxPerSecond, s.Throttled)
		require.LessOrEqual(t, s.MaxPerSecond, 5)
		require.Zero(t, s.Throttled)
	}
}

const hookedConfig = `version: 1
sources:
  main:
    v2: {base_url: "SANDBOX", auth: {api_key: sk_sandbox_readonly}}
    webhooks: {secret: whsec_of_this_test_alone, scheme: stripe}
destinations: {warehouse: "duckdb:warehouse.duckdb"}
pipelines: {all: {from: main, to: warehouse, streams: [v2.contacts], schedule: {cron: "@yearly"}}}
serve: {listen: "127.0.0.1:0"}
`

// If a webhook announces a change, the table shows the change without a run. While the daemon reads its configuration
// again, it refuses no delivery, even if the new configuration is invalid.
func TestServeWebhooks(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "@yearly")
	path := filepath.Join(d.dir, "pipelines.yaml")
	conf := strings.Replace(hookedConfig, "SANDBOX", d.url, 1)
	require.NoError(t, os.WriteFile(path, []byte(conf), 0o600))
	d.run("sync")
	ids := strings.Fields(d.run("query", "--format", "csv", "SELECT id FROM v2_contacts ORDER BY id LIMIT 3"))[1:]
	d.start()
	d.says("serving")
	address := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(d.out.String())[1]
	_, err := d.platform.Subscribe(sandbox.Webhook{URL: "http://" + address + "/webhooks/main", Secret: "whsec_of_this_test_alone", Scheme: sandbox.Stripe})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.platform.Close()) })
	for i, step := range []struct{ conf, says string }{
		{conf, "serving"},
		{conf + "typo: 1\n", "configuration not reloaded"},
		{strings.Replace(conf, "@yearly", "@monthly", 1), "configuration reloaded"},
	} {
		require.NoError(t, os.WriteFile(path, []byte(step.conf), 0o600))
		if i > 0 { // the daemon was started with the first configuration
			require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
		}
		d.says(step.says)
		require.NoError(t, os.WriteFile(path, []byte(conf), 0o600)) // the commands that run below read this file
		name := fmt.Sprintf("Announced %d", i)
		d.write("PUT", "/v2/contacts/"+ids[i], fmt.Sprintf(`{"name":%q}`, name))
		d.shows(fmt.Sprintf("SELECT count(*) FROM v2_contacts WHERE name = '%s' AND _penstock_via = 'webhook'", name), "1")
	}
	code, _ := d.end(syscall.SIGTERM)
	require.Equal(t, 143, code, d.out)
	s := d.platform.Webhooks()[0]
	require.Equal(t, 3, s.Acknowledged, "%+v", s)
	require.Zero(t, s.Refused+s.GivenUp, "%+v", s)
	runs := d.run("runs", "--json")
	require.Equal(t, 1, strings.Count(runs, "\n"), "the webhooks must not cause a run: %s\n%s", runs, d.out)
}

// run() runs a command until it ends, and returns what it prints.
func (d *serving) run(args ...string) string {
	d.t.Helper()
	self, err := os.Executable()
	require.NoError(d.t, err)
	cmd := exec.Command(self)
	var errs bytes.Buffer
	cmd.Args, cmd.Dir, cmd.Stderr = append([]string{"penstock"}, args...), d.dir, &errs
	out, err := cmd.Output()
	require.NoError(d.t, err, errs.String())
	return string(out)
}

// write changes the platform's data.
func (d *serving) write(method, path, body string) {
	d.t.Helper()
	req, err := http.NewRequest(method, d.url+path, strings.NewReader(body))
	require.NoError(d.t, err)
	req.Header.Set("Authorization", "Bearer "+sandbox.WritingKey)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(d.t, err)
	require.NoError(d.t, resp.Body.Close())
	require.Equal(d.t, 2, resp.StatusCode/100)
}

// shows() waits until a query returns the given value.
func (d *serving) shows(query, want string) {
	d.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		if got := strings.Fields(d.run("query", "--format", "csv", query)); got[len(got)-1] == want {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	require.Fail(d.t, query, d.out.String())
}
