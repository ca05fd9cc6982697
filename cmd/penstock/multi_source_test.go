//go:build cgo && duckdb_arrow

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/extract/sandbox"
)

// worlds is a server with many workspaces, each at its own path. The records of the workspaces come from three
// platforms in turn: for example, ws000 and ws003 have the records of the first platform.
type worlds struct {
	all  []*sandbox.Server
	odd  map[string]http.HandlerFunc // by name of the workspace: a handler that replaces the workspace's usual handler
	url  string
	dir  string
	made []string
}

func newWorlds(t *testing.T, workspaces int) *worlds {
	t.Helper()
	return newWorldsOf(t, workspaces, sandbox.Options{NoLimits: true})
}

// newWorldsOf creates worlds whose platforms have the options o, each with its own seed.
func newWorldsOf(t *testing.T, workspaces int, o sandbox.Options) *worlds {
	t.Helper()
	w := &worlds{odd: map[string]http.HandlerFunc{}, dir: t.TempDir()}
	for seed := range 3 {
		o.Seed = uint64(seed + 1)
		s, err := sandbox.New(o)
		require.NoError(t, err)
		w.all = append(w.all, s)
	}
	h := httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(h.Close)
	w.url = h.URL
	for i := range workspaces {
		w.made = append(w.made, fmt.Sprintf("ws%03d", i))
	}
	return w
}

func (w *worlds) serve(rw http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if odd := w.odd[name]; odd != nil {
		odd(rw, r)
		return
	}
	http.StripPrefix("/"+name, w.of(name)).ServeHTTP(rw, r)
}

func (w *worlds) of(name string) *sandbox.Server {
	var n int
	_, _ = fmt.Sscanf(name, "ws%d", &n)
	return w.all[n%len(w.all)]
}

// configure writes a configuration whose only pipeline reads all workspaces.
func (w *worlds) configure(t *testing.T, destination, from, streams string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("version: 1\nsources:\n")
	for _, name := range w.made {
		fmt.Fprintf(&b, "  %s: {v2: {base_url: %s/%s, auth: {api_key: sk_sandbox_readonly}, rate: 100000/s}, app: {base_url: %[2]s/%[3]s, auth: {token: pat_sandbox_readonly}, rate: 100000/s}}\n",
			name, w.url, name)
	}
	fmt.Fprintf(&b, "destinations: {warehouse: %s}\npipelines: {all: {from: %s, to: warehouse, streams: %s}}\nstate: %s/state\n", destination, from, streams, w.dir)
	require.NoError(t, os.WriteFile(w.config(), []byte(b.String()), 0o600))
}

func (w *worlds) config() string { return filepath.Join(w.dir, "pipelines.yaml") }

func (w *worlds) penstock(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = runCommand(t.Context(), append(args, "-c", w.config(), "--no-progress"), &out, &errs)
	return code, out.String(), errs.String()
}

// ids returns the keys of the table's rows by source, without deleted rows. It reads them with `penstock query`.
func (w *worlds) ids(t *testing.T, table string) map[string]map[string]int {
	t.Helper()
	code, out, errs := w.penstock(t, "query", "--json", "SELECT _penstock_source AS source, TRIM(CAST(id AS char(64))) AS id FROM "+table+" WHERE _penstock_deleted_at IS NULL")
	require.Zero(t, code, errs)
	all := map[string]map[string]int{}
	for line := range strings.Lines(out) {
		var row struct{ Source, ID string }
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		if all[row.Source] == nil {
			all[row.Source] = map[string]int{}
		}
		all[row.Source][row.ID]++
	}
	return all
}

// truth returns the keys of the records that a workspace has for a stream.
func (w *worlds) truth(t *testing.T, name, stream string) map[string]int {
	t.Helper()
	records, err := w.of(name).Truth(stream)
	require.NoError(t, err)
	all := map[string]int{}
	for _, r := range records {
		var row struct{ ID json.RawMessage }
		require.NoError(t, json.Unmarshal(r, &row))
		all[strings.Trim(string(row.ID), `"`)]++
	}
	return all
}

// holds() checks that the rows of each workspace are in the table. The workspaces that the argument `without` names
// must have no rows in the table.
func (w *worlds) holds(t *testing.T, table, stream string, without ...string) {
	t.Helper()
	got := w.ids(t, table)
	for _, name := range w.made {
		if strings.Contains(strings.Join(without, " "), name) {
			require.Empty(t, got[name], name)
			continue
		}
		require.Equal(t, w.truth(t, name, stream), got[name], "%s of %s", table, name)
	}
}

// TestManySources reads several workspaces into shared tables, in each kind of destination. A failing source
// does not stop the others, and a second run writes nothing.
func TestManySources(t *testing.T) {
	t.Parallel()
	onEach(t, testManySources)
}

