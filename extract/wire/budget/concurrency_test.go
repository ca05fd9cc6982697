package budget

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// reads acts as a reader: it sends the given number of requests, or stops at the given time. It has as many requests
// under way as the governor allows, and returns the largest number that were under way at once.
func (l *link) reads(t *testing.T, g *Governor, end time.Time, requests int) (peak int) {
	answered := make(chan struct{}, mostConcurrency)
	underWay := 0
	var wg sync.WaitGroup
	for sent := 0; sent < requests && time.Now().Before(end); {
		_, most := g.Room()
		for ; underWay < most && sent < requests; underWay, sent = underWay+1, sent+1 {
			wg.Go(func() {
				if err := l.ask(t, g); err != nil {
					t.Error(err)
				}
				answered <- struct{}{}
			})
		}
		peak = max(peak, underWay)
		<-answered
		underWay--
	}
	wg.Wait()
	return peak
}

// The number of requests under way follows the rate and the latency. No server answers 429. If there are enough
// connections, the whole limit is used. Without -short, the test reads for an hour of virtual time. // Invariant 4
func TestConcurrency(t *testing.T) {
	for _, limit := range []int{1, 10, 100, 500, 2000} {
		for _, latency := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second} {
			t.Run(fmt.Sprintf("%d a second, %s", limit, latency), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					l := &link{counter: &slidingWindow{limit: limit, window: time.Second}, latency: latency, jitter: latency / 50, headers: true}
					g := New(Plan{Rate: Rate{limit, time.Second}})
					span, most := time.Hour, 1<<30
					if testing.Short() {
						span, most = 10*time.Minute, max(30*limit, 300)
						most = min(most, 20_000)
					}
					begin := time.Now()
					peak := l.reads(t, g, begin.Add(span), most)
					slices.SortFunc(l.Arrivals, time.Time.Compare)
					took := l.Arrivals[len(l.Arrivals)-1].Sub(begin)
					half := l.Arrivals[len(l.Arrivals)/2]
					used := float64(len(l.Arrivals)-len(l.Arrivals)/2) / l.Arrivals[len(l.Arrivals)-1].Sub(half).Seconds() / float64(limit)
					t.Logf("%d requests in %s, used %.1f%%, %d under way", len(l.Arrivals), took, 100*used, peak)
					require.Empty(t, l.Refused, "429s")
					require.LessOrEqual(t, maxInWindow(l.Arrivals, time.Second), limit)
					require.LessOrEqual(t, float64(peak), 1.5*float64(limit)*latency.Seconds()+max(leastConcurrency, float64(limit)/4)+1)
					if needed := float64(limit) * latency.Seconds(); latency <= 200*time.Millisecond && needed <= mostConcurrency {
						require.GreaterOrEqual(t, used, 0.95, "used share")
					}
				})
			})
		}
	}
}

// pool is a server with a fixed number of workers. Requests wait for a worker.
type pool struct {
	workers chan struct{}
	work    time.Duration
	mu      sync.Mutex
	waiting int
	peak    int
}

func (p *pool) ask(t *testing.T, g *Governor) {
	s, err := g.Take(t.Context(), time.Minute)
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Done()
	s.Sent()
	p.count(1)
	p.workers <- struct{}{}
	time.Sleep(p.work)
	<-p.workers
	p.count(-1)
	s.Answered(&http.Response{StatusCode: http.StatusOK, Header: http.Header{}})
}

func (p *pool) count(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting += n
	p.peak = max(p.peak, p.waiting)
}

// A busy server may give as many answers per second to fewer concurrent requests. Then the governor sends fewer
// requests at once.
func TestConcurrencyOfBusyServer(t *testing.T) {
	for _, workers := range []int{4, 10, 60} {
		bubble(t, func(t *testing.T) {
			p := &pool{workers: make(chan struct{}, workers), work: 200 * time.Millisecond}
			g := New(Plan{Rate: Rate{2000, time.Second}})
			end := time.Now().Add(5 * time.Minute)
			var wg sync.WaitGroup
			for range 500 {
				wg.Go(func() {
					for time.Now().Before(end) {
						p.ask(t, g)
					}
				})
			}
			time.Sleep(4 * time.Minute)
			_, most := g.Room()
			wg.Wait()
			t.Logf("%d workers: at most %d requests at once, %d in the end", workers, p.peak, most)
			require.LessOrEqual(t, most, max(4*workers, leastConcurrency))
			require.GreaterOrEqual(t, most, min(workers, leastConcurrency))
		})
	}
}
