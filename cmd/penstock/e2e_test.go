//go:build cgo && duckdb_arrow

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/schemas"
)

// platform is a sandbox that is served over HTTP. It has a folder with a configuration, which loads the sandbox's
// records into a warehouse.
type platform struct {
	*sandbox.Server
	url, dir string
	streams  string // stream list of the pipeline, as YAML
	to       target
}

func newPlatform(t *testing.T, o sandbox.Options, streams string, to target) *platform {
	t.Helper()
	s, err := sandbox.New(o)
	require.NoError(t, err)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	p := &platform{Server: s, url: h.URL, dir: t.TempDir(), streams: streams, to: to}
	require.NoError(t, os.WriteFile(p.config(), fmt.Appendf(nil, `version: 1
sources:
  main:
    v2: {base_url: %[1]s, auth: {api_key: sk_sandbox_readonly}, rate: 100000/s}
    app: {base_url: %[1]s, auth: {token: pat_sandbox_readonly}, rate: 100000/s}
destinations:
  warehouse: "%[4]s"
pipelines:
  all: {from: main, to: [warehouse], streams: %[3]s}
state: %[2]s/state
`, h.URL, p.dir, streams, to.url()), 0o600))
	return p
}

func (p *platform) config() string { return filepath.Join(p.dir, "pipelines.yaml") }

// penstock runs a command line in this process.
func (p *platform) penstock(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = runCommand(t.Context(), append(args, "-c", p.config(), "--no-progress"), &out, &err)
	return code, out.String(), err.String()
}

// compare compares the tables of all streams of the pipeline with the records of the platform, and returns the
// differences.
func (p *platform) compare(t *testing.T) []string {
	t.Helper()
	cat, err := schemas.Load()
	require.NoError(t, err)
	w := p.to.open(t)
	defer w.db.Close()
	var differences []string
	for _, s := range cat.Ordered() {
		if !s.Enabled || !strings.Contains(p.streams, `"*"`) && !strings.Contains(p.streams, `"`+s.Name+`"`) {
			continue
		}
		truth, err := p.Truth(s.Name)
		require.NoError(t, err, s.Name)
		differences = append(differences, w.truth(t, s.Name, s.Table.Name, truth)...)
	}
	return differences
}

// TestTruth: the tables of every readable stream equal the platform's records, value by value. A second run writes
// nothing. Then records are created, updated and deleted. A third run loads these changes, and marks the rows of
// deleted records as deleted. In the short form, each kind of destination loads the streams of shareOfStreams.
func TestTruth(t *testing.T) {
	t.Parallel()
	onEach(t, testTruth)
}

