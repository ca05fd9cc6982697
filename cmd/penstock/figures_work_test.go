//go:build cgo && duckdb_arrow && unix

package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform"
)

// pagesOf serves pages of the same records in three forms: /numbered?page=2, /keyed?starting_after=17, and
// /array?page=2. A response to /array is an array of records, without an object around it.
type pagesOf struct {
	pages [][]byte
	after map[string]int // the page that follows a key
	rows  int
}

func newPagesOf(t *testing.T, pages [][]byte) *pagesOf {
	t.Helper()
	p := &pagesOf{pages: pages, after: map[string]int{"": 0}}
	for i, page := range pages {
		var records []struct{ ID json.Number }
		require.NoError(t, json.Unmarshal(page, &records))
		p.rows += len(records)
		p.after[records[len(records)-1].ID.String()] = i + 1
	}
	return p
}

func (p *pagesOf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil {
		n = 1
	}
	i := n - 1
	if r.URL.Path == "/keyed" {
		at, ok := p.after[r.URL.Query().Get("starting_after")]
		if !ok {
			http.Error(w, "no such record", http.StatusNotFound)
			return
		}
		i = at
	}
	page := []byte("[]")
	if i < len(p.pages) {
		page = p.pages[i]
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/numbered":
		fmt.Fprintf(w, `{"data":{"items":%s,"pagination":{"total":%d,"per_page":1000,"current_page":%d,"last_page":%d}}}`, page, p.rows, n, len(p.pages))
	case "/keyed":
		fmt.Fprintf(w, `{"data":%s,"has_more":%t}`, page, i+1 < len(p.pages))
	default:
		_, _ = w.Write(page)
	}
}

