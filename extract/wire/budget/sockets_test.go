package budget_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/extract/wire/budget"
)

// The tests in this file send requests with a client, over real sockets.

var (
	reads    = []wire.Route{{Method: "GET", Path: "/v2/contacts"}}
	contacts = wire.Request{Path: "/v2/contacts"}
)

func good(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"data":[{"id":1}]}`)
}

// BenchmarkLimit reads for some seconds over real sockets, from servers that take 200 ms to answer. It reports the
// used share of the limit in the last seconds, the number of refused requests, and the guard.
func BenchmarkLimit(b *testing.B) {
	for _, limit := range []int{100, 500, 2000} {
		for _, kind := range []string{"fixed", "sliding", "bucket"} {
			b.Run(fmt.Sprintf("%s %d", kind, limit), func(b *testing.B) {
				for b.Loop() {
					usesLimit(b, kind, limit)
				}
			})
		}
	}
}

func usesLimit(b *testing.B, kind string, limit int) {
	const span, counted = 9 * time.Second, 3 * time.Second
	l := budget.NewLink(kind, budget.Rate{Limit: limit, Window: time.Second})
	c := serve(b, l, limit)
	begin := time.Now()
	var wg sync.WaitGroup
	for range limit/2 + 8 {
		wg.Go(func() {
			for time.Since(begin) < span {
				if resp, err := c.Read(b.Context(), contacts); err == nil {
					resp.Release()
				}
			}
		})
	}
	wg.Wait()
	from := begin.Add(span - counted)
	used := float64(budget.Between(l.Arrivals, from, from.Add(counted))) / float64(limit) / counted.Seconds()
	b.ReportMetric(100*used, "%used")
	b.ReportMetric(float64(len(l.Refused)), "429s")
	b.ReportMetric(float64(c.Governor().Stats().Guard)/1e6, "ms-guard")
	b.ReportMetric(float64(budget.MaxInWindow(l.Arrivals, time.Second)), "most/s")
	b.ReportMetric(0, "ns/op")
}

// serve returns a client of a server that counts like l, and answers slowly.
func serve(b *testing.B, l *budget.Link, limit int) *wire.Client {
	b.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		resp := l.Arrive()
		time.Sleep(200 * time.Millisecond)
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		if resp.StatusCode != http.StatusOK {
			w.WriteHeader(resp.StatusCode)
		}
		good(w)
	}))
	g := budget.New(budget.Plan{Rate: budget.Rate{Limit: limit, Window: time.Second}})
	require.NoError(b, g.ShareFile(b.TempDir(), "budget"))
	c, err := wire.New(wire.Options{BaseURL: srv.URL, Allow: reads, Governor: g})
	require.NoError(b, err)
	b.Cleanup(func() {
		srv.Close()
		require.NoError(b, c.Close())
		require.NoError(b, g.Close())
	})
	return c
}

// With real sockets and clocks on a busy machine, the server never counts more requests than its limit.
func TestGovernorOverSockets(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, limit := range []int{100, 1000} {
		l := budget.NewLink("sliding", budget.Rate{Limit: limit, Window: time.Second})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			resp := l.Arrive()
			time.Sleep(20 * time.Millisecond)
			for name, values := range resp.Header {
				w.Header()[name] = values
			}
			if resp.StatusCode != http.StatusOK {
				w.WriteHeader(resp.StatusCode)
			}
			good(w)
		}))
		defer server.Close()
		c, err := wire.New(wire.Options{BaseURL: server.URL, Allow: reads, Rate: budget.Rate{Limit: limit, Window: time.Second}})
		require.NoError(t, err)
		var wg sync.WaitGroup
		end := time.Now().Add(2500 * time.Millisecond)
		for range 64 {
			wg.Go(func() {
				for time.Now().Before(end) {
					resp, err := c.Read(t.Context(), contacts)
					require.NoError(t, err)
					resp.Release()
				}
			})
		}
		wg.Wait()
		t.Logf("%d/s: %d requests, guard %s", limit, len(l.Arrivals), c.Governor().Stats().Guard)
		require.NoError(t, c.Close())
		require.Empty(t, l.Refused)
		require.LessOrEqual(t, budget.MaxInWindow(l.Arrivals, time.Second), limit)
	}
}

// Real processes with real sockets use the budget together, and never exceed it.
func TestShareProcesses(t *testing.T) {
	if env := os.Getenv("PENSTOCK_TEST_SHARE"); env != "" {
		runChild(t, env)
		return
	}
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, tt := range []struct{ processes, limit int }{{2, 200}, {4, 600}} {
		t.Run(fmt.Sprintf("%d processes %d a second", tt.processes, tt.limit), func(t *testing.T) {
			sharedByProcesses(t, tt.processes, tt.limit)
		})
	}
}

// childTask is the task of a child process.
type childTask struct {
	URL, Dir string
	Limit    int
	Seconds  int
}

func runChild(t *testing.T, env string) {
	var a childTask
	require.NoError(t, json.Unmarshal([]byte(env), &a))
	g := budget.New(budget.Plan{Rate: budget.Rate{Limit: a.Limit, Window: time.Second}})
	require.NoError(t, g.ShareFile(a.Dir, "budget"))
	c, err := wire.New(wire.Options{BaseURL: a.URL, Allow: reads, Governor: g})
	require.NoError(t, err)
	var wg sync.WaitGroup
	end := time.Now().Add(time.Duration(a.Seconds) * time.Second)
	for range 16 {
		wg.Go(func() {
			for time.Now().Before(end) {
				resp, err := c.Read(t.Context(), contacts)
				require.NoError(t, err)
				resp.Release()
			}
		})
	}
	wg.Wait()
	require.NoError(t, c.Close())
	require.NoError(t, g.Close())
}

func sharedByProcesses(t *testing.T, processes, limit int) {
	const seconds = 6
	l := budget.NewLink("sliding", budget.Rate{Limit: limit, Window: time.Second})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		resp := l.Arrive()
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		if resp.StatusCode != http.StatusOK {
			w.WriteHeader(resp.StatusCode)
		}
		good(w)
	}))
	defer server.Close()
	env, err := json.Marshal(childTask{server.URL, t.TempDir(), limit, seconds})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestShareProcesses$")
			child.Env = append(os.Environ(), "PENSTOCK_TEST_SHARE="+string(env))
			out, err := child.CombinedOutput()
			require.NoError(t, err, string(out))
		})
	}
	wg.Wait()
	require.LessOrEqual(t, budget.MaxInWindow(l.Arrivals, time.Second), limit) // MaxInWindow sorts l.Arrivals
	from := l.Arrivals[0].Add(2500 * time.Millisecond)                         // the first seconds are left out, because they are five percent slower
	used := float64(budget.Between(l.Arrivals, from, from.Add(3*time.Second))) / float64(3*limit)
	t.Logf("%d requests, used %.1f%%, most %d", len(l.Arrivals), 100*used, budget.MaxInWindow(l.Arrivals, time.Second))
	require.Empty(t, l.Refused, "429s")
	require.GreaterOrEqual(t, used, 0.95, "used share")
}