func testTruth(t *testing.T, to target) {
	t.Parallel()
	streams := `["*"]`
	if testing.Short() {
		streams = shareOfStreams(t, filepath.Base(t.Name()))
	}
	p := newPlatform(t, sandbox.Options{NoLimits: true}, streams, to)
	code, out, errs := p.penstock(t, "sync")
	require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
	if d := p.compare(t); len(d) > 0 {
		t.Fatal(strings.Join(d, "\n"))
	}

	code, out, errs = p.penstock(t, "sync", "--json")
	require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
	var again struct {
		Run string `json:"run"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &again))
	w := to.open(t)
	w.hasAllTypes(t)
	require.Positive(t, w.count(t, "SELECT count(*) FROM _penstock_certificates WHERE run = '"+again.Run+"'"))
	require.Zero(t, w.count(t, "SELECT coalesce(sum(written + deleted), 0) FROM _penstock_certificates WHERE run = '"+again.Run+"'"),
		"the second run wrote rows")
	require.Zero(t, w.count(t, "SELECT count(*) FROM _penstock_certificates WHERE fetched <> written + unchanged + deduplicated + rejected"))

	st := p.Stats()
	require.Empty(t, st.Outside, "requests that are not on the read list")
	require.NoError(t, w.db.Close())

	p.change(t)
	code, out, errs = p.penstock(t, "sync")
	require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
	if d := p.compare(t); len(d) > 0 {
		t.Fatal(strings.Join(d, "\n"))
	}
	w = to.open(t)
	require.EqualValues(t, 2, w.count(t, "SELECT count(*) FROM v2_contacts WHERE _penstock_deleted_at IS NOT NULL"))
	require.EqualValues(t, 2, w.count(t, "SELECT count(*) FROM sales_invoices WHERE _penstock_deleted_at IS NOT NULL"))
}

// changed are the streams whose records platform.change() changes.
var changed = []string{"v2.contacts", "crm.lead_board", "sales.invoices", "hr.employees", "support.tickets", "accounting.customers"}

// shareOfStreams returns the streams that the short form of TestTruth loads into one kind of destination. Every kind
// gets the changed streams with their parents. The other streams are divided among the kinds. A child stream goes to
// the same kind as its parent.
func shareOfStreams(t *testing.T, kind string) string {
	t.Helper()
	cat, err := schemas.Load()
	require.NoError(t, err)
	kinds := []string{"duckdb", "sqlite", "parquet", "postgres", "mysql"}
	var names []string
	parents, needed := map[string]string{}, map[string]bool{}
	for _, s := range cat.Ordered() {
		parents[s.Name] = s.Parent
	}
	for _, name := range changed {
		for ; name != ""; name = parents[name] {
			needed[name] = true
		}
	}
	roots, mine := 0, false
	for _, s := range cat.Ordered() {
		if s.Parent == "" {
			mine = roots%len(kinds) == max(0, slices.Index(kinds, kind))
			roots++
		}
		if s.Enabled && (mine || needed[s.Name]) {
			names = append(names, strconv.Quote(s.Name))
		}
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// hasAllTypes checks that the tables have columns of every type that values of a source can have.
func (w *warehouse) hasAllTypes(t *testing.T) {
	t.Helper()
	found := map[string]bool{}
	for table := range w.tables {
		if !strings.HasPrefix(table, "_penstock_") {
			for _, c := range w.columns(t, table) {
				typ, _, _ := strings.Cut(c.typ, "(")
				found[typ] = true
			}
		}
	}
	require.Subset(t, slices.Collect(maps.Keys(found)), []string{"BIGINT", "BOOLEAN", "DATE", "DECIMAL", "JSON", "TIMESTAMP WITH TIME ZONE", "VARCHAR", "VARCHAR[]"})
}

// change creates, updates and deletes records through the platform's write endpoints, as users of the platform would
// between two syncs.
func (p *platform) change(t *testing.T) {
	t.Helper()
	for _, c := range []struct {
		stream         string
		create, update string // create has the path of a POST; update and remove have a method and a path with %s for the id
		remove         string
		body           string
	}{
		{"v2.contacts", "/v2/contacts", "PUT /v2/contacts/%s", "DELETE /v2/contacts/%s", `{"name":"Renamed 🦤","email":"renamed@example.test"}`},
		{"crm.lead_board", "/api/lead/create", "POST /api/lead/update/%s", "DELETE /api/lead/delete/%s", `{"name":"Renamed","email":"renamed@example.test"}`},
		{"sales.invoices", "", "POST /api/sales-invoice/update/%s", "DELETE /api/sales-invoice/delete/%s", `{"notes":"changed"}`},
		{"hr.employees", "", "POST /api/employee/update/%s", "DELETE /api/employee/delete/%s", `{"city":"Łódź"}`},
		{"support.tickets", "", "POST /api/support-ticket/ticket/update/%s", "POST /api/support-ticket/ticket/delete/%s", `{"subject":"changed"}`},
		{"accounting.customers", "", "POST /api/customers/update/%s", "DELETE /api/customers/delete/%s", `{"notes":"changed"}`},
	} {
		ids := p.ids(t, c.stream)
		require.Greater(t, len(ids), 6, c.stream)
		for i, id := range ids[:6] {
			verb := c.update
			if i%3 == 2 {
				verb = c.remove
			}
			method, path, _ := strings.Cut(verb, " ")
			p.write(t, method, fmt.Sprintf(path, id), c.body)
		}
		if c.create != "" {
			p.write(t, "POST", c.create, c.body)
		}
	}
}

func (p *platform) ids(t *testing.T, stream string) []string {
	t.Helper()
	truth, err := p.Truth(stream)
	require.NoError(t, err)
	var ids []string
	for _, raw := range truth {
		var r struct {
			ID any `json:"id"`
		}
		require.NoError(t, json.Unmarshal(raw, &r))
		ids = append(ids, fmt.Sprint(r.ID))
	}
	return ids
}

func (p *platform) write(t *testing.T, method, path, body string) {
	t.Helper()
	key := "pat_sandbox_rw"
	if strings.HasPrefix(path, "/v2/") {
		key = "sk_sandbox_rw"
	}
	req, err := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Less(t, resp.StatusCode, 300, "%s %s", method, path)
}
