//go:build cgo && duckdb_arrow && unix

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/assistant"
	"github.com/penstock-data/penstock/cmd/internal/assistant/assistanttest"
	"github.com/penstock-data/penstock/cmd/internal/browse"
	"github.com/penstock-data/penstock/extract/sandbox"
)

const assistantConfig = `version: 1
sources: {main: {app: {base_url: "SANDBOX", auth: {token: TOKEN}}}}
destinations: {warehouse: {url: "TO"}}
pipelines: {all: {from: main, to: warehouse, streams: [crm.leads, crm.lead_stages], mask: {"crm.leads.email": hmac}}}
serve: {listen: "127.0.0.1:0", auth: {tokens: [{name: reader, token: reader-token-0123}, {name: analyst, token: analyst-token-0123, role: query}]}}
`

// assistantRig is a folder with a configuration and loaded tables.
type assistantRig struct {
	t   *testing.T
	dir string
}

// newAssistantRig loads two streams into the destination at an address. Then it takes the credential of the source out
// of the configuration: the command that would print it does not exist.
func newAssistantRig(t *testing.T, to string) *assistantRig {
	t.Helper()
	platform, err := sandbox.New(sandbox.Options{NoLimits: true})
	require.NoError(t, err)
	server := httptest.NewServer(platform)
	t.Cleanup(server.Close)
	r := &assistantRig{t, t.TempDir()}
	write := func(token string) {
		text := strings.NewReplacer("SANDBOX", server.URL, "TOKEN", token, "TO", to).Replace(assistantConfig)
		require.NoError(t, os.WriteFile(filepath.Join(r.dir, defaultConfig), []byte(text), 0o600))
	}
	write("pat_sandbox_readonly")
	out, err := r.command("sync").CombinedOutput()
	require.NoError(t, err, "%s", out)
	write(`"${cmd:no-such-program}"`)
	return r
}

// command returns a command of penstock, which runs in a process of its own.
func (r *assistantRig) command(args ...string) *exec.Cmd {
	self, err := os.Executable()
	require.NoError(r.t, err)
	c := exec.Command(self)
	c.Args, c.Dir = append([]string{"penstock"}, args...), r.dir
	return c
}

// session starts `penstock mcp` as an assistant does.
func (r *assistantRig) session(args ...string) *mcp.ClientSession {
	r.t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := c.Connect(r.t.Context(), &mcp.CommandTransport{Command: r.command(append([]string{"mcp"}, args...)...)}, nil)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = s.Close() })
	return s
}

// contents returns the contents of the folder's files, by name. Files of the state are left out.
func (r *assistantRig) contents() map[string]string {
	all := map[string]string{}
	entries, err := os.ReadDir(r.dir)
	require.NoError(r.t, err)
	for _, e := range entries {
		if !e.IsDir() {
			text, err := os.ReadFile(filepath.Join(r.dir, e.Name()))
			require.NoError(r.t, err)
			all[e.Name()] = string(text)
		}
	}
	return all
}

// checkAssistant calls every tool as an assistant would.
func checkAssistant(t *testing.T, s *mcp.ClientSession, dialect string) {
	t.Helper()
	list, failed := assistanttest.Call[assistant.ListOutput](t, s, "list_tables", nil)
	require.Empty(t, failed)
	require.Equal(t, dialect, list.Dialect)
	i := slices.IndexFunc(list.Tables, func(t assistant.TableSummary) bool { return t.Table == "crm_leads" })
	require.GreaterOrEqual(t, i, 0)
	require.NotEmpty(t, list.Tables[i].About)

	table, failed := assistanttest.Call[assistant.DescribeOutput](t, s, "describe_table", map[string]any{"table": "crm_leads"})
	require.Empty(t, failed)
	j := slices.IndexFunc(table.Columns, func(c assistant.ColumnDescription) bool { return c.Name == "email" })
	require.GreaterOrEqual(t, j, 0)
	require.Equal(t, "hmac", table.Columns[j].Mask)

	out, failed := assistanttest.Call[browse.Result](t, s, "query", map[string]any{"sql": "SELECT email FROM crm_leads_current WHERE email IS NOT NULL", "limit": 3})
	require.Empty(t, failed)
	require.False(t, out.Complete)
	require.Len(t, out.Rows, 3)
	for _, row := range out.Rows {
		require.NotContains(t, row[0], "@", "a mask holds")
	}
	require.Len(t, out.Tables, 1)
	require.Equal(t, "crm_leads", out.Tables[0].Table)
	require.Equal(t, list.Tables[i].Verdict, out.Tables[0].Verdict)
	require.Contains(t, []string{"proven", "consistent"}, out.Tables[0].Verdict)
	require.WithinDuration(t, time.Now(), out.Tables[0].ReadAt, time.Hour)

	status, failed := assistanttest.Call[assistant.StatusOutput](t, s, "status", map[string]any{"stream": "crm.leads"})
	require.Empty(t, failed)
	require.Len(t, status.Streams, 1)
	runs, failed := assistanttest.Call[assistant.RunsOutput](t, s, "runs", map[string]any{"run": out.Tables[0].Run})
	require.Empty(t, failed)
	require.Len(t, runs.Runs, 1)
	require.Len(t, runs.Certificates, 2)
	what, failed := assistanttest.Call[map[string]any](t, s, "explain", map[string]any{"stream": "crm.leads"})
	require.Empty(t, failed)
	require.Contains(t, what["yaml"], "crm.leads:")
}