func testManySources(t *testing.T, to target) {
	t.Parallel()
	w := newWorlds(t, 7)
	w.odd["ws003"] = func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusUnauthorized) }
	w.configure(t, `"`+to.url()+`"`, `"*"`, `["crm.leads", "sales.invoices", "v2.contacts"]`)
	code, out, errs := w.penstock(t, "sync")
	require.Equal(t, failure.ExitPartial, code, "%s\n%s", out, errs)
	require.Contains(t, out, "6 of 7 sources complete")
	require.Regexp(t, `(?m)^failed +ws003: .*401`, out)
	for table, stream := range map[string]string{"crm_leads": "crm.leads", "sales_invoices": "sales.invoices", "v2_contacts": "v2.contacts"} {
		w.holds(t, table, stream, "ws003")
	}
	delete(w.odd, "ws003")
	code, out, errs = w.penstock(t, "sync", "--json", "--source", "ws00*")
	require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 8, "want a line for each source, and one with the totals")
	for _, line := range lines[:7] {
		var r struct {
			Source  string
			Streams []struct{ Counts struct{ Written int } }
		}
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		for _, s := range r.Streams {
			require.Equal(t, r.Source == "ws003", s.Counts.Written > 0, "%s: %s", r.Source, line)
		}
	}
	w.holds(t, "crm_leads", "crm.leads")
	w.holds(t, "sales_invoices", "sales.invoices")
}

// TestListedSources makes sources from the rows of a file, from the output of a command, and from a query. Each source
// needs a secret, and the secret of one source is missing.
func TestListedSources(t *testing.T) {
	w := newWorlds(t, 4)
	w.odd["ws002"] = func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusForbidden) }
	csv := filepath.Join(w.dir, "workspaces.csv")
	require.NoError(t, os.WriteFile(csv, []byte("name,key\nws000,sk_sandbox_readonly\nws001,\nws003,sk_sandbox_readonly\n"), 0o600))
	lines := filepath.Join(w.dir, "print.sh")
	require.NoError(t, os.WriteFile(lines, []byte("#!/bin/sh\nprintf '{\"name\":\"ws000\",\"key\":\"sk_sandbox_readonly\"}\\n{\"name\":\"ws003\",\"key\":\"sk_sandbox_readonly\"}\\n'\n"), 0o700))
	configure := func(from string) {
		require.NoError(t, os.WriteFile(w.config(), fmt.Appendf(nil, `version: 1
sources:
  from: %s
  template: {v2: {base_url: "%s/{name}", auth: {api_key: "{key}"}, rate: 100000/s}}
destinations: {warehouse: "duckdb:%[3]s/w.duckdb"}
pipelines: {all: {from: "*", to: warehouse, streams: v2.contacts}}
state: %[3]s/state
`, from, w.url, w.dir), 0o600))
	}
	configure("{file: " + csv + ", secret: [key]}")
	code, out, errs := w.penstock(t, "sync")
	require.Equal(t, failure.ExitPartial, code, "%s\n%s", out, errs)
	require.Contains(t, out, "2 of 3 sources complete")
	require.Regexp(t, `(?m)^failed +ws001: .*api_key is empty`, out)

	code, out, errs = w.penstock(t, "sources", "add", "ws002", "--set", "key=sk_sandbox_readonly")
	require.Zero(t, code, out+errs)
	code, out, _ = w.penstock(t, "sync")
	require.Equal(t, failure.ExitPartial, code)
	require.Contains(t, out, "2 of 4 sources complete")
	code, out, errs = w.penstock(t, "sources", "pause", "ws001", "ws002")
	require.Zero(t, code, out+errs)
	code, out, _ = w.penstock(t, "sync")
	require.Equal(t, failure.ExitDone, code, out)
	require.Contains(t, out, "2 of 2 sources complete, 2 paused")
	code, out, errs = w.penstock(t, "sources", "list", "--json")
	require.Zero(t, code, errs)
	require.Contains(t, out, `"source":"ws002","state":"paused"`)
	require.Contains(t, out, `"source":"ws000","state":"complete"`)
	require.NotContains(t, out, "sk_sandbox_readonly")
	code, out, errs = w.penstock(t, "sources", "resume", "ws001", "ws002")
	require.Zero(t, code, out+errs)

	configure("{command: [" + lines + "]}")
	code, out, errs = w.penstock(t, "sync")
	require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
	require.Contains(t, out, "2 of 2 sources complete")
	configure(`{query: "SELECT DISTINCT _penstock_source AS name, 'sk_sandbox_readonly' AS key FROM v2_contacts", of: warehouse}`)
	code, out, errs = w.penstock(t, "sync")
	require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
	require.Contains(t, out, "2 of 2 sources complete")
	require.NoError(t, os.Chmod(csv, 0o644))
	configure("{file: " + csv + "}")
	code, out, errs = w.penstock(t, "sources", "add", "ws009", "--set", "key=s")
	require.Equal(t, failure.ExitUsage, code, out+errs)
	require.Contains(t, errs, "chmod 600")
}

