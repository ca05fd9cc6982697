//go:build cgo && duckdb_arrow && unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// distant is a server that answers after 200 ms. It counts requests in sliding windows of a second. Its lists state
// their number of pages.
type distant struct {
	limit, pages int

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
	page, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil {
		page = 1
	}
	var records []string
	for i := range 20 {
		if page <= d.pages {
			records = append(records, fmt.Sprintf(`{"id":%d,"name":"record"}`, 20*page+i))
		}
	}
	fmt.Fprintf(w, `{"data":{"items":[%s],"pagination":{"total":%d,"per_page":20,"current_page":%d,"last_page":%d}}}`, strings.Join(records, ","), 20*d.pages, page, d.pages)
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

// latencyFigures compares two numbers: the requests that a slow server receives from a first run, and the requests that
// the server's limit allows.
func latencyFigures(t *testing.T, dir string) (out []figure) {
	bin := installed(t, dir, "../../bin/penstock")
	for _, limit := range []int{100, 500} {
		for _, lists := range []int{1, 10, 149} {
			f := figure{what: fmt.Sprintf("first run, %d lists, 200 ms, %d/s allowed", lists, limit), base: "requests a second that the limit allows", unit: "/s",
				ratio: share, reach: ">= 0.95", holds: func(r float64) bool { return r >= 0.95 }}
			for range *pairs {
				d := &distant{limit: limit, pages: 30 * limit / lists}
				srv := httptest.NewServer(d)
				run(t, dir, bin, "sync", "-c", distantConfig(t, srv.URL, limit, lists), "--no-progress")
				srv.Close()
				require.Zero(t, d.refused, "429s")
				span := d.arrivals[len(d.arrivals)-1].Sub(d.arrivals[0]).Seconds()
				f.ours, f.than = append(f.ours, float64(len(d.arrivals))/span), append(f.than, float64(limit))
			}
			out = append(out, f)
		}
	}
	return out
}

func distantConfig(t *testing.T, url string, limit, lists int) string {
	t.Helper()
	dir := t.TempDir()
	var names, streams []string
	for i := range lists {
		names = append(names, fmt.Sprintf("far.list%03d", i))
		streams = append(streams, fmt.Sprintf("  far.list%03d: {path: /api/list%03d}\n", i, i))
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