// attacks are statements that must not run, for every kind of destination.
var attacks = []string{
	"DELETE FROM crm_leads", "DROP TABLE crm_leads", "SELECT 1; DROP TABLE crm_leads", "UPDATE crm_leads SET name = 'x'", "CREATE TABLE stolen AS SELECT * FROM crm_leads",
	"WITH gone AS (DELETE FROM crm_leads RETURNING id) SELECT * FROM gone", "EXPLAIN ANALYZE DELETE FROM crm_leads", "BEGIN", "COMMIT; DROP TABLE crm_leads", "",
}

// duckdbAttacks returns statements that must not run in DuckDB. Some of them would read a secret file.
func duckdbAttacks(secret string) []string {
	return []string{
		"COPY crm_leads TO 'stolen.csv'", "COPY (SELECT 1) TO 'stolen.csv'", "ATTACH 'other.duckdb' AS other", "EXPORT DATABASE 'stolen'", "INSTALL httpfs", "LOAD httpfs",
		"SET memory_limit = '1TB'", "PRAGMA database_list", "CALL force_checkpoint()", "SELECT * FROM read_csv('" + secret + "')", "SELECT content FROM read_text('" + secret + "')",
		"FROM '" + secret + "'", "FROM read_blob('" + secret + "')", "FROM glob('*')", "FROM query('SELECT content FROM read_text(''" + secret + "'')')", "SELECT getenv('HOME')",
	}
}

// postgresAttacks are statements that must not run in Postgres.
var postgresAttacks = []string{
	"COPY crm_leads TO '/tmp/stolen'", "COPY (SELECT 1) TO PROGRAM 'id'", "SELECT pg_read_file('/etc/passwd')", "SELECT lo_export(1, '/tmp/stolen')", "SELECT pg_terminate_backend(1)",
	"SELECT query_to_xml('DELETE FROM crm_leads', true, true, '')", "SET ROLE postgres", "RESET ROLE", "VACUUM", "LISTEN x", "DO $$ BEGIN DELETE FROM crm_leads; END $$",
	"SELECT * FROM dblink('dbname=postgres', 'DELETE FROM crm_leads') AS t(a int)", "SELECT * FROM crm_leads FOR UPDATE", "SELECT set_config('statement_timeout', '0', false)",
}

func checkAttacks(t *testing.T, s *mcp.ClientSession, more ...string) {
	t.Helper()
	for _, sql := range append(more, attacks...) {
		_, failed := assistanttest.Call[browse.Result](t, s, "query", map[string]any{"sql": sql})
		require.NotEmpty(t, failed, sql)
	}
}

// An assistant reads a DuckDB file through a process of its own. No call changes a file, and a sync does not wait for
// an assistant that asks nothing. A result shows what the sync has loaded.
func TestAssistantDuckDB(t *testing.T) {
	t.Parallel()
	r := newAssistantRig(t, "duckdb:w.duckdb?block_size=16384")
	before := r.contents()
	s := r.session()
	checkAssistant(t, s, "DuckDB")
	secret := filepath.Join(r.dir, defaultConfig)
	checkAttacks(t, s, duckdbAttacks(secret)...)
	require.Equal(t, before, r.contents())

	for _, args := range [][]string{{"views", "--apply"}, {"query", "SELECT 1"}} { // a command that writes, and one that reads
		out, err := r.command(args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	list, failed := assistanttest.Call[assistant.ListOutput](t, s, "list_tables", nil)
	require.Empty(t, failed)
	require.NotEmpty(t, list.Tables)
	require.NoError(t, s.Close())
}

// The copy for readers is read if there is one. The file itself may then be locked for any length of time.
func TestAssistantPublished(t *testing.T) {
	t.Parallel()
	r := newAssistantRig(t, `duckdb:w.duckdb?block_size=16384", publish: "copy.duckdb`)
	require.NoError(t, os.Remove(filepath.Join(r.dir, "w.duckdb"))) // only the copy can answer
	before := r.contents()
	checkAssistant(t, r.session("--to", "warehouse"), "DuckDB")
	require.Equal(t, before, r.contents())
}

// A configuration error ends the command before it serves. Its exit code is that of a usage error.
func TestAssistantConfiguration(t *testing.T) {
	t.Parallel()
	r := &assistantRig{t, t.TempDir()}
	out, err := r.command("mcp").CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 2, exit.ExitCode())
	require.Contains(t, string(out), "no configuration: pipelines.yaml does not exist")
}

// assistantToken sends a token with each request.
type assistantToken string

func (b assistantToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// serve starts the daemon, and returns its process, its output, and the address for assistants.
func (r *assistantRig) serve() (daemon *exec.Cmd, said *spoken, url string) {
	r.t.Helper()
	file := filepath.Join(r.dir, defaultConfig)
	text, err := os.ReadFile(file)
	require.NoError(r.t, err)
	require.NoError(r.t, os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "${cmd:no-such-program}", "pat_sandbox_readonly")), 0o600))
	daemon, said = r.command("serve"), &spoken{}
	daemon.Stdout, daemon.Stderr = said, said
	require.NoError(r.t, daemon.Start())
	r.t.Cleanup(func() { _ = daemon.Process.Kill(); _ = daemon.Wait() })
	at := regexp.MustCompile(`serving.* address=(\S+)`)
	require.Eventually(r.t, func() bool { return at.MatchString(said.String()) }, time.Minute, 10*time.Millisecond, said)
	return daemon, said, "http://" + at.FindStringSubmatch(said.String())[1] + "/mcp"
}

