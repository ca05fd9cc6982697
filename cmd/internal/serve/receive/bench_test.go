package receive

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/signature"
)

// BenchmarkDeliver sends bodies of 1 kB over 64 connections. Senders and receiver share the machine.
func BenchmarkDeliver(b *testing.B) {
	r := newRig(b)
	r.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = 64
	var next atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	const each = 20
	for b.Loop() {
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				for range each {
					body := fmt.Sprintf(`{"id":"evt_%d","type":"crm.lead.created","data":%01000d}`, next.Add(1), 1)
					start := time.Now()
					if a := r.deliver(b, body); a.status != 200 {
						b.Errorf("%d %s", a.status, a.body)
					}
					mu.Lock()
					took = append(took, time.Since(start))
					mu.Unlock()
				}
			})
		}
		all.Wait()
	}
	slices.Sort(took)
	b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

func BenchmarkRefuse(b *testing.B) {
	v := verifier(b)
	body := []byte(fmt.Sprintf(`{"id":"evt_1","data":%01000d}`, 1))
	d := signature.Delivery{Method: "POST", Path: "/webhooks/main", Body: body, Header: map[string][]string{"Service-Signature": {sign([]byte("another"))}}}
	now := time.Now()
	for b.Loop() {
		_, err := v.Verify(now, d)
		require.Error(b, err)
	}
}