// listConfig writes a configuration that reads the list of contacts. Its rate limit is so high that it never delays a
// request. The caller gives the settings of the stream as YAML.
func listConfig(t *testing.T, dir, url, stream string, to target) string {
	t.Helper()
	path := filepath.Join(dir, "pipelines.yaml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `version: 1
sources:
  main:
    v2: {base_url: %s, auth: {api_key: sk_sandbox_readonly}, rate: 1000000/s}
destinations:
  warehouse: "%s"
pipelines:
  all: {from: main, to: [warehouse], streams: [v2.contacts]}
streams:
  v2.contacts: {%s}
`, url, to.url(), stream), 0o600))
	return path
}

const (
	byKey    = "path: /keyed, pagination: {type: since_id, page: starting_after, size: limit, limit: 1000}"
	byNumber = "path: /numbered, pagination: {type: page, page: page, size: per_page, limit: 1000}"
)

// workFigures returns the figures of single tasks.
func workFigures(t *testing.T, dir, ndjson string) []figure {
	bin := installed(t, dir, "../../bin/penstock")
	_, pages := firstRecords(t, ndjson, min(*rows, 200_000), 1000)
	lists := newPagesOf(t, pages)
	server := httptest.NewServer(lists)
	defer server.Close()
	return []figure{
		scriptFigure(t, bin, dir, server.URL),
		numberedFigure(t, bin, dir, server.URL),
		sourcesFigure(t, bin, dir),
		demoFigure(t, bin),
		deepFigure(t),
	}
}

// scriptFigure compares a sync into DuckDB with a script of twenty lines. The script gets one page after another,
// writes the pages to files, and loads the files with read_json.
func scriptFigure(t *testing.T, bin, dir, url string) figure {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	to := duckTarget{dir}
	config := listConfig(t, dir, url, byNumber, to)
	f := figure{what: "contacts over HTTP into DuckDB", base: "a script: get the pages, then read_json", unit: "s",
		ratio: faster, reach: ">= 1.5", holds: func(r float64) bool { return r >= 1.5 }}
	for range *pairs {
		to.reset(t, false)
		f.ours = append(f.ours, run(t, dir, bin, "sync", "-c", config, "--no-progress").wall)
		into := t.TempDir()
		f.than = append(f.than, run(t, dir, self, "-test.run", "^TestScriptBaseline$", "-baseline", url, "-into", into).wall)
		require.NoError(t, os.RemoveAll(into))
	}
	return f
}

// TestScriptBaseline runs the script with which scriptFigure compares penstock.
func TestScriptBaseline(t *testing.T) {
	if *baseline == "" {
		t.Skip("TestFigures runs this as a process")
	}
	for n := 1; ; n++ {
		resp, err := http.Get(fmt.Sprint(*baseline, "/array?page=", n))
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		if len(body) < 3 {
			break
		}
		require.NoError(t, os.WriteFile(filepath.Join(*into, fmt.Sprintf("%06d.json", n)), body, 0o600))
	}
	db, err := sql.Open("duckdb", filepath.Join(*into, "out.duckdb"))
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec(fmt.Sprintf("CREATE TABLE contacts AS SELECT * FROM read_json('%s/*.json', format = 'array')", *into))
	require.NoError(t, err)
}

// numberedFigure compares the CPU time of two first loads into Postgres. One reads the list by page numbers, and the
// other reads it by keys.
func numberedFigure(t *testing.T, bin, dir, url string) figure {
	t.Helper()
	to := newPostgresTarget(t)
	f := figure{what: "contacts by page number into Postgres, CPU", base: "the same contacts by key", unit: "s",
		ratio: share, reach: "<= 1.1", holds: func(r float64) bool { return r <= 1.1 }}
	for range *pairs {
		for _, form := range []string{byNumber, byKey} {
			to.reset(t, false)
			cpu := run(t, dir, bin, "sync", "-c", listConfig(t, dir, url, form, to), "--no-progress").cpu
			if form == byNumber {
				f.ours = append(f.ours, cpu)
			} else {
				f.than = append(f.than, cpu)
			}
		}
	}
	return f
}

// sourcesFigure compares the CPU time of two kinds of runs: with the default heap, and with a heap of 1 GiB. The runs
// read six sources, in which no record has changed.
func sourcesFigure(t *testing.T, bin, dir string) figure {
	t.Helper()
	sandbox := startSandbox(t, bin, dir, 1000)
	defer sandbox.stop()
	to := newPostgresTarget(t)
	to.reset(t, false)
	var sources strings.Builder
	for i := range 6 {
		fmt.Fprintf(&sources, "  s%d: {app: {base_url: %[2]s, auth: {token: pat_sandbox_readonly}, rate: 1000000/s}, v2: {base_url: %[2]s, auth: {api_key: sk_sandbox_readonly}, rate: 1000000/s}}\n", i, sandbox.url)
	}
	path := filepath.Join(dir, "six.yaml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `version: 1
sources:
%sdestinations:
  warehouse: {url: "%s", schema: "ws_{source}"}
pipelines:
  all: {from: "*", to: [warehouse]}
`, sources.String(), to.url()), 0o600))
	sync := func(env ...string) float64 {
		return run(t, dir, "env", append(env, bin, "sync", "-c", path, "--no-progress")...).cpu
	}
	sync()
	sync()
	f := figure{what: "Postgres, 6 sources, nothing changed: CPU", base: "the same with a heap of 1 GiB", unit: "s",
		ratio: share, reach: "<= 1.1", holds: func(r float64) bool { return r <= 1.1 }}
	for range *pairs {
		f.ours, f.than = append(f.ours, sync()), append(f.than, sync(heapEnv+"=1GiB"))
	}
	return f
}

// demoFigure measures the size of the DuckDB file that `make demo` creates.
func demoFigure(t *testing.T, bin string) figure {
	t.Helper()
	dir := t.TempDir()
	run(t, dir, bin, "sandbox", "demo", "--dir", dir)
	files, err := filepath.Glob(filepath.Join(dir, "*.duckdb"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	info, err := os.Stat(files[0])
	require.NoError(t, err)
	return figure{what: "DuckDB file of the demo", base: "the bound", unit: "MB", ours: []float64{float64(info.Size()) / 1e6}, than: []float64{10},
		ratio: share, reach: "<= 1", holds: func(r float64) bool { return r <= 1 }}
}

// deepFigure measures how long it takes to map six records. One of the records has objects that are nested 200 levels
// deep.
func deepFigure(t *testing.T) figure {
	t.Helper()
	var page bytes.Buffer
	page.WriteString(`[{"id":1,"a":` + strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200) + "}")
	for i := range 5 {
		fmt.Fprintf(&page, `,{"id":%d,"a":1}`, i+2)
	}
	page.WriteByte(']')
	f := figure{what: "six records, one nested 200 deep", base: "the bound", unit: "ms", ratio: share,
		reach: "<= 1", holds: func(r float64) bool { return r <= 1 }}
	for range *pairs {
		s := schemas.Stream{Table: schemas.Table{Name: "t", Key: []string{"id"}}, Name: "m.t"}
		begin := time.Now()
		m := transform.NewMapper(s, transform.Stamp{Run: transformRun, SyncedAt: time.Unix(0, 0), Via: "poll"}, nil)
		_, err := m.Append(page.Bytes())
		require.NoError(t, err)
		batches, _ := m.Flush()
		f.ours, f.than = append(f.ours, float64(time.Since(begin).Microseconds())/1000), append(f.than, 10)
		for _, b := range batches {
			b.Batch.Release()
		}
		m.Close()
	}
	return f
}