// The daemon answers assistants under /mcp. The tokens decide who may read rows.
func TestAssistantServed(t *testing.T) {
	t.Parallel()
	r := newAssistantRig(t, "duckdb:w.duckdb?block_size=16384")
	daemon, said, url := r.serve()
	dial := func(token string) (*mcp.ClientSession, error) {
		c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		return c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: assistantToken(token)}, MaxRetries: -1, DisableStandaloneSSE: true}, nil)
	}
	_, err := dial("wrong-token-0123456")
	require.Error(t, err)
	reader, err := dial("reader-token-0123")
	require.NoError(t, err)
	_, failed := assistanttest.Call[any](t, reader, "query", map[string]any{"sql": "SELECT 1"})
	require.Contains(t, failed, "set `role: query` for the token")
	analyst, err := dial("analyst-token-0123")
	require.NoError(t, err)
	checkAssistant(t, analyst, "DuckDB")
	checkAttacks(t, analyst, "COPY crm_leads TO 'stolen.csv'")

	ask, err := http.NewRequest(http.MethodPost, url, strings.NewReader("{}"))
	require.NoError(t, err)
	ask.Host = "rebound.example"
	resp, err := http.DefaultClient.Do(ask)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusForbidden, resp.StatusCode, "the name of another site")

	require.NoError(t, daemon.Process.Signal(syscall.SIGTERM))
	_ = daemon.Wait()
	require.NotContains(t, said.String(), "token-0123")
	require.Contains(t, said.String(), "token=analyst")
}

// An assistant reads a Postgres schema. Its statements run in a read-only transaction.
func TestAssistantPostgres(t *testing.T) {
	t.Parallel()
	target := newPostgresTarget(t)
	r := newAssistantRig(t, target.url())
	s := r.session()
	checkAssistant(t, s, "PostgreSQL")
	checkAttacks(t, s, postgresAttacks...)
	c := target.connect(t)
	var n int
	require.NoError(t, c.QueryRow(t.Context(), "SELECT count(*) FROM crm_leads").Scan(&n))
	require.Positive(t, n)
}

// The inspector of the Model Context Protocol calls tools over stdio and over HTTP. `make inspect` fetches the inspector
// and runs this test.
func TestInspector(t *testing.T) {
	dir := os.Getenv("PENSTOCK_TEST_SERVERS")
	if dir == "" {
		t.Skip("PENSTOCK_TEST_SERVERS does not name a folder with the inspector; `make inspect` makes this folder")
	}
	program, err := filepath.Abs(filepath.Join(dir, "npm/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"))
	require.NoError(t, err)
	if _, err := os.Stat(program); err != nil {
		t.Skip("the inspector could not be fetched")
	}
	r := newAssistantRig(t, "duckdb:w.duckdb?block_size=16384")
	self, err := os.Executable()
	require.NoError(t, err)
	binary := filepath.Join(t.TempDir(), "penstock")
	require.NoError(t, os.Symlink(self, binary))
	inspect := func(args ...string) string {
		c := exec.Command("node", append([]string{program, "--cli"}, args...)...)
		c.Dir, c.Env = r.dir, append(os.Environ(), "HOME="+t.TempDir()) // it writes to its home
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	count := []string{"--method", "tools/call", "--tool-name", "query", "--tool-arg", "sql=SELECT count(*) > 0 AS some FROM crm_leads_current"}
	require.Contains(t, inspect(binary, "mcp", "--method", "tools/list"), "describe_table")
	require.Regexp(t, `"?verdict\\?"?: ?\\?"(proven|consistent)`, inspect(append([]string{binary, "mcp"}, count...)...))
	_, _, url := r.serve()
	token := []string{"--transport", "http", "--header", "Authorization: Bearer analyst-token-0123"}
	require.Regexp(t, `"?verdict\\?"?: ?\\?"(proven|consistent)`, inspect(append(append([]string{url}, token...), count...)...))
}