// TestSourcesWithSeparateDestinations gives each source a separate destination.
func TestSourcesWithSeparateDestinations(t *testing.T) {
	w := newWorlds(t, 3)
	for _, to := range []string{
		`"duckdb:` + w.dir + `/{source}.duckdb"`,
		`"parquet:` + w.dir + `/lake/{source}"`,
		`{url: "` + newPostgresTarget(t).url() + `", schema: "ws_{source}"}`,
	} {
		w.configure(t, to, `[ws000, ws001, ws002]`, `["crm.leads"]`)
		code, out, errs := w.penstock(t, "check")
		require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
		code, out, errs = w.penstock(t, "sync")
		require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
		answers := map[string]bool{}
		for _, name := range w.made {
			code, out, errs = w.penstock(t, "query", "--json", "--to", "warehouse@"+name, "SELECT count(*) AS n, min(email) AS first FROM crm_leads")
			require.Equal(t, failure.ExitDone, code, errs)
			answers[out] = true
		}
		require.Len(t, answers, 3, "each source must have its own rows in %s", to)
		for arg, hint := range map[string]string{"warehouse": "--to warehouse@SOURCE", "warehouse@nobody": "sources list` lists them"} {
			code, _, errs = w.penstock(t, "query", "--to", arg, "SELECT 1")
			require.Equal(t, failure.ExitUsage, code)
			require.Contains(t, errs, hint)
		}
		code, out, errs = w.penstock(t, "status", "--to", "warehouse")
		require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
		for _, name := range w.made {
			require.Contains(t, out, name)
		}
		code, out, errs = w.penstock(t, "plan", "--source", "ws001")
		require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
		require.Contains(t, out, "measured")
	}
	for _, name := range w.made {
		_, err := os.Stat(filepath.Join(w.dir, name+".duckdb"))
		require.NoError(t, err)
		_, err = os.Stat(filepath.Join(w.dir, "lake", name, "crm.leads", "current"))
		require.NoError(t, err)
	}
	for _, none := range []string{"{source}.duckdb", "lake/{source}"} {
		_, err := os.Stat(filepath.Join(w.dir, none))
		require.ErrorIs(t, err, os.ErrNotExist)
	}
}

// TestViewsOfManySources: if several sources share the tables, the views return the same rows for each source as they
// would return if each source had its own tables. This is so even if two sources have the same ids.
func TestViewsOfManySources(t *testing.T) {
	t.Parallel()
	onEach(t, testViewsOfManySources)
}

func testViewsOfManySources(t *testing.T, to target) {
	t.Parallel()
	w := newWorlds(t, 4) // ws003 has the records of ws000
	_, sqlite := to.(sqliteTarget)
	_, mysql := to.(mysqlTarget)
	streams := `["sales.invoices", "hr.employees", "hr.branches", "hr.departments"]`
	if sqlite || mysql { // these destinations cannot run views, so one small table is enough
		streams = `["hr.branches"]`
	}
	w.configure(t, `"`+to.url()+`"`, `"*"`, streams)
	code, out, errs := w.penstock(t, "sync")
	require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
	if sqlite || mysql {
		code, _, errs = w.penstock(t, "views")
		require.Equal(t, failure.ExitUsage, code)
		require.Contains(t, errs, "cannot run in destination")
		return
	}
	code, out, errs = w.penstock(t, "views", "--json")
	require.Zero(t, code, errs)
	possible := 0
	for line := range strings.Lines(out) {
		var v viewLine
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		if v.SQL == "" {
			continue
		}
		possible++
		code, out, errs := w.penstock(t, "query", "--json", "SELECT * FROM ("+v.SQL+") v ORDER BY 1, 2, 3, 4, 5")
		require.Zero(t, code, "%s: %s", v.SQL, errs)
		answers := map[string]string{}
		for line := range strings.Lines(out) {
			var row struct {
				Source string `json:"_penstock_source"`
			}
			require.NoError(t, json.Unmarshal([]byte(line), &row))
			answers[row.Source] += strings.ReplaceAll(line, row.Source, "")
		}
		require.NotEmpty(t, answers["ws000"], v.Name)
		require.Equal(t, answers["ws000"], answers["ws003"], v.Name)
		require.NotEqual(t, answers["ws000"], answers["ws001"], v.Name)
	}
	require.GreaterOrEqual(t, possible, 2)
}
