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

	"github.com/penstock-data/penstock/extract/sandbox"
)

// worlds are the platforms behind many workspaces, each at a path of its own of
// one server: workspace n shows world n modulo their number.
type worlds struct {
	all  []*sandbox.Server
	odd  map[string]http.HandlerFunc // what a workspace does instead
	url  string
	dir  string
	made []string
}

func newWorlds(t *testing.T, workspaces int) *worlds {
	t.Helper()
	w := &worlds{odd: map[string]http.HandlerFunc{}, dir: t.TempDir()}
	for seed := range 3 {
		s, err := sandbox.New(sandbox.Options{Seed: uint64(seed + 1), NoLimits: true})
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

// configure writes a configuration whose one pipeline reads all workspaces.
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
	code = execute(t.Context(), append(args, "-c", w.config(), "--no-progress"), &out, &errs)
	return code, out.String(), errs.String()
}

// ids are the keys of a table's rows that stand, by source, as `query` gives them.
func (w *worlds) ids(t *testing.T, table string) map[string]map[string]int {
	t.Helper()
	code, out, errs := w.penstock(t, "query", "--json", "SELECT _penstock_source AS source, CAST(id AS varchar) AS id FROM "+table+" WHERE _penstock_deleted_at IS NULL")
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

// truth are the keys that a workspace's stream has.
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

// holds checks that each workspace's rows are in the table, but for those named.
func (w *worlds) holds(t *testing.T, table, stream string, but ...string) {
	t.Helper()
	got := w.ids(t, table)
	for _, name := range w.made {
		if strings.Contains(strings.Join(but, " "), name) {
			require.Empty(t, got[name], name)
			continue
		}
		require.Equal(t, w.truth(t, name, stream), got[name], "%s of %s", table, name)
	}
}

// TestManySources reads several workspaces into tables that they share, into each
// kind of destination: one that fails stops no other, and a second run writes
// nothing.
func TestManySources(t *testing.T) { onEach(t, testManySources) }

func testManySources(t *testing.T, to target) {
	w := newWorlds(t, 7)
	w.odd["ws003"] = func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusUnauthorized) }
	w.configure(t, `"`+to.url()+`"`, `"*"`, `["crm.leads", "sales.invoices", "v2.contacts"]`)
	code, out, errs := w.penstock(t, "sync")
	require.Equal(t, exitPartial, code, "%s\n%s", out, errs)
	require.Contains(t, out, "6 of 7 sources complete")
	require.Regexp(t, `(?m)^failed +ws003: .*401`, out)
	for table, stream := range map[string]string{"crm_leads": "crm.leads", "sales_invoices": "sales.invoices", "v2_contacts": "v2.contacts"} {
		w.holds(t, table, stream, "ws003")
	}
	delete(w.odd, "ws003")
	code, out, errs = w.penstock(t, "sync", "--json", "--source", "ws00*")
	require.Equal(t, exitDone, code, "%s\n%s", out, errs)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 8, "one a source, and the sums")
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
