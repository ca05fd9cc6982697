//go:build cgo && duckdb_arrow && unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// distant is a server that answers after 200 ms. It counts requests in sliding windows of a second. If its field
// `keyed` is false, each list states its number of pages. If `keyed` is true, a list does not state this number, and a
// client requests the page after an id: starting_after=17.
type distant struct {
	limit, pages, size int
	keyed              bool

	mu       sync.Mutex
	arrivals []time.Time
	refused  int
}

const distantLatency = 200 * time.Millisecond

func (d *distant) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	left, ok := d.arrive()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-RateLimit-Limit", strconv.Itoa(d.limit))
	w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(left))
	w.Header().Set("X-RateLimit-Reset", "1")
	if !ok {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	time.Sleep(distantLatency)
	if d.keyed {
		d.after(w, r.URL.Query().Get("starting_after"))
		return
	}
	page, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil {
		page = 1
	}
	fmt.Fprintf(w, `{"data":{"items":[%s],"pagination":{"total":%d,"per_page":%d,"current_page":%d,"last_page":%d}}}`,
		d.records((page-1)*d.size), d.size*d.pages, d.size, page, d.pages)
}

// after() responds with the page that begins after the record with the given id.
func (d *distant) after(w http.ResponseWriter, id string) {
	after, _ := strconv.Atoi(id)
	from := sort.Search(d.size*d.pages, func(i int) bool { return distantID(i) > after })
	fmt.Fprintf(w, `{"data":[%s],"has_more":%t}`, d.records(from), from+d.size < d.size*d.pages)
}

// distantID returns the id of the record at index i. There are gaps between the ids.
func distantID(i int) int { return 1000 + 500*i + i*i%401 }

func (d *distant) records(from int) string {
	var records []string
	for i := from; i < min(from+d.size, d.size*d.pages); i++ {
		records = append(records, fmt.Sprintf(`{"id":%d,"name":"record"}`, distantID(i)))
	}
	return strings.Join(records, ",")
}

func (d *distant) arrive() (left int, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, n := time.Now(), 0
	for n < len(d.arrivals) && now.Sub(d.arrivals[len(d.arrivals)-1-n]) < time.Second {
		n++
	}
	if n >= d.limit {
		d.refused++
		return 0, false
	}
	d.arrivals = append(d.arrivals, now)
	return d.limit - n - 1, true
}

// latencyFigures compares two numbers: how many requests per second a slow server receives from a first run, and how
// many requests per second the server's limit allows.
func latencyFigures(t *testing.T, dir string) (out []figure) {
	bin := installed(t, dir, "../../bin/penstock")
	for _, limit := range []int{100, 500} {
		for _, lists := range []int{1, 10, 149} {
			f := figure{what: fmt.Sprintf("first run, %d lists, 200 ms, %d/s allowed", lists, limit), base: "requests a second that the limit allows", unit: "/s",
				ratio: share, reach: ">= 0.95", holds: func(r float64) bool { return r >= 0.95 }}
			for range *pairs {
				d := &distant{limit: limit, pages: 30 * limit / lists, size: 20}
				span := d.read(t, dir, bin, lists, "")
				f.ours, f.than = append(f.ours, float64(len(d.arrivals))/span), append(f.than, float64(limit))
			}
			out = append(out, f)
		}
	}
	return append(out, cursorFigure(t, dir, bin))
}

// cursorFigure compares two ways to read a list of 20,000 records: by ids (starting_after=17) and by page numbers
// (page=2). When the list is read by ids, no response says how many pages follow.
func cursorFigure(t *testing.T, dir, bin string) figure {
	f := figure{what: "first run, 200 pages by ids, 200 ms, 100/s allowed", base: "the same list by page numbers", unit: "s",
		ratio: share, reach: "<= 1.3", holds: func(r float64) bool { return r <= 1.3 }}
	for range *pairs {
		byID := &distant{limit: 100, pages: 200, size: 100, keyed: true}
		f.ours = append(f.ours, byID.read(t, dir, bin, 1, ", key: [id], records: /data, pagination: {type: since_id, page: starting_after, size: limit, limit: 100}"))
		byPage := &distant{limit: 100, pages: 200, size: 100}
		f.than = append(f.than, byPage.read(t, dir, bin, 1, ""))
		t.Logf("%d requests by ids, %d by page numbers", len(byID.arrivals), len(byPage.arrivals))
	}
	return f
}

// read runs penstock, and returns the time from the first request to the last.
func (d *distant) read(t *testing.T, dir, bin string, lists int, more string) (seconds float64) {
	t.Helper()
	srv := httptest.NewServer(d)
	defer srv.Close()
	run(t, dir, bin, "sync", "-c", distantConfig(t, srv.URL, d.limit, lists, more), "--no-progress")
	require.Zero(t, d.refused, "429s")
	return d.arrivals[len(d.arrivals)-1].Sub(d.arrivals[0]).Seconds()
}

// distantConfig writes a configuration. The argument `more` has the settings of each list except its path.
func distantConfig(t *testing.T, url string, limit, lists int, more string) string {
	t.Helper()
	dir := t.TempDir()
	var names, streams []string
	for i := range lists {
		names = append(names, fmt.Sprintf("far.list%03d", i))
		streams = append(streams, fmt.Sprintf("  far.list%03d: {path: /api/list%03d%s}\n", i, i, more))
	}
	path := filepath.Join(dir, "pipelines.yaml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `version: 1
sources:
  main:
    app: {base_url: %s, auth: {token: distant}, rate: %d/s}
destinations:
  warehouse: "parquet://%s"
pipelines:
  all: {from: main, to: [warehouse], streams: [%s]}
streams:
%s`, url, limit, filepath.Join(dir, "out"), strings.Join(names, ", "), strings.Join(streams, "")), 0o600))
	return path
}
