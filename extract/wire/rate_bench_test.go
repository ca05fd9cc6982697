package wire

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkLimit reads for some seconds, over real sockets, from servers that take 200 ms to answer. It reports
// the share of the limit that was used in the last seconds, the number of refused requests, and the guard.
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
	l := &link{counter: models(limit)[kind], headers: true, retry: "reset"}
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
	used := float64(between(l.arrivals, from, from.Add(counted))) / float64(limit) / counted.Seconds()
	b.ReportMetric(100*used, "%used")
	b.ReportMetric(float64(len(l.refused)), "429s")
	b.ReportMetric(float64(c.Governor().Stats().Guard)/1e6, "ms-guard")
	b.ReportMetric(float64(maxInWindow(l.arrivals, time.Second)), "most/s")
	b.ReportMetric(0, "ns/op")
}

// serve returns a client of a server that counts like l and answers slowly.
func serve(b *testing.B, l *link, limit int) *Client {
	b.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp := l.arrive()
		time.Sleep(200 * time.Millisecond)
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		if resp.StatusCode != http.StatusOK {
			w.WriteHeader(resp.StatusCode)
		}
		good(w, r)
	}))
	g := NewGovernor(Budget{Rate: Rate{limit, time.Second}})
	require.NoError(b, g.Share(b.TempDir(), account))
	c, err := New(Options{BaseURL: srv.URL, Allow: reads, Governor: g})
	require.NoError(b, err)
	b.Cleanup(func() {
		srv.Close()
		require.NoError(b, c.Close())
		require.NoError(b, g.Close())
	})
	return c
}
